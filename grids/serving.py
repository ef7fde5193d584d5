"""Which kernels of a table serve a problem, and why the others do not.

A kernel that is launched on a problem it does not serve computes wrong numbers without an error, so every capability
of an identity is compared here. The rules work on whole columns, in the narrow types that the table stores, and judge
a column with one value once: 300,000 rows take a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.identity import REDUCE
from cache_schema.problem import ELEM_BYTES, ConvProblem
from cache_schema.table import IdentityTable, is_constant
from grids import stream_k
from grids.addressing import canonical, reaches, surplus_rows
from grids.geometry import MAX_GRID, accumulators_per_lane, block_threads, ceil_div, gemm_extents
from grids.split_k import two_stage_workspace_bytes
from grids.targets import target
from grids.tilde import sub_gemm_count

Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

#: The k decode of fwd multiplies 24-bit integers.
FORWARD_REDUCTION_LIMIT = 2**23
#: What a max_sub_gemms of 0 stands for.
DEFAULT_SUB_GEMMS = 64
#: Beyond every reason's position, for a row that no rule has failed.
SERVED = np.uint8(255)


def serves(
    table: IdentityTable, problem: ConvProblem, workspace_limit: int | None = None
) -> tuple[Mask, npt.NDArray[np.int8]]:
    """Per row, whether the kernel may be launched on the problem, and the position of the first failing reason.

    Positions count in `SERVING_REASONS`, 0 where the kernel serves. `workspace_limit` in bytes excludes kernels
    that need more. A problem with an empty output is served by no kernel.
    """
    rows = ServedRows(table, problem, workspace_limit)
    first = np.full(len(table), SERVED, dtype=np.uint8)
    for position, rule in enumerate(SERVING_RULES if len(table) else (), start=1):
        mask = rule.fails(rows)
        if mask.size == 1 and not mask[0]:
            continue
        # Position where a row fails, 255 elsewhere: without branches, since random masks defeat branch prediction.
        np.minimum(first, (mask.view(np.uint8) - np.uint8(1)) | np.uint8(position), out=first)
    mask = first == SERVED
    return mask, (first * ~mask).view(np.int8)


class ServedRows:
    """A table beside a problem. Columns are as stored, of length 1 where all rows agree; so are masks."""

    def __init__(self, table: IdentityTable, problem: ConvProblem, workspace_limit: int | None) -> None:
        self.table, self.problem, self.workspace_limit = table, problem, workspace_limit
        self.gemm = gemm_extents(problem)
        self.direct = self.text("algorithm", *(word for word in table.vocab["algorithm"] if word.startswith("direct")))

    def __getitem__(self, field: str) -> Column:
        column = self.table.columns[field]
        return column[:1] if is_constant(column) else column

    def when(self, *directions: str) -> bool:
        """Whether the problem is of one of these directions; rows of others are rejected for that alone."""
        return self.problem.direction in directions

    def text(self, field: str, *words: str) -> Mask:
        """Where a text field has one of these values."""
        vocabulary = self.table.vocab[field]
        if len(vocabulary) == 1:
            return _all_or_nothing(vocabulary[0] in words)
        return _is_any(self[field], (vocabulary.index(word) for word in words if word in vocabulary))

    def does_not_divide(self, field: str, run: int) -> Mask:
        """Where a recorded width (0: none) does not divide this run of elements."""
        column = self[field]
        widths = range(1, int(column.max()) + 1)
        widest = max((width for width in widths if run % width == 0), default=0)
        wider: Mask = column > widest
        for width in widths[:widest]:
            if run % width:
                wider |= column == width
        return wider

    def differs(self, field: str, value: int) -> Mask:
        """Where a field is recorded (0: not) and is another value."""
        column = self[field]
        return (column != 0) & (column != value) if column.any() else NOWHERE

    def stream_k_workspace(self) -> Column:
        """Bytes for the parts of as many stream-K workgroups as the GPU holds at once."""
        tile_m, tile_n = (self[name].astype(np.int64) for name in ("tile_m", "tile_n"))
        # Kernels without a tile have no waves either.
        warp_m, warp_n = (np.maximum(self[name].astype(np.int64), 1) for name in ("warp_m", "warp_n"))
        accumulators = accumulators_per_lane(
            tile_m=tile_m, tile_n=tile_n, warp_m=warp_m, warp_n=warp_n, wave_size=int(self["wave_size"][0])
        )
        waves = warp_m * warp_n
        workgroups: Column = np.zeros(1, dtype=np.int64)
        for code, arch in enumerate(self.table.vocab["arch"]):
            held = stream_k.resident_workgroups(accumulators=accumulators, waves=waves, gpu=target(arch))
            workgroups = np.where(self["arch"] == code, held, workgroups)
        return stream_k.workspace_bytes(tile_m=tile_m, tile_n=tile_n, workgroups=workgroups)

    def split(self) -> Mask:
        """Where slices of the reduction are summed."""
        return _both(self["split_k"] > 1, ~self.direct)


@dataclass(frozen=True, slots=True)
class ServingRule:
    """One reason for which a kernel is no answer to a problem: a code, a sentence for people, and where a row fails.

    `fields` are the fields of an identity that decide, for people who ask what was refused.
    """

    code: str
    sentence: str
    fails: Callable[[ServedRows], Mask]
    fields: tuple[str, ...] = ()


NOWHERE: Mask = np.zeros(1, dtype=np.bool_)
EVERYWHERE: Mask = np.ones(1, dtype=np.bool_)


def _is_any(column: Column, values: Iterable[int]) -> Mask:
    masks = [column == value for value in values]
    mask: Mask = masks[0] if masks else NOWHERE
    for other in masks[1:]:
        mask |= other
    return mask


def _both(left: Mask, right: Mask) -> Mask:
    """Conjunction that skips the work where one side is nowhere."""
    if any(side.size == 1 and not side[0] for side in (left, right)):
        return NOWHERE
    return left & right


def _all_or_nothing(flag: bool) -> Mask:
    return EVERYWHERE if flag else NOWHERE


def _group_merge(rows: ServedRows) -> Mask:
    """Merged groups are depthwise, fill whole workgroups, and fit one tile."""
    problem, degrees = rows.problem, rows["group_merge"]
    merged: Mask = degrees > 1
    if not merged.any() or not rows.when("wgrad") or problem.cpg != 1 or problem.kpg != 1:
        return merged
    fails = NOWHERE
    for degree in range(2, int(degrees.max()) + 1):
        of_degree = degrees == degree
        if of_degree.any():
            whole = problem.groups % degree == 0
            misfit = (rows["tile_m"] < degree) | (rows["tile_n"] < degree * rows.gemm.n)
            fails = fails | (of_degree & misfit if whole else of_degree)
    return fails


def _width_a(rows: ServedRows) -> Mask:
    run = rows.problem.cpg if rows.when("fwd") else rows.problem.kpg
    return rows.does_not_divide("vector_size_a", run)


def _width_c(rows: ServedRows) -> Mask:
    run = rows.problem.kpg if rows.when("fwd") else rows.problem.cpg
    return rows.does_not_divide("vector_size_c", run)


def _async_chunk(rows: ServedRows) -> Mask:
    """Chunks are recorded and never straddle a run of channels."""
    is_async: Mask = rows["async_dma"].astype(np.bool_)
    if not is_async.any():
        return NOWHERE
    run_a = rows.problem.kpg if rows.when("wgrad") else rows.problem.cpg
    chunk_a, chunk_b = rows["async_chunk_a"], rows["async_chunk_b"]
    unrecorded: Mask = (chunk_a == 0) | (chunk_b == 0)
    straddles = rows.does_not_divide("async_chunk_a", run_a) | rows.does_not_divide("async_chunk_b", rows.problem.cpg)
    return is_async & (unrecorded | straddles)


def _pad(rows: ServedRows) -> Mask:
    """Direct kernels bake the pad, 0 included; elsewhere 0 means run time."""
    problem, mask = rows.problem, rows.differs("pad_h", rows.problem.pad_h) | rows.differs("pad_w", rows.problem.pad_w)
    baked = (rows["pad_h"] != problem.pad_h) | (rows["pad_w"] != problem.pad_w)
    return mask | _both(rows.direct, baked)


def _atomic_pairs(rows: ServedRows) -> Mask:
    """Packed 16-bit atomics add aligned pairs: even rows of the result and stores of whole pairs."""
    if not rows.when("wgrad"):
        return NOWHERE
    atomic = _both(rows.split(), ~rows["two_stage"].astype(np.bool_))
    if rows.gemm.n % 2:
        return atomic
    return _both(atomic, (rows["vector_size_c"] & 1) == 1)


def _sub_gemms(rows: ServedRows) -> Mask:
    if not rows.when("dgrad"):
        return NOWHERE
    needed, room = sub_gemm_count(canonical(rows.problem)), rows["max_sub_gemms"]
    mask: Mask = (room < needed) & ((room != 0) | (needed > DEFAULT_SUB_GEMMS))
    return _both(mask, ~rows.direct)


def _split_degree(rows: ServedRows) -> Mask:
    """At least two slices: two K tiles, and room for them beside the groups in grid z."""
    if not rows.when("wgrad"):
        return NOWHERE
    too_short = rows["tile_k"] >= rows.gemm.k
    too_many = rows["group_merge"] < ceil_div(2 * rows.problem.groups, MAX_GRID)
    return _both(rows.split(), too_short | too_many)


def _workspace(rows: ServedRows) -> Mask:
    if rows.workspace_limit is None or not rows.when("wgrad"):
        return NOWHERE
    replicas = rows.workspace_limit // two_stage_workspace_bytes(rows.problem, 1)
    two_stage = _both(rows["two_stage"].astype(np.bool_), rows["ws_replicas"] > replicas)
    streams: Mask = rows["stream_k"].astype(np.bool_)
    return two_stage | _both(streams, rows.stream_k_workspace() > rows.workspace_limit) if streams.any() else two_stage


def _reduction(rows: ServedRows) -> Mask:
    if not rows.when("fwd") or rows.gemm.k < FORWARD_REDUCTION_LIMIT:
        return NOWHERE
    return ~rows.direct


def _grid(rows: ServedRows) -> Mask:
    """Work in every axis of the launch grid, and no axis of an implicit GEMM beyond its limit.

    Merged groups fit one tile, so their merge degree matters for the number of groups only.
    """
    gemm, problem = rows.gemm, rows.problem
    if gemm.m < 1 or gemm.n < 1:
        return EVERYWHERE
    groups: Mask = rows["group_merge"] < ceil_div(problem.groups, MAX_GRID)
    if rows.when("dgrad"):
        return _both(~rows.direct, groups)
    tiles_m: Mask = rows["tile_m"] < ceil_div(gemm.m, MAX_GRID)
    tiles_n: Mask = rows["tile_n"] < ceil_div(gemm.n, MAX_GRID)
    return _both(~rows.direct, groups | tiles_m | tiles_n)


def _addressing(rows: ServedRows) -> Mask:
    """Where the kernel's 32-bit arithmetic does not hold the problem. Few come near, so extremes are judged first."""
    problem, vocabulary = rows.problem, rows.table.vocab["dtype_d"]
    stored = np.array([ELEM_BYTES[dtype] for dtype in vocabulary], dtype=np.int64)
    wave_size, most_waves = int(rows["wave_size"].max()), int(rows["warp_m"].max()) * int(rows["warp_n"].max())
    tiles = [rows[name] for name in ("tile_m", "tile_n", "tile_k")]
    if not _may_exceed(problem, tiles, most_waves * wave_size, int(stored.max())):
        return NOWHERE
    # Kernels without a tile are judged as if they had one, and then left out.
    tile_m, tile_n, tile_k, warp_m, warp_n = (
        np.maximum(column.astype(np.int64), 1) for column in (*tiles, rows["warp_m"], rows["warp_n"])
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
    return _both(~rows.direct, mask)


_TILE_FIELDS = ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n")


def _no_tile(rows: ServedRows) -> Mask:
    """Estimates and plans divide by tile and waves; only a file from elsewhere has a kernel without."""
    mask = NOWHERE
    for name in _TILE_FIELDS:
        if not rows[name].min():
            mask = mask | (rows[name] == 0)
    return mask


def _least_positive(column: Column) -> int:
    least = int(column.min())
    return least if least > 0 else int(column[column > 0].min(initial=np.iinfo(column.dtype).max))


def _may_exceed(problem: ConvProblem, tiles: list[Column], threads: int, store_bytes: int) -> bool:
    """Whether any kernel with tiles between the smallest and the largest of these may not hold the problem."""
    largest = [max(int(column.max()), 1) for column in tiles]
    smallest = [_least_positive(column) for column in tiles]
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


def _grouped(rows: ServedRows) -> Mask:
    if rows.problem.groups == 1:
        return NOWHERE
    return _both(~rows.direct, ~rows["grouped"].astype(np.bool_))


def _pointwise(rows: ServedRows) -> Mask:
    problem = rows.problem
    plain = (problem.y, problem.x, problem.stride_h, problem.stride_w, problem.pad_h, problem.pad_w) == (
        1,
        1,
        1,
        1,
        0,
        0,
    )
    return NOWHERE if plain else rows["is_pointwise"].astype(np.bool_)


def _depthwise_dgrad(rows: ServedRows) -> Mask:
    depthwise = rows.when("dgrad") and rows.problem.groups > 1 and rows.problem.cpg == 1
    return ~rows.direct if depthwise else NOWHERE


#: In the order in which reasons are given.
SERVING_RULES = (
    ServingRule(
        "S_direction",
        "the kernel computes another direction",
        lambda r: ~r.text("direction", r.problem.direction, "direct_" + r.problem.direction),
        fields=("direction",),
    ),
    ServingRule(
        "S_helper",
        "the kernel is one step of another kernel's plan and is never run alone",
        lambda r: r.text("algorithm", REDUCE),
    ),
    ServingRule(
        "S_no_tile",
        "the kernel has no tile or no waves, as a file from elsewhere may say",
        _no_tile,
        fields=_TILE_FIELDS,
    ),
    ServingRule(
        "S_dtype",
        "the kernel is for another data type",
        lambda r: ~(r.text("dtype_a", r.problem.dtype) & r.text("dtype_b", r.problem.dtype)),
    ),
    ServingRule(
        "S_group_merge",
        (
            "the problem is not depthwise, its groups do not fill whole merged workgroups, or a merged filter "
            "exceeds the tile"
        ),
        _group_merge,
        fields=("group_merge",),
    ),
    ServingRule(
        "S_width_a", "A loads of this width would straddle the channels of a group", _width_a, fields=("vector_size_a",)
    ),
    ServingRule(
        "S_width_b",
        "B loads of this width would straddle the channels of a group",
        lambda r: r.does_not_divide("vector_size_b", r.problem.cpg),
        fields=("vector_size_b",),
    ),
    ServingRule(
        "S_width_c", "stores of this width would straddle the channels of a group", _width_c, fields=("vector_size_c",)
    ),
    ServingRule("S_dimensions", "the kernel is for 3-D convolutions", lambda r: r["is_3d"].astype(np.bool_)),
    ServingRule("S_pointwise", "the kernel is for 1x1 filters at stride 1 without padding only", _pointwise),
    ServingRule("S_grouped", "the kernel is for problems without groups only", _grouped, fields=("grouped",)),
    ServingRule(
        "S_atomic_pairs", "packed 16-bit atomics need rows of an even length and stores of whole pairs", _atomic_pairs
    ),
    ServingRule(
        "S_filter",
        "the kernel is built for another filter size",
        lambda r: r.differs("filter_h", r.problem.y) | r.differs("filter_w", r.problem.x),
        fields=("filter_h", "filter_w"),
    ),
    ServingRule(
        "S_stride",
        "the kernel is built for another stride",
        lambda r: r.differs("stride_h", r.problem.stride_h) | r.differs("stride_w", r.problem.stride_w),
        fields=("stride_h", "stride_w"),
    ),
    ServingRule(
        "S_dilation",
        "the kernel is built for another dilation",
        lambda r: r.differs("dilation_h", r.problem.dilation_h) | r.differs("dilation_w", r.problem.dilation_w),
        fields=("dilation_h", "dilation_w"),
    ),
    ServingRule("S_pad", "the kernel is built for another padding", _pad, fields=("pad_h", "pad_w")),
    ServingRule(
        "S_channels",
        "the kernel is built for another number of channels per group",
        lambda r: r.differs("cpg", r.problem.cpg) | r.differs("kpg", r.problem.kpg),
        fields=("cpg", "kpg"),
    ),
    ServingRule(
        "S_async_chunk",
        "a direct-to-LDS chunk would straddle the channels of a group",
        _async_chunk,
        fields=("async_chunk_a", "async_chunk_b"),
    ),
    ServingRule(
        "S_sub_gemms",
        "the problem has more sub-GEMMs than the kernel can search",
        _sub_gemms,
        fields=("max_sub_gemms", "tile_m", "tile_n"),
    ),
    ServingRule("S_depthwise_dgrad", "depthwise backward data is no GEMM", _depthwise_dgrad),
    ServingRule(
        "S_reduction", "the reduction Y * X * C/groups reaches 2^23, where the 24-bit index arithmetic ends", _reduction
    ),
    ServingRule("S_split_degree", "the reduction is too short, or the groups too many, for two slices", _split_degree),
    ServingRule("S_workspace", "the scratch of a two-stage or stream-K kernel exceeds the workspace limit", _workspace),
    ServingRule(
        "S_grid",
        "the output is empty, or the launch grid exceeds 65535 along an axis",
        _grid,
        fields=("tile_m", "tile_n"),
    ),
    ServingRule(
        "S_addressing",
        "a coordinate, an offset or a count exceeds what the 32-bit arithmetic of the kernels holds",
        _addressing,
    ),
)
#: Serving reason codes; a verdict is a position in this tuple, and position 0 means that the kernel serves.
SERVING_REASONS: tuple[str, ...] = ("", *(rule.code for rule in SERVING_RULES))
