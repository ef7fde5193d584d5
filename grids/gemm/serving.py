"""What implicit-GEMM kernels can be launched on: the serving rules that their families share."""

from __future__ import annotations

import numpy as np

from cache_schema.problem import ELEM_BYTES, ConvProblem
from grids import stream_k
from grids.addressing import canonical, reaches, surplus_rows
from grids.geometry import MAX_GRID, accumulators_per_lane, block_threads, ceil_div
from grids.served import (
    DTYPE,
    EVERYWHERE,
    NOWHERE,
    Column,
    Mask,
    ServedRows,
    ServingRule,
    all_or_nothing,
)
from grids.split_k import two_stage_workspace_bytes
from grids.targets import target
from grids.tilde import sub_gemm_count

#: The k decode of fwd multiplies 24-bit integers.
FORWARD_REDUCTION_LIMIT = 2**23


def _widths(a: str, b: str, c: str) -> tuple[ServingRule, ...]:
    """Which channels per group, cpg or kpg, the loads of A and B and the stores run along."""

    def rule(operand: str, sentence: str, run: str) -> ServingRule:
        field = f"vector_size_{operand}"
        return ServingRule(
            f"S_width_{operand}",
            f"{sentence} of this width would straddle the channels of a group",
            lambda r: r.does_not_divide(field, getattr(r.problem, run)),
            fields=(field,),
        )

    return rule("a", "A loads", a), rule("b", "B loads", b), rule("c", "stores", c)


def _async_chunk(run_a: str) -> ServingRule:
    """Chunks are recorded and never straddle a run of channels."""

    def fails(rows: ServedRows) -> Mask:
        is_async: Mask = rows["async_dma"].astype(np.bool_)
        if not is_async.any():
            return NOWHERE
        chunk_a, chunk_b = rows["async_chunk_a"], rows["async_chunk_b"]
        unrecorded: Mask = (chunk_a == 0) | (chunk_b == 0)
        run = getattr(rows.problem, run_a)
        straddles = rows.does_not_divide("async_chunk_a", run) | rows.does_not_divide("async_chunk_b", rows.problem.cpg)
        return is_async & (unrecorded | straddles)

    return ServingRule(
        "S_async_chunk",
        "a direct-to-LDS chunk would straddle the channels of a group",
        fails,
        fields=("async_chunk_a", "async_chunk_b"),
    )


def _group_merge(rows: ServedRows) -> Mask:
    """Merged groups are depthwise, fill whole workgroups, and fit one tile."""
    problem, degrees = rows.problem, rows["group_merge"]
    if problem.cpg != 1 or problem.kpg != 1:
        return EVERYWHERE
    fails = NOWHERE
    for degree in range(1, int(degrees.max()) + 1):
        of_degree = degrees == degree
        if of_degree.any():
            whole = problem.groups % degree == 0
            misfit = (rows["tile_m"] < degree) | (rows["tile_n"] < degree * rows.gemm.n)
            fails = fails | (of_degree & misfit if whole else of_degree)
    return fails


def _atomic_pairs(rows: ServedRows) -> Mask:
    """Packed 16-bit atomics add aligned pairs: even rows of the result and stores of whole pairs."""
    if rows.gemm.n % 2:
        return EVERYWHERE
    mask: Mask = (rows["vector_size_c"] & 1) == 1
    return mask


def _split_degree(rows: ServedRows) -> Mask:
    """At least two slices: two K tiles, and room for them beside the groups in grid z."""
    too_short: Mask = rows["tile_k"] >= rows.gemm.k
    too_many: Mask = rows["group_merge"] < ceil_div(2 * rows.problem.groups, MAX_GRID)
    return too_short | too_many


def _replicas(rows: ServedRows) -> Mask:
    if rows.workspace_limit is None:
        return NOWHERE
    mask: Mask = rows["ws_replicas"] > rows.workspace_limit // two_stage_workspace_bytes(rows.problem, 1)
    return mask


def _parts(rows: ServedRows) -> Mask:
    """Room for the parts of as many stream-K workgroups as the GPU holds at once."""
    if rows.workspace_limit is None:
        return NOWHERE
    gpu = target(rows.arch)
    tile_m, tile_n, warp_m, warp_n = (rows[name].astype(np.int64) for name in ("tile_m", "tile_n", "warp_m", "warp_n"))
    accumulators = accumulators_per_lane(
        tile_m=tile_m, tile_n=tile_n, warp_m=warp_m, warp_n=warp_n, wave_size=gpu.wave_size
    )
    held = stream_k.resident_workgroups(accumulators=accumulators, waves=warp_m * warp_n, gpu=gpu)
    mask: Mask = stream_k.workspace_bytes(tile_m=tile_m, tile_n=tile_n, workgroups=held) > rows.workspace_limit
    return mask


def _groups_exceed(rows: ServedRows) -> Mask:
    """Merged groups fit one tile, so their merge degree matters for the number of groups only."""
    mask: Mask = rows["group_merge"] < ceil_div(rows.problem.groups, MAX_GRID)
    return mask


def _grid(rows: ServedRows) -> Mask:
    """Work in every axis of the launch grid, and no axis beyond its limit."""
    gemm = rows.gemm
    if gemm.m < 1 or gemm.n < 1:
        return EVERYWHERE
    tiles_m: Mask = rows["tile_m"] < ceil_div(gemm.m, MAX_GRID)
    tiles_n: Mask = rows["tile_n"] < ceil_div(gemm.n, MAX_GRID)
    return _groups_exceed(rows) | tiles_m | tiles_n


def _dgrad_grid(rows: ServedRows) -> Mask:
    return EVERYWHERE if rows.gemm.m < 1 or rows.gemm.n < 1 else _groups_exceed(rows)


def _addressing(rows: ServedRows) -> Mask:
    """Where the kernel's 32-bit arithmetic does not hold the problem. Few come near, so extremes are judged first."""
    problem, vocabulary = rows.problem, rows.table.vocab["dtype_d"]
    stored = np.array([ELEM_BYTES[dtype] for dtype in vocabulary], dtype=np.int64)
    wave_size = target(rows.arch).wave_size
    most_waves = int(rows["warp_m"].max()) * int(rows["warp_n"].max())
    tiles = [rows[name] for name in ("tile_m", "tile_n", "tile_k")]
    if not _may_exceed(problem, tiles, most_waves * wave_size, int(stored.max())):
        return NOWHERE
    tile_m, tile_n, tile_k, warp_m, warp_n = (
        column.astype(np.int64) for column in (*tiles, rows["warp_m"], rows["warp_n"])
    )
    threads = block_threads(warp_m=warp_m, warp_n=warp_n, wave_size=wave_size)
    mask = NOWHERE
    for reach in reaches(
        problem,
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=tile_k,
        rows_past_end=surplus_rows(problem, tile_m),
        threads=threads,
        two_stage=rows["two_stage"].astype(np.int64),
        stream_k=rows["stream_k"].astype(np.int64),
        store_bytes=stored[rows["dtype_d"]],
    ):
        mask = mask | reach.exceeds
    return mask


def _may_exceed(problem: ConvProblem, tiles: list[Column], threads: int, store_bytes: int) -> bool:
    """Whether any kernel with tiles between the smallest and the largest of these may not hold the problem."""
    largest = [int(column.max()) for column in tiles]
    smallest = [int(column.min()) for column in tiles]
    for tile_m, tile_n, tile_k in (smallest, largest):
        for two_stage in (0, 1):
            found = reaches(
                problem,
                tile_m=tile_m,
                tile_n=tile_n,
                tile_k=tile_k,
                rows_past_end=largest[0] - 1,
                threads=threads,
                two_stage=two_stage,
                stream_k=1,
                store_bytes=store_bytes,
            )
            if any(reach.exceeds for reach in found):
                return True
    return False


def _stride1(rows: ServedRows) -> tuple[Mask, Mask]:
    """Where the stride, and where the dilation, is not 1."""
    p = rows.problem
    return all_or_nothing((p.stride_h, p.stride_w) != (1, 1)), all_or_nothing((p.dilation_h, p.dilation_w) != (1, 1))


def _depthwise(rows: ServedRows) -> Mask:
    return all_or_nothing(rows.problem.groups > 1 and rows.problem.cpg == 1)


def _many_sub_gemms(rows: ServedRows) -> Mask:
    mask: Mask = rows["max_sub_gemms"] < sub_gemm_count(canonical(rows.problem))
    return mask


_GRID_SENTENCE = "the output is empty, or the launch grid exceeds 65535 along an axis"
_GRID = ServingRule("S_grid", _GRID_SENTENCE, _grid, fields=("tile_m", "tile_n"))
_ADDRESSING = ServingRule(
    "S_addressing",
    "a coordinate, an offset or a count exceeds what the 32-bit arithmetic of the kernels holds",
    _addressing,
)
_REDUCTION = ServingRule(
    "S_reduction",
    "the reduction Y * X * C/groups reaches 2^23, where the 24-bit index arithmetic ends",
    lambda r: all_or_nothing(r.gemm.k >= FORWARD_REDUCTION_LIMIT),
)
_SPLIT_DEGREE = ServingRule(
    "S_split_degree", "the reduction is too short, or the groups too many, for two slices", _split_degree
)
_WORKSPACE = "the scratch of a two-stage or stream-K kernel exceeds the workspace limit"
_DEPTHWISE_DGRAD = ServingRule("S_depthwise_dgrad", "depthwise backward data is no GEMM", _depthwise)

FORWARD_SERVING = (DTYPE, *_widths("cpg", "cpg", "kpg"), _async_chunk("cpg"), _REDUCTION, _GRID, _ADDRESSING)

#: What no kernel of the direction can pass comes first.
_DGRAD_HEAD = (DTYPE, _DEPTHWISE_DGRAD)
_DGRAD_TAIL = (
    ServingRule("S_grid", _GRID_SENTENCE, _dgrad_grid, fields=("tile_m", "tile_n")),
    _ADDRESSING,
)
TILDE_SERVING = (
    *_DGRAD_HEAD,
    *_widths("kpg", "cpg", "cpg"),
    ServingRule(
        "S_sub_gemms",
        "the problem has more sub-GEMMs than the kernel can search",
        _many_sub_gemms,
        fields=("max_sub_gemms",),
    ),
    *_DGRAD_TAIL,
)
STRIDE1_SERVING = (
    *_DGRAD_HEAD,
    *_widths("kpg", "cpg", "cpg"),
    ServingRule("S_stride", "the kernel is built for another stride", lambda r: _stride1(r)[0]),
    ServingRule("S_dilation", "the kernel is built for another dilation", lambda r: _stride1(r)[1]),
    *_DGRAD_TAIL,
)

_WGRAD_WIDTHS = (DTYPE, *_widths("kpg", "cpg", "cpg"))
_WGRAD_LOADS = (*_WGRAD_WIDTHS, _async_chunk("kpg"))
NONSPLIT_SERVING = (*_WGRAD_LOADS, _GRID, _ADDRESSING)
ATOMIC_SERVING = (
    *_WGRAD_LOADS,
    ServingRule(
        "S_atomic_pairs", "packed 16-bit atomics need rows of an even length and stores of whole pairs", _atomic_pairs
    ),
    _SPLIT_DEGREE,
    _GRID,
    _ADDRESSING,
)
_TWO_STAGE_TAIL = (
    _SPLIT_DEGREE,
    ServingRule("S_workspace", _WORKSPACE, _replicas, fields=("ws_replicas",)),
    _GRID,
    _ADDRESSING,
)
TWO_STAGE_SERVING = (*_WGRAD_LOADS, *_TWO_STAGE_TAIL)
MERGED_SERVING = (
    DTYPE,
    ServingRule(
        "S_group_merge",
        (
            "the problem is not depthwise, its groups do not fill whole merged workgroups, or a merged filter "
            "exceeds the tile"
        ),
        _group_merge,
        fields=("group_merge",),
    ),
    _async_chunk("kpg"),
    *_TWO_STAGE_TAIL,
)
STREAM_K_SERVING = (*_WGRAD_WIDTHS, ServingRule("S_workspace", _WORKSPACE, _parts), _GRID, _ADDRESSING)
