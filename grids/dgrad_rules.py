"""The rules of backward-data kernels: D1 to D12 are the published validator's, D5b and D9b what our builder needs."""

from __future__ import annotations

from grids.geometry import MAX_ACCUMULATORS, clamped_width
from grids.policies import k_outer_possible
from grids.probe import probe
from grids.rule import Mask, Rows, Rule
from grids.tilde import sub_gemms


def _sub_gemms_fit(rows: Rows) -> Mask:
    """The records of the probe fit the table; a binary for any stride is judged at stride 2."""
    folded, strided = (len(sub_gemms(probe("dgrad", rows.dtype, stride=stride))) for stride in (1, 2))
    mask: Mask = rows.max_sub_gemms >= folded + (strided - folded) * (rows.stride_h != 1)
    return mask


def _b_width(rows: Rows) -> Mask:
    # The widest load that shares B out evenly; B runs along its free axis in memory.
    width = clamped_width(rows=rows.tile_k, cols=rows.tile_n, threads=rows.threads, request=rows.vector_size_b)
    mask: Mask = width > 0
    return mask


def _b_can_be_k_outer(rows: Rows) -> Mask:
    possible = k_outer_possible(rows.target, rows.dtype, rows.warp_tile_n)
    mask: Mask = possible & rows.text("lds_layout", "default") & ~rows.wavelet
    return mask


DGRAD_RULES = (
    Rule("D1_sub_gemms", "the sub-GEMM table is too small", _sub_gemms_fit),
    Rule("D2_depthwise", "depthwise backward data is no GEMM", lambda r: (r.grouped == 0) | (r.cpg != 1)),
    Rule(
        "D3_tile",
        (
            "the tile is no multiple of waves times matrix instruction, the workgroup is too large, or the "
            "target has no such instruction"
        ),
        lambda r: r.tile_exists,
    ),
    Rule(
        "D4_store_width",
        "the default epilogue stores single elements only",
        lambda r: r.cshuffle | (r.vector_size_c == 1),
    ),
    Rule(
        "D5_split",
        "the split-K degree is less than one, or the target cannot split",
        lambda r: (r.split_k >= 1) & ((r.split_k == 1) | (r.wave_size == 64)),
    ),
    Rule("D5b_whole", "backward data is not split", lambda r: r.split_k == 1, builder=True),
    Rule(
        "D6_accumulators",
        "the accumulators of one lane exceed what it can hold without spilling",
        lambda r: r.accumulators <= MAX_ACCUMULATORS,
    ),
    Rule(
        "D7_k_loop",
        "backward data has a plain K loop and no chiplet swizzle",
        lambda r: ~r.is_async & (r.unroll_k == 0) & (r.chiplet_swizzle == 0),
    ),
    Rule("D8_lds", "the tiles do not fit in LDS", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
    Rule(
        "D9_load_a",
        "A loads of this width do not share the tile out evenly over the threads",
        lambda r: r.loads_evenly(r.tile_m, r.vector_size_a),
    ),
    Rule("D9b_load_b", "not even single elements share the B tile out evenly over the threads", _b_width, builder=True),
    Rule(
        "D10_wavelet",
        "the wavelet pipeline is for WMMA targets only",
        lambda r: ~r.wavelet | (r.target.wave_size == 32),
    ),
    Rule(
        "D11_wave32",
        "wave32 kernels are 16x16, mem or wavelet",
        lambda r: (r.wave_size == 64) | r.wave32_shape & r.text("pipeline", "mem", "wavelet"),
    ),
    Rule(
        "D12_k_outer",
        "a K-outer B tile needs transposing LDS reads and the default LDS layout",
        lambda r: (r.lds_k_outer == 0) | _b_can_be_k_outer(r),
    ),
)
