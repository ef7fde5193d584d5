"""Tile geometry: threads, registers, LDS bytes, load and store widths, launch grids.

The rules call these with numpy columns, the builders and launch plans with the ints of one identity, so a kernel that
is admitted is a kernel that builds. Hence no function branches on a value. Columns must be wide enough for the
products (int32 for tiles, int64 for problem extents). Flags may be bools or bool columns.
"""

# numpy types arithmetic on columns of an unstated width as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy.typing as npt

from cache_schema.errors import UnknownValueError
from cache_schema.problem import DIRECTIONS, ELEM_BYTES, ConvProblem
from grids.gemm.records import Gemm

#: One value, or a column of them; all arguments of this type in one call are of the same kind.
IntT = TypeVar("IntT", int, "npt.NDArray[Any]")

#: Accumulators of one lane that a kernel can hold without spilling.
MAX_ACCUMULATORS = 256
#: Registers of a lane besides its accumulators, as estimates take them: fragments, addresses, loads in flight.
OTHER_REGISTERS = 96
#: Widest load or store: one dwordx4.
MAX_VECTOR_BYTES = 16
#: Elements that keep the rows of an LDS tile off each other's banks; any other pad breaks 16-byte alignment.
LDS_PAD_ELEMS = 8
#: Grid y and z are 16 bits in the dispatch packet's users; x is kept to the same bound for implicit GEMM.
MAX_GRID = 65535
#: Stage 2 of two-stage wgrad: one result per thread.
REDUCE_THREADS = 256


def block_threads(*, warp_m: IntT, warp_n: IntT, wave_size: int) -> IntT:
    """Threads of a workgroup: the launch block is (this, 1, 1)."""
    return warp_m * warp_n * wave_size


def fragments(*, tile: IntT, warps: IntT, edge: IntT) -> IntT:
    """Matrix fragments of one wave along one axis of its tile."""
    return tile // (warps * edge)


def accumulators_per_lane(*, tile_m: IntT, tile_n: IntT, warp_m: IntT, warp_n: IntT, wave_size: int) -> IntT:
    """f32 accumulators of one lane."""
    return (tile_m // warp_m) * (tile_n // warp_n) // wave_size


# --- LDS -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LdsLayout(Generic[IntT]):
    """Where the tiles of one workgroup stand in its LDS.

    Buffer i of A starts at `i * (a_bytes + b_bytes)`, its B directly behind it; C starts at `c_offset`. A tile that is
    K-outer has rows along K, else rows along its free axis; `*_row_elems` is the distance of two rows.
    """

    a_bytes: IntT
    b_bytes: IntT
    c_bytes: IntT
    a_row_elems: IntT
    b_row_elems: IntT
    buffers: IntT
    c_offset: IntT
    total_bytes: IntT


def lds_pad(*, tile_k: IntT, async_dma: IntT) -> IntT:
    """Pad elements per row of a tile whose rows run along K; direct-to-LDS loads cannot skip a pad."""
    return LDS_PAD_ELEMS * (tile_k >= 16) * (1 - async_dma)


def lds_buffers(*, async_dma: IntT, unroll_k: IntT) -> IntT:
    """Tiles in flight: the double-buffered K loops hold two, compv4 (a schedule only) holds one."""
    return 1 + (async_dma | unroll_k) * 1


def lds_layout(
    direction: str,
    *,
    tile_m: IntT,
    tile_n: IntT,
    tile_k: IntT,
    cshuffle: IntT,
    async_dma: IntT,
    unroll_k: IntT,
    lds_k_outer: IntT,
    elem_bytes: int = 2,
    store_bytes: int = 2,
) -> LdsLayout[IntT]:
    """LDS of one workgroup.

    `lds_k_outer` turns both tiles in wgrad, B alone in dgrad, and nothing in fwd. The cshuffle tile C overlays A and B
    in fwd and dgrad, never in wgrad.
    """
    if direction not in DIRECTIONS:
        raise UnknownValueError("direction", direction, DIRECTIONS)
    pad = lds_pad(tile_k=tile_k, async_dma=async_dma)
    turned_pad = LDS_PAD_ELEMS * (1 - async_dma * 1)
    a_turned = lds_k_outer * (direction == "wgrad")
    b_turned = lds_k_outer * (direction != "fwd")
    a_row = choose(a_turned, tile_m + turned_pad, tile_k + pad)
    b_row = choose(b_turned, tile_n + turned_pad, tile_k + pad)
    a_bytes = a_row * choose(a_turned, tile_k, tile_m) * elem_bytes
    b_bytes = b_row * choose(b_turned, tile_k, tile_n) * elem_bytes
    c_bytes = tile_m * tile_n * store_bytes * cshuffle
    buffers = lds_buffers(async_dma=async_dma, unroll_k=unroll_k)
    ab_bytes = buffers * (a_bytes + b_bytes)
    c_offset = ab_bytes if direction == "wgrad" else 0 * ab_bytes
    return LdsLayout(
        a_bytes=a_bytes,
        b_bytes=b_bytes,
        c_bytes=c_bytes,
        a_row_elems=a_row,
        b_row_elems=b_row,
        buffers=buffers,
        c_offset=c_offset,
        total_bytes=larger(ab_bytes, c_offset + c_bytes),
    )


def lds_of_identity(identity: Gemm) -> LdsLayout[int]:
    """LDS of one implicit-GEMM kernel."""
    return lds_layout(
        identity.direction,
        tile_m=identity.tile_m,
        tile_n=identity.tile_n,
        tile_k=identity.tile_k,
        cshuffle=int(identity.epilogue == "cshuffle"),
        async_dma=int(identity.async_dma),
        unroll_k=int(identity.unroll_k),
        lds_k_outer=int(identity.lds_k_outer),
        elem_bytes=ELEM_BYTES[identity.dtype_a],
        store_bytes=ELEM_BYTES[identity.dtype_d],
    )


# --- loads and stores ------------------------------------------------------------------------------------------------


def loads_evenly(*, rows: IntT, cols: IntT, threads: IntT, vec: IntT) -> Any:
    """Whether vectors of this width share a tile out to all threads without a rest (bool or bool column)."""
    return rows * cols % (threads * vec) == 0


def loader_chunks(*, rows: IntT, cols: IntT, threads: IntT, vec: IntT) -> IntT:
    """Vectors that each thread loads per tile; only where `loads_evenly`."""
    return rows * cols // (threads * vec)


def clamped_width(*, rows: IntT, cols: IntT, threads: IntT, request: IntT, elem_bytes: int = 2) -> IntT:
    """Widest power of two up to the request at which a tile is shared out evenly; 0 when not even 1 does.

    `cols` is the extent of the axis that is contiguous in memory. Loads of wgrad and of B in dgrad and cshuffle
    stores of both are clamped; fwd and A in dgrad take the request as it stands.
    """
    width = 0 * request
    for vec in _powers_of_two(MAX_VECTOR_BYTES // elem_bytes):
        fits = (vec <= request) & (cols % vec == 0) & (rows * cols % (threads * vec) == 0)
        width = choose(fits * 1, vec + 0 * width, width)
    return width


def async_chunk(*, rows: IntT, cols: IntT, threads: IntT, run: int, dwords: Iterable[int], elem_bytes: int = 2) -> IntT:
    """Elements per lane of the direct-to-LDS loads of a tile: the widest usable choice of `dwords`; 0 when none is.

    `run` is the length in elements of the contiguous run that no chunk may straddle. `rows` x `cols` is the tile as it
    stands in LDS.
    """
    width = 0 * rows
    for elems in sorted(4 * count // elem_bytes for count in dwords):
        fits = (cols % elems == 0) & (run % elems == 0) & (rows * cols % (threads * elems) == 0)
        width = choose(fits * 1, elems + 0 * width, width)
    return width


def store_vector(*, tile_m: IntT, tile_n: IntT, threads: IntT, request: IntT, elem_bytes: int = 2) -> IntT:
    """Width of the cshuffle stores of wgrad and dgrad, and of fwd once `stores_evenly` holds."""
    return clamped_width(rows=tile_m, cols=tile_n, threads=threads, request=request, elem_bytes=elem_bytes)


def stores_evenly(*, tile_m: IntT, tile_n: IntT, threads: IntT, vec: IntT) -> Any:
    """Whether cshuffle stores of this width share the output tile out to all threads without a rest."""
    return loads_evenly(rows=tile_m, cols=tile_n, threads=threads, vec=vec)


# --- problems and launches -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GemmExtents:
    """The matrix product of one group, in elements."""

    m: int
    n: int
    k: int


def gemm_extents(problem: ConvProblem) -> GemmExtents:
    """M, N and reduction K of one group, before any group merge.

    For dgrad these are the extents at stride 1; at other strides `grids.tilde.sub_gemms` gives one set per sub-GEMM.
    """
    pixels = problem.n * problem.ho * problem.wo
    taps = problem.y * problem.x
    if problem.direction == "fwd":
        return GemmExtents(m=pixels, n=problem.kpg, k=taps * problem.cpg)
    if problem.direction == "wgrad":
        return GemmExtents(m=problem.kpg, n=taps * problem.cpg, k=pixels)
    return GemmExtents(m=problem.n * problem.h * problem.w, n=problem.cpg, k=taps * problem.kpg)


def launch_grid(
    *, gemm_m: IntT, gemm_n: IntT, tile_m: IntT, tile_n: IntT, groups: IntT, slices: IntT
) -> tuple[IntT, IntT, IntT]:
    """Workgroups (x, y, z) of fwd and wgrad. Under a group merge, pass merged extents and merged groups.

    `slices` is the split-K degree (1 for fwd); z = group * slices + slice.
    """
    return ceil_div(gemm_n, tile_n), ceil_div(gemm_m, tile_m), groups * slices


def dgrad_grid(*, total_tiles: int, groups: int) -> tuple[int, int, int]:
    """Workgroups (x, y, z) of dgrad: the tiles of all sub-GEMMs in a row, the groups."""
    return total_tiles, groups, 1


def reduce_grid(*, elements: int) -> tuple[int, int, int]:
    """Workgroups (x, y, z) of stage 2 of two-stage wgrad: `elements` of dW in a row, whatever its groups."""
    return ceil_div(elements, REDUCE_THREADS), 1, 1


# --- arithmetic on ints and columns alike ----------------------------------------------------------------------------


def ceil_div(dividend: IntT, divisor: IntT) -> IntT:
    """Quotient rounded up, for non-negative dividends (written so that it cannot overflow near the top)."""
    return -(-dividend // divisor)


def larger(left: IntT, right: IntT) -> IntT:
    """The larger of two."""
    return left + (right - left) * (right > left)


def choose(flag: IntT, where_set: IntT, where_clear: IntT) -> IntT:
    """`where_set` where the 0/1 flag is set, else `where_clear`."""
    return where_clear + (where_set - where_clear) * flag


def _powers_of_two(limit: int) -> Iterable[int]:
    return (1 << shift for shift in range(limit.bit_length()))
