"""Arguments of the backward-data kernels and their values. Both kinds of kernel take the same list.

Names follow those of the forward kernels: A is dY, B the weights, D is dX.
"""

from __future__ import annotations

from functools import cache

from aot.kernels.dgrad_table import MAX_RECORDS, Record, canonical, records_of, total_tiles
from aot.kernels.magic import DIVIDEND_LIMIT, magic_pair
from cache_schema.arguments import Argument, ArgumentList
from cache_schema.errors import ProblemError
from cache_schema.identity import Identity
from cache_schema.problem import ELEM_BYTES, TENSOR_BYTES_LIMIT, ConvProblem
from grids.geometry import ceil_div

_DGRAD = (
    ("ptr", "A B D sub_gemm_buf"),
    ("u32", "A_bytes B_bytes D_bytes"),
    # Extents of the single record of stride 1; channels.
    ("i32", "p_dg_M p_dg_K p_cpg p_kpg p_C"),
    ("i32", "p_Hi p_Wi p_Ho p_Wo p_Y p_X p_pH p_pW p_dH p_dW"),
    # Byte distances: images, rows and columns of dY; filters, rows and columns of W; images, rows and columns of dX.
    ("u32", "a_n_bytes a_ho_bytes a_wo_bytes b_k_bytes b_y_bytes b_x_bytes d_n_bytes d_hi_bytes d_wi_bytes"),
    # Tiles along N of every record, and its magic pair.
    ("i32", "p_num_pid_n"),
    ("u32", "n_tiles_mult n_tiles_shift"),
    ("i32", "num_sub_gemms uniform_taps"),
)
#: The uniform loop keeps one validity bit per tap; the tap behind the last one needs a bit too.
UNIFORM_TAP_LIMIT = 31
#: Coordinates of pixels and dilated taps, so that sums of two stay below 2^31 with room for the mark of an invalid row.
COORDINATE_LIMIT = 2**28
#: Row and column offsets of dX are added before the hardware compares: what marks a column lies behind every tensor.
OUTPUT_BYTES_LIMIT = 0x7FFFFFF0
#: Rows of an output tile are addressed by 32-bit byte offsets.
OUTPUT_ROW_BYTES_LIMIT = 2**23
#: Work items along x of a launch are 32 bits.
LAUNCH_LIMIT = 2**32


@cache
def dgrad_arguments() -> ArgumentList:
    """Arguments of every backward-data implicit-GEMM kernel."""
    return ArgumentList(tuple(Argument(name, kind) for kind, names in _DGRAD for name in names.split()))


def dgrad_values(identity: Identity, problem: ConvProblem) -> dict[str, int]:
    """Every argument of `dgrad_arguments` except the pointers.

    Raises `ProblemError` for extents beyond what 32-bit coordinates and the table hold.
    """
    p, elem = canonical(problem), ELEM_BYTES[identity.dtype_a]
    found = records_of(identity, p)
    _check_limits(identity, p, found)
    n_tiles = ceil_div(p.cpg, identity.tile_n)
    n_mult, n_shift = magic_pair(n_tiles)
    return {
        "A_bytes": p.y_bytes, "B_bytes": p.w_bytes, "D_bytes": p.x_bytes,
        "p_dg_M": p.n * p.h * p.w, "p_dg_K": p.y * p.x * p.kpg, "p_cpg": p.cpg, "p_kpg": p.kpg, "p_C": p.c,
        "p_Hi": p.h, "p_Wi": p.w, "p_Ho": p.ho, "p_Wo": p.wo, "p_Y": p.y, "p_X": p.x,
        "p_pH": p.pad_h, "p_pW": p.pad_w, "p_dH": p.dilation_h, "p_dW": p.dilation_w,
        "a_n_bytes": p.ho * p.wo * p.k * elem, "a_ho_bytes": p.wo * p.k * elem, "a_wo_bytes": p.k * elem,
        "b_k_bytes": p.y * p.x * p.cpg * elem, "b_y_bytes": p.x * p.cpg * elem, "b_x_bytes": p.cpg * elem,
        "d_n_bytes": p.h * p.w * p.c * elem, "d_hi_bytes": p.w * p.c * elem, "d_wi_bytes": p.c * elem,
        "p_num_pid_n": n_tiles, "n_tiles_mult": n_mult, "n_tiles_shift": n_shift,
        "num_sub_gemms": len(found), "uniform_taps": int(_has_uniform_taps(identity, p, found)),
    }  # fmt: skip


def _has_uniform_taps(identity: Identity, p: ConvProblem, found: list[Record]) -> bool:
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


def _check_limits(identity: Identity, p: ConvProblem, found: list[Record]) -> None:
    if len(found) > MAX_RECORDS:
        raise ProblemError("stride_h", f"{len(found)} sub-GEMMs; the table of a kernel holds {MAX_RECORDS}")
    reach = {
        "h": p.h + 2 * p.pad_h, "w": p.w + 2 * p.pad_w,
        "dilation_h": (p.y + 2 * identity.tile_k) * p.dilation_h,
        "dilation_w": (p.x + 2 * identity.tile_k) * p.dilation_w,
        "stride_h": 2 * p.stride_h, "stride_w": 2 * p.stride_w,
    }  # fmt: skip
    for name, extent in reach.items():
        if extent >= COORDINATE_LIMIT:
            raise ProblemError(name, f"coordinates reach {extent}; kernels hold less than {COORDINATE_LIMIT}")
    if p.x_bytes > OUTPUT_BYTES_LIMIT:
        raise ProblemError("tensor dx", f"{p.x_bytes} bytes; backward-data kernels write at most {OUTPUT_BYTES_LIMIT}")
    if p.c * ELEM_BYTES[p.dtype] > OUTPUT_ROW_BYTES_LIMIT:
        raise ProblemError("c", f"{p.c} input channels make rows longer than {OUTPUT_ROW_BYTES_LIMIT} bytes")
    rows = max((record["gemm_m"] for record in found), default=0) + identity.tile_m
    if rows > DIVIDEND_LIMIT:
        raise ProblemError("n", f"a sub-GEMM of {rows} rows; kernels count to {DIVIDEND_LIMIT}")
    threads = identity.warp_m * identity.warp_n * identity.wave_size
    if found and total_tiles(found) * threads >= LAUNCH_LIMIT:
        raise ProblemError("n", f"{total_tiles(found)} workgroups of {threads} work items exceed a launch")
