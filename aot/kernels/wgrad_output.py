"""Adds the accumulators of a workgroup to what other slices of the reduction have left.

f32 results go to a workspace straight from registers, by buffer atomics: rows and columns off the product are out of
bounds and dropped by hardware. 16-bit results are staged in LDS first, since a pair that one atomic adds must be two
columns of one row; pairs off the product are branched around, because these atomics have no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from aot.ir.atomics import add_f32, add_pair
from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.control import if_then
from aot.ir.intrinsics import OUT_OF_BOUNDS, sched_barrier
from aot.ir.lds import Segment
from aot.ir.types import vector
from aot.ir.values import Value
from aot.kernels.chunks import ChunkMap
from aot.kernels.epilogue import RUN, stage_shuffled
from aot.kernels.fragments import ELEM_BYTES, Lane, result_row
from aot.kernels.loaders import chunk_type
from aot.kernels.tile import Tile

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Slab:
    """A f32 copy of the product of one group: `resource` holds M rows of p_wg_N elements and nothing more."""

    resource: Value
    first_row: Value
    first_col: Value
    args: Mapping[str, Value]


def add_to_slab(
    b: Builder, tile: Tile, accumulators: Sequence[Value], lane: Lane, wave_row: Value, wave_col: Value, slab: Slab
) -> None:
    """One atomic per accumulator; neighbouring lanes add to neighbouring columns."""
    edge, row_bytes = tile.atom.edge, b.mul(slab.args["p_wg_N"], WORD_BYTES)
    lane_row_bytes = b.mul(b.mul(lane.inner, RUN), row_bytes)
    columns = []
    for fragment in range(tile.fragments_n):
        n = b.add(slab.first_col, b.add(b.add(wave_col, fragment * edge), lane.outer))
        offset = b.add(lane_row_bytes, b.mul(n, WORD_BYTES))
        columns.append(b.select(b.icmp("slt", n, slab.args["p_wg_N"]), offset, OUT_OF_BOUNDS))
    start = b.mul(b.add(slab.first_row, wave_row), row_bytes)
    for index, accumulator in enumerate(accumulators):
        m, n_fragment = divmod(index, tile.fragments_n)
        for slot in range(accumulator.type.lanes):
            row = b.add(start, b.mul(row_bytes, m * edge + result_row(slot)))
            add_f32(b, b.extract(accumulator, slot), slab.resource, columns[n_fragment], row)


def store_diagonal(
    b: Builder,
    tile: Tile,
    accumulators: Sequence[Value],
    lane: Lane,
    wave_row: Value,
    wave_col: Value,
    *,
    merge: int,
    taps: Value,
    place: Callable[[Value, Value], Value],
    put: Callable[[Value, Value], None],
) -> None:
    """The results of merged depthwise groups: row m and column (tap, channel) belong together where channel is m.

    `place(m, tap)` is the byte offset of a result, `put(result, offset)` stores or adds it; offsets off the diagonal
    are out of bounds.
    """
    edge = tile.atom.edge
    lane_row = b.add(wave_row, b.mul(lane.inner, RUN))
    columns = []
    for fragment in range(tile.fragments_n):
        n = b.add(b.add(wave_col, fragment * edge), lane.outer)
        channel, tap = b.urem_pow2(n, merge), b.udiv_pow2(n, merge)
        columns.append((channel, b.select(b.icmp("slt", tap, taps), place(channel, tap), OUT_OF_BOUNDS)))
    for index, accumulator in enumerate(accumulators):
        m, n_fragment = divmod(index, tile.fragments_n)
        if m * edge >= merge:
            continue
        channel, offset = columns[n_fragment]
        for slot in range(accumulator.type.lanes):
            own = b.icmp("eq", b.add(lane_row, m * edge + result_row(slot)), channel)
            put(b.extract(accumulator, slot), b.select(own, offset, OUT_OF_BOUNDS))
        # Else all offsets are computed first, and there are not that many registers.
        sched_barrier(b)


@dataclass(frozen=True, slots=True)
class PackedRows:
    """16-bit dW: `pointer` is its first row of the group, rows have p_wg_N elements, the group has p_wg_M of them."""

    pointer: Value
    first_row: Value
    first_col: Value
    args: Mapping[str, Value]


def add_shuffled(
    b: Builder,
    tile: Tile,
    accumulators: Sequence[Value],
    lane: Lane,
    wave_row: Value,
    wave_col: Value,
    *,
    thread: Value,
    vec: int,
    staging: Segment,
    overlays: bool,
    output: PackedRows,
) -> None:
    """Through LDS, so that each thread adds `vec` columns of a row in pairs. The accumulators are transposed."""
    assert vec % 2 == 0
    row_bytes = tile.n * ELEM_BYTES
    shuffle = stage_shuffled(b, tile, accumulators, lane, wave_row, wave_col, staging=staging, overlays=overlays)
    lds_barrier(b)
    chunks = ChunkMap(tile.m, tile.n, tile.threads, vec)
    args, pair = output.args, vector(2, tile.out)

    def add(value: Value, offset: Value) -> None:
        for number in range(vec // 2):
            word = b.extract(value, number)
            pointer = b.offset_pointer(b.offset_pointer(output.pointer, offset), number * pair.bytes)
            add_pair(b, b.bitcast(word, pair), pointer)

    extents = args["p_wg_M"], args["p_wg_N"]
    for number in range(chunks.passes):
        at = chunks.position(b, thread, number)
        col, row = b.add(at.col, at.col_step), b.add(at.row, at.row_step)
        start = b.add(b.mul(at.row, row_bytes), b.mul(shuffle.column(b, col, shuffle.bits_of_row(b, row)), ELEM_BYTES))
        pointer = b.offset_pointer(staging.pointer(b, start), at.row_step * row_bytes)
        value = b.load(chunk_type(vec), pointer, vec * ELEM_BYTES)
        m, n = b.add(output.first_row, row), b.add(output.first_col, col)
        inside = b.both(b.icmp("slt", m, extents[0]), b.icmp("slt", n, extents[1]))
        offset = b.mul(b.add(b.mul(m, extents[1]), n), ELEM_BYTES)
        if_then(b, inside, partial(add, value, offset))
