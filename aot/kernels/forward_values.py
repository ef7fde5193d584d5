"""Values of the scalar arguments of forward kernels: host arithmetic that the kernels then need not do."""

from __future__ import annotations

from aot.kernels.arguments import FORWARD, K_COUNTER, with_pairs
from aot.kernels.counter import Radix
from aot.kernels.limits import UNIFORM_TAP_LIMIT, check_limits
from cache_schema.problem import ELEM_BYTES, TENSOR_BYTES_LIMIT, ConvProblem
from grids import geometry
from grids.addressing import canonical
from grids.gemm.records import Forward

_WORD = 2**32


def forward_values(identity: Forward, problem: ConvProblem) -> dict[str, int]:
    """Every argument of `forward_arguments` except the pointers.

    Raises `ProblemError` for extents beyond what 32-bit coordinates hold; serving rules keep such problems away.
    """
    check_limits(identity, problem)
    p, tile_k, elem = canonical(problem), identity.tile_k, ELEM_BYTES[identity.dtype_a]
    gemm = geometry.gemm_extents(p)
    dil_h, dil_w = p.dilation_h, p.dilation_w
    # The distance of windows is of no consequence along an axis that has one.
    stride_h, stride_w = (p.stride_h if p.ho > 1 else 1), (p.stride_w if p.wo > 1 else 1)
    pixel, row = p.c * elem, p.w * p.c * elem
    tap, tap_row = dil_w * pixel, dil_h * row
    origin = p.pad_h * row + p.pad_w * pixel
    uniform = p.cpg % tile_k == 0 and p.y * p.x <= UNIFORM_TAP_LIMIT and p.x_bytes + origin <= TENSOR_BYTES_LIMIT - 1
    channels_back = (p.cpg - tile_k) * elem
    tap_step = tap - channels_back
    row_step = tap_row - (p.x - 1) * tap - channels_back
    return with_pairs(FORWARD, {
        "A_bytes": p.x_bytes, "B_bytes": p.w_bytes, "D_bytes": p.y_bytes,
        "p_M": gemm.m, "p_K_gemm": gemm.k, "p_cpg": p.cpg, "p_kpg": p.kpg, "p_K": p.k,
        "p_Hi": p.h, "p_Wi": p.w, "p_Ho": p.ho, "p_Wo": p.wo, "p_sH": stride_h, "p_sW": stride_w,
        "p_pH": p.pad_h, "p_pW": p.pad_w, "p_Y": p.y, "p_X": p.x, "p_dH": dil_h, "p_dW": dil_w,
        "a_n_bytes": p.h * row % _WORD, "a_ho_bytes": stride_h * row % _WORD,
        "a_wo_bytes": stride_w * pixel % _WORD, "a_y_bytes": tap_row % _WORD, "a_x_bytes": tap % _WORD,
        "a_origin_bytes": origin % _WORD,
        "k_tiles": geometry.ceil_div(gemm.k, tile_k), "uniform_taps": int(uniform),
        "u_tap_step_bytes": tap_step % _WORD, "u_row_step_bytes": row_step % _WORD,
        "u_row_ends": sum(1 << 31 - (y * p.x + p.x - 1) for y in range(p.y)) if uniform else 0,
        "g_y_extent": p.y * dil_h,
        **K_COUNTER.values(tile_k, {
            "c": Radix(p.cpg, elem), "x": Radix(p.x, tap, dil_w), "y": Radix(p.y, tap_row, dil_h),
        }),
    })  # fmt: skip
