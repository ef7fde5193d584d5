"""Which Triton kernels are compiled: plain data, read inside the Triton environment and by the tests.

A variant is one kernel of `kernels.py` with dtypes, tile sizes and launch options. Committed variants are stored as
code objects in `data/`, the others are compiled by the exhaustive run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ARCHITECTURES = ("gfx942", "gfx950")

#: Scalar arguments of each kernel in order; the pointers before them are in `Variant.pointers`.
SCALARS = {
    "gemm": ("m_extent", "n_extent", "k_extent", "a_stride", "b_stride", "c_stride"),
    "softmax": ("n_cols", "x_stride", "y_stride"),
    "attention": ("length", "scale_log2"),
    "scatter_add": ("count",),
    "row_add": ("n_rows", "n_cols"),
    "conv": (
        "n_extent", "h_extent", "w_extent", "c_extent", "k_extent", "r_extent", "s_extent", "p_extent", "q_extent",
        "stride_h", "stride_w", "pad_h", "pad_w", "dil_h", "dil_w",
    ),
}  # fmt: skip

POINTERS = {
    "gemm": ("a", "b", "c"),
    "softmax": ("x", "y"),
    "attention": ("q", "k", "v", "o"),
    "scatter_add": ("x", "index", "y"),
    "row_add": ("x", "y"),
    "conv": ("x", "w", "y"),
}

FLOAT_SCALARS = {"scale_log2"}


@dataclass(frozen=True)
class Variant:
    """One compilation: `pointers` holds the Triton element types in the order of POINTERS[kernel]."""

    name: str
    kernel: str
    pointers: tuple[str, ...]
    constants: dict[str, int]
    warps: int = 4
    stages: int = 2
    #: Scalars promised to be multiples of 16, which lets Triton use wide and direct-to-LDS loads.
    aligned: tuple[str, ...] = ()
    committed: bool = False
    options: dict[str, int] = field(default_factory=dict)


def _tile(m: int, n: int, k: int) -> dict[str, int]:
    return {"TILE_M": m, "TILE_N": n, "TILE_K": k}


_STRIDES = ("a_stride", "b_stride", "c_stride")

VARIANTS = (
    Variant("gemm_bf16_64x64x32", "gemm", ("bf16", "bf16", "bf16"), _tile(64, 64, 32), committed=True),
    Variant(
        "gemm_fp16_128x64x64_aligned", "gemm", ("fp16", "fp16", "fp32"), _tile(128, 64, 64),
        aligned=_STRIDES, committed=True,
    ),
    # Whole rows of 16 bytes in both operands: three tiles in flight, and on gfx950 loads to LDS of 16 bytes a lane.
    Variant("gemm_bf16_64x64x64_direct", "gemm", ("bf16", "bf16", "fp32"), _tile(64, 64, 64), stages=3,
            aligned=(*_STRIDES, "n_extent", "k_extent"), committed=True),
    Variant("gemm_bf16_32x32x64_1w", "gemm", ("bf16", "bf16", "fp32"), _tile(32, 32, 64), warps=1),
    Variant("gemm_bf16_16x16x32_1w", "gemm", ("bf16", "bf16", "fp32"), _tile(16, 16, 32), warps=1),
    Variant("gemm_bf16_128x128x64_aligned", "gemm", ("bf16", "bf16", "bf16"), _tile(128, 128, 64), aligned=_STRIDES),
    Variant("gemm_fp16_64x128x32_3s", "gemm", ("fp16", "fp16", "fp16"), _tile(64, 128, 32), stages=3),
    Variant("gemm_fp16_64x64x64_16x16", "gemm", ("fp16", "fp16", "fp32"), _tile(64, 64, 64),
            options={"matrix_instr_nonkdim": 16}),
    Variant("gemm_bf16_64x64x64_32x32", "gemm", ("bf16", "bf16", "fp32"), _tile(64, 64, 64),
            options={"matrix_instr_nonkdim": 32}),
    Variant("gemm_fp32_32x32x32", "gemm", ("fp32", "fp32", "fp32"), _tile(32, 32, 32)),
    Variant("softmax_fp32_256", "softmax", ("fp32", "fp32"), {"TILE": 256}, committed=True),
    Variant("softmax_bf16_1024", "softmax", ("bf16", "bf16"), {"TILE": 1024}),
    Variant("softmax_fp16_64_1w", "softmax", ("fp16", "fp16"), {"TILE": 64}, warps=1),
    Variant("attention_fp16_64x32", "attention", ("fp16",) * 4, {"HEAD": 32, "TILE_M": 64, "TILE_N": 32},
            committed=True),
    Variant("attention_bf16_64x64", "attention", ("bf16",) * 4, {"HEAD": 64, "TILE_M": 64, "TILE_N": 64}),
    Variant("scatter_add_fp32", "scatter_add", ("fp32", "i32", "fp32"), {"TILE": 256}, committed=True),
    Variant("row_add_fp16", "row_add", ("fp16", "fp16"), {"TILE": 256}, committed=True),
    Variant("row_add_bf16", "row_add", ("bf16", "bf16"), {"TILE": 256}, committed=True),
    Variant("scatter_add_fp16", "scatter_add", ("fp16", "i32", "fp16"), {"TILE": 256}),
    Variant("scatter_add_bf16", "scatter_add", ("bf16", "i32", "bf16"), {"TILE": 256}),
    Variant("row_add_fp32", "row_add", ("fp32", "fp32"), {"TILE": 256}),
    Variant("conv_bf16_64x64x32", "conv", ("bf16", "bf16", "bf16"), _tile(64, 64, 32), committed=True),
    Variant("conv_fp16_128x64x32_aligned", "conv", ("fp16", "fp16", "fp16"), _tile(128, 64, 32),
            aligned=("c_extent", "k_extent")),
)  # fmt: skip
