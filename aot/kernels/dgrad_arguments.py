"""Arguments of the backward-data kernels and their values. Both kinds of kernel take the same list.

Names follow those of the forward kernels: A is dY, B the weights, D is dX.
"""

from __future__ import annotations

from functools import cache

from aot.kernels.arguments import Group, listed, with_pairs
from aot.kernels.dgrad_table import Record, records_of
from aot.kernels.limits import UNIFORM_TAP_LIMIT, check_limits
from aot.kernels.magic import MagicDivisor
from cache_schema.arguments import ArgumentList
from cache_schema.problem import ELEM_BYTES, TENSOR_BYTES_LIMIT, ConvProblem
from grids.addressing import canonical
from grids.gemm.records import Dgrad
from grids.geometry import ceil_div

#: Tiles along N of every record.
N_TILES = MagicDivisor("p_num_pid_n", "n_tiles")
_DGRAD: tuple[Group, ...] = (
    ("ptr", "A B D sub_gemm_buf"),
    ("u32", "A_bytes B_bytes D_bytes"),
    # Extents of the single record of stride 1; channels.
    ("i32", "p_dg_M p_dg_K p_cpg p_kpg p_C"),
    ("i32", "p_Hi p_Wi p_Ho p_Wo p_Y p_X p_pH p_pW p_dH p_dW"),
    # Byte distances: images, rows and columns of dY; filters, rows and columns of W; images, rows and columns of dX.
    ("u32", "a_n_bytes a_ho_bytes a_wo_bytes b_k_bytes b_y_bytes b_x_bytes d_n_bytes d_hi_bytes d_wi_bytes"),
    ("i32", "p_num_pid_n"),
    N_TILES,
    ("i32", "num_sub_gemms uniform_taps"),
)


@cache
def dgrad_arguments() -> ArgumentList:
    """Arguments of every backward-data implicit-GEMM kernel."""
    return listed(_DGRAD)


def dgrad_values(identity: Dgrad, problem: ConvProblem) -> dict[str, int]:
    """Every argument of `dgrad_arguments` except the pointers.

    Raises `ProblemError` for extents beyond what 32-bit coordinates and the table hold.
    """
    p, elem, out = canonical(problem), ELEM_BYTES[identity.dtype_a], ELEM_BYTES[identity.dtype_d]
    check_limits(identity, p)
    found = records_of(identity, p)
    return with_pairs(_DGRAD, {
        "A_bytes": p.y_bytes, "B_bytes": p.w_bytes, "D_bytes": p.x_bytes,
        "p_dg_M": p.n * p.h * p.w, "p_dg_K": p.y * p.x * p.kpg, "p_cpg": p.cpg, "p_kpg": p.kpg, "p_C": p.c,
        "p_Hi": p.h, "p_Wi": p.w, "p_Ho": p.ho, "p_Wo": p.wo, "p_Y": p.y, "p_X": p.x,
        "p_pH": p.pad_h, "p_pW": p.pad_w, "p_dH": p.dilation_h, "p_dW": p.dilation_w,
        "a_n_bytes": p.ho * p.wo * p.k * elem, "a_ho_bytes": p.wo * p.k * elem, "a_wo_bytes": p.k * elem,
        "b_k_bytes": p.y * p.x * p.cpg * elem, "b_y_bytes": p.x * p.cpg * elem, "b_x_bytes": p.cpg * elem,
        "d_n_bytes": p.h * p.w * p.c * out, "d_hi_bytes": p.w * p.c * out, "d_wi_bytes": p.c * out,
        "p_num_pid_n": ceil_div(p.cpg, identity.tile_n),
        "num_sub_gemms": len(found), "uniform_taps": int(_has_uniform_taps(identity, p, found)),
    })  # fmt: skip


def _has_uniform_taps(identity: Dgrad, p: ConvProblem, found: list[Record]) -> bool:
    """Whether every K tile of every record lies inside one tap, and the scalar loop can hold the taps."""
    if p.kpg % identity.tile_k:
        return False
    pixel = p.k * ELEM_BYTES[identity.dtype_a]
    for record in found:
        taps_h, taps_w = record["y_dot_slice"], record["x_dot_slice"]
        reach_h, reach_w = -record["a_embed_h_coeff"] * (taps_h - 1), -record["a_embed_w_coeff"] * (taps_w - 1)
        origin = (reach_h * p.wo + reach_w) * pixel
        if taps_h * taps_w > UNIFORM_TAP_LIMIT or p.y_bytes + origin > TENSOR_BYTES_LIMIT - 1:
            return False
    return True
