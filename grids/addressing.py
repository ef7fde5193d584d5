"""How far the coordinates, offsets and counts of a problem reach, and what the 32-bit arithmetic of kernels holds.

Serving compares columns with this, the values of kernel arguments are refused by it: what is served can be launched.
All of it is about implicit-GEMM kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic

from cache_schema.problem import ELEM_BYTES, ConvProblem
from grids.gemm.records import MAX_SUB_GEMMS, Gemm
from grids.geometry import IntT, block_threads, ceil_div, choose, gemm_extents
from grids.tilde import most_rows, sub_gemm_count

#: Coordinates of pixels and dilated taps, so that sums of two stay below 2^31 with room for the mark of an invalid row.
COORDINATE_LIMIT = 2**28
#: Rows of an output tile are addressed by 32-bit byte offsets; wgrad addresses twice as many of dY.
ROW_BYTES_LIMIT = {"fwd": 2**23, "dgrad": 2**23, "wgrad": 2**22}
#: Row and column offsets of dX are added before the hardware compares: what marks a column lies behind every tensor.
DX_BYTES_LIMIT = 0x7FFFFFF0
#: What a kernel addresses in dW or in one slab of the workspace, the surplus rows of its last tile included.
DW_BYTES_LIMIT = 2**31
#: Dividends of divisions by multiplication are smaller.
DIVIDEND_LIMIT = 2**31
#: Work items along x of a launch are 32 bits.
LAUNCH_LIMIT = 2**32
#: Bytes of the f32 numbers in the workspace of two-stage kernels.
WORKSPACE_ELEM_BYTES = 4


@dataclass(frozen=True, slots=True)
class Reach(Generic[IntT]):
    """One thing that a kernel has to hold: at most `limit`. `field` is what of the problem makes it large."""

    field: str
    what: str
    value: IntT
    limit: int

    @property
    def exceeds(self) -> Any:
        """Whether the kernel does not hold it (bool or bool column)."""
        return self.value > self.limit


def canonical(problem: ConvProblem) -> ConvProblem:
    """The same convolution with dilation 1 along axes of a single tap, where the distance of taps means nothing."""
    return replace(
        problem,
        dilation_h=problem.dilation_h if problem.y > 1 else 1,
        dilation_w=problem.dilation_w if problem.x > 1 else 1,
    )


def surplus_rows(problem: ConvProblem, tile_m: IntT) -> IntT:
    """Rows of the last tile along m that the GEMM of the problem does not have."""
    return -gemm_extents(problem).m % tile_m


def reaches(
    problem: ConvProblem,
    *,
    tile_m: IntT,
    tile_n: IntT,
    tile_k: IntT,
    rows_past_end: IntT,
    threads: IntT,
    two_stage: IntT,
    stream_k: IntT,
    store_bytes: IntT,
) -> Iterator[Reach[IntT]]:
    """Everything that grows with the problem, what lies past the end included; flags are 0 or 1.

    `rows_past_end` is how many rows of the last tile along m are surplus. Each thing grows with all tile extents or
    falls with all of them, and grows with the surplus rows, the threads and the bytes stored.
    """
    p, gemm, zero = canonical(problem), gemm_extents(problem), 0 * tile_m
    past_end = 2 * (tile_n if p.direction == "wgrad" else tile_k)
    coordinates = "coordinates"
    yield Reach("h", coordinates, p.h + 2 * p.pad_h + zero, COORDINATE_LIMIT - 1)
    yield Reach("w", coordinates, p.w + 2 * p.pad_w + zero, COORDINATE_LIMIT - 1)
    yield Reach("dilation_h", coordinates, (p.y + past_end) * p.dilation_h, COORDINATE_LIMIT - 1)
    yield Reach("dilation_w", coordinates, (p.x + past_end) * p.dilation_w, COORDINATE_LIMIT - 1)
    field, channels = ("c", p.c) if p.direction == "dgrad" else ("k", p.k)
    row_bytes = channels * ELEM_BYTES[p.dtype]
    yield Reach(field, "bytes of a pixel", row_bytes + zero, ROW_BYTES_LIMIT[p.direction])
    if p.direction == "dgrad":
        yield Reach("stride_h", coordinates, 2 * p.stride_h + zero, COORDINATE_LIMIT - 1)
        yield Reach("stride_w", coordinates, 2 * p.stride_w + zero, COORDINATE_LIMIT - 1)
        yield Reach("tensor dx", "bytes", p.x_bytes + zero, DX_BYTES_LIMIT)
        count, rows = sub_gemm_count(p), most_rows(p)
        yield Reach("stride_h", "sub-GEMMs", count + zero, MAX_SUB_GEMMS)
        yield Reach("n", "rows of a sub-GEMM", rows + tile_m, DIVIDEND_LIMIT)
        tiles = count * ceil_div(rows + zero, tile_m) * ceil_div(p.cpg + zero, tile_n)
        yield Reach("n", "work items of a launch", tiles * threads, LAUNCH_LIMIT - 1)
    elif p.direction == "wgrad":
        yield Reach("n", "pixels to reduce", gemm.k + 2 * tile_k, DIVIDEND_LIMIT - 1)
        in_workspace = WORKSPACE_ELEM_BYTES * (gemm.m + rows_past_end) * gemm.n
        in_dw = p.w_bytes + store_bytes * rows_past_end * gemm.n
        yield Reach("tensor dw", "bytes of a tile at its end", choose(two_stage, in_workspace, in_dw), DW_BYTES_LIMIT)
        tiles = ceil_div(gemm.m + zero, tile_m) * ceil_div(gemm.n + zero, tile_n) * p.groups
        # The share of one workgroup is at most all K tiles.
        k_tiles = tiles * ceil_div(gemm.k + zero, tile_k)
        yield Reach("n", "K tiles in all", 2 * k_tiles * stream_k, DIVIDEND_LIMIT - 1)


def reaches_of(identity: Gemm, problem: ConvProblem) -> Iterator[Reach[int]]:
    """`reaches` of one kernel."""
    return reaches(
        problem,
        tile_m=identity.tile_m,
        tile_n=identity.tile_n,
        tile_k=identity.tile_k,
        rows_past_end=surplus_rows(problem, identity.tile_m),
        threads=block_threads(warp_m=identity.warp_m, warp_n=identity.warp_n, wave_size=identity.wave_size),
        two_stage=int(identity.two_stage),
        stream_k=int(identity.stream_k),
        store_bytes=ELEM_BYTES[identity.dtype_d],
    )
