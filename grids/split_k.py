"""Split-K of wgrad: which degrees a kernel is launched at, and the scratch that two-stage kernels need.

One split kernel serves every degree above one; the degree is a launch argument. Slices are whole K tiles and none is
empty. Plain ints throughout: sizes exceed 32 bits.
"""

from __future__ import annotations

from math import gcd

from cache_schema.problem import ConvProblem
from grids.gemm.records import Gemm
from grids.geometry import MAX_GRID, ceil_div, gemm_extents
from grids.targets import Target

#: Degrees that a split kernel is offered at, largest first.
LISTED_DEGREES = (128, 64, 32, 16, 8, 4, 2)
#: Waves per compute unit that hide the latency of loads and atomics.
FULL_WAVES_PER_CU = 16
#: Workgroups per compute unit that the ungrouped rule aims at.
UNGROUPED_BLOCKS_PER_CU = 2
#: A slice shorter than this many K tiles costs more in prologue and atomics than it gains, once the list is exceeded.
MIN_TILES_PER_LONG_SLICE = 4


def slice_extent(*, gemm_k: int, tile_k: int, degree: int) -> int:
    """Reduction elements of one slice: whole K tiles, `degree` of them covering gemm_k."""
    return ceil_div(gemm_k, tile_k * degree) * tile_k


def filled_slices(*, gemm_k: int, tile_k: int, degree: int) -> int:
    """Slices that have work at this degree; those behind them add zeros."""
    return max(1, ceil_div(gemm_k, slice_extent(gemm_k=gemm_k, tile_k=tile_k, degree=degree)))


def usable_degrees(*, gemm_k: int, tile_k: int, groups: int) -> tuple[int, ...]:
    """The listed degrees with a K tile for every slice and within the launch grid; `groups` counts merged groups."""
    tiles = ceil_div(gemm_k, tile_k)
    return tuple(degree for degree in LISTED_DEGREES if degree <= tiles and groups * degree <= MAX_GRID)


def formula_degree(*, base_tiles: int, gemm_k: int, groups: int, threads: int, target: Target) -> int:
    """The published degree that fills the GPU; 1 means that splitting does not pay.

    `base_tiles` are the output tiles of one (merged) group. Rounded down everywhere: one workgroup too many costs a
    whole round of the GPU.
    """
    if groups <= 1:
        return min(max(1, UNGROUPED_BLOCKS_PER_CU * target.cus // base_tiles), max(1, gemm_k))
    degree = max(1, _full_blocks(threads, target) // (base_tiles * groups))
    cap = max(1, min(gemm_k, MAX_GRID // groups))
    step = target.xcds // gcd(base_tiles, target.xcds)
    snapped = max(step, degree // step * step)
    return snapped if snapped <= cap else min(degree, cap)


def latency_degree(*, base_tiles: int, gemm_k: int, tile_k: int, groups: int, threads: int, target: Target) -> int:
    """The degree for a long reduction into a tiny dW, where the published formula leaves the GPU idle.

    As many slices as give every compute unit its full waves, while each keeps at least four K tiles, within the grid.
    """
    full = _full_blocks(threads, target) // (base_tiles * groups)
    return max(1, min(full, ceil_div(gemm_k, tile_k) // MIN_TILES_PER_LONG_SLICE, MAX_GRID // groups))


def without_empty_slices(*, gemm_k: int, tile_k: int, degree: int) -> int:
    """The largest degree up to this one at which every slice has work."""
    tiles = max(1, ceil_div(gemm_k, tile_k))
    return ceil_div(tiles, ceil_div(tiles, degree))


def wgrad_degrees(identity: Gemm, problem: ConvProblem, target: Target) -> tuple[int, ...]:
    """Every degree at which a wgrad kernel is worth timing on a problem, largest first; empty when it has none.

    A non-split kernel has degree 1 alone. A split kernel has the usable listed degrees, and above them the powers of
    two up to `latency_degree`.
    """
    if identity.split_k <= 1:
        return (1,)
    shape = _shape(identity, problem)
    limit = latency_degree(**shape, threads=_threads(identity), target=target)
    longer = [1 << shift for shift in range(LISTED_DEGREES[0].bit_length(), limit.bit_length())]
    return (*reversed(longer), *usable_degrees(gemm_k=shape["gemm_k"], tile_k=identity.tile_k, groups=shape["groups"]))


def automatic_degree(identity: Gemm, problem: ConvProblem, target: Target, most: int = MAX_GRID) -> int:
    """The degree at which a plan launches a wgrad kernel unless told otherwise.

    The published formula or the latency rule, whichever is larger, but not above `most`, lowered until no slice is
    empty. Split kernels get at least 2 if they have a usable degree at all and `most` allows it, non-split kernels 1.
    """
    if identity.split_k <= 1:
        return 1
    shape, threads = _shape(identity, problem), _threads(identity)
    formula = formula_degree(
        base_tiles=shape["base_tiles"],
        gemm_k=shape["gemm_k"],
        groups=shape["groups"],
        threads=threads,
        target=target,
    )
    degree = max(2, formula, latency_degree(**shape, threads=threads, target=target))
    degree = max(1, min(degree, most, MAX_GRID // shape["groups"]))
    return without_empty_slices(gemm_k=shape["gemm_k"], tile_k=identity.tile_k, degree=degree)


def two_stage_workspace_bytes(problem: ConvProblem, replicas: int) -> int:
    """f32 scratch of two-stage wgrad: every replica holds a whole dW of its group; zeroed before every launch."""
    extents = gemm_extents(problem)
    return 4 * problem.groups * replicas * extents.m * extents.n


def _shape(identity: Gemm, problem: ConvProblem) -> dict[str, int]:
    extents, merge = gemm_extents(problem), identity.group_merge
    base = ceil_div(extents.m * merge, identity.tile_m) * ceil_div(extents.n * merge, identity.tile_n)
    return {
        "base_tiles": base,
        "gemm_k": extents.k,
        "tile_k": identity.tile_k,
        "groups": ceil_div(problem.groups, merge),
    }


def _threads(identity: Gemm) -> int:
    return identity.warp_m * identity.warp_n * identity.wave_size


def _full_blocks(threads: int, target: Target) -> int:
    return max(1, FULL_WAVES_PER_CU // (threads // target.wave_size)) * target.cus
