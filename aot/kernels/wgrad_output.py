"""Adds the accumulators of a workgroup to what other slices of the reduction have left.

f32 results go to a workspace straight from registers, by buffer atomics: rows and columns off the product are out of
bounds and dropped by hardware. 16-bit results are staged in LDS first, since a pair that one atomic adds must be two
columns of one row; pairs off the product are branched around, because these atomics have no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from aot.ir.atomics import add_f32, add_pair
from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.control import if_then
from aot.ir.intrinsics import OUT_OF_BOUNDS, sched_barrier
from aot.ir.types import vector
from aot.ir.values import Value
from aot.kernels.fragments import RUN, result_row
from aot.kernels.results import Results, Shuffle

#: An f32.
WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Slab:
    """A f32 copy of the product of one group: `resource` holds M rows of p_wg_N elements and nothing more."""

    resource: Value
    args: Mapping[str, Value]


def add_to_slab(b: Builder, results: Results, slab: Slab) -> None:
    """One atomic per accumulator of a lane, which are plain: neighbouring lanes add to neighbouring columns."""
    place, row_bytes = results.place, b.mul(slab.args["p_wg_N"], WORD_BYTES)
    start = b.mul(b.add(place.first_m, place.wave_m), row_bytes)
    lane_row_bytes = b.add(b.mul(b.mul(place.lane.inner, RUN), row_bytes), start)
    columns = []
    for col in results.columns(b):
        n = b.add(place.first_n, col)
        offset = b.add(lane_row_bytes, b.mul(n, WORD_BYTES))
        columns.append(b.select(b.icmp("slt", n, slab.args["p_wg_N"]), offset, OUT_OF_BOUNDS))
    for fragment_row, fragment_col, accumulator in results.fragments():
        column = columns[fragment_col // results.tile.atom.edge]
        for slot in range(accumulator.type.lanes):
            # Marked columns stay behind the slab: the rows of a tile span less than 2^31 bytes (`grids.addressing`).
            place_bytes = b.add(column, b.mul(row_bytes, fragment_row + result_row(slot)))
            add_f32(b, b.extract(accumulator, slot), slab.resource, place_bytes)


def store_diagonal(
    b: Builder,
    results: Results,
    *,
    merge: int,
    taps: Value,
    offset_of: Callable[[Value, Value], Value],
    put: Callable[[Value, Value], None],
) -> None:
    """The results of merged depthwise groups, in plain accumulators: row m and column (tap, channel) belong together
    where channel is m.

    `offset_of(m, tap)` is the byte offset of a result, `put(result, offset)` stores or adds it; offsets off the
    diagonal are out of bounds.
    """
    place = results.place
    lane_row = b.add(place.wave_m, b.mul(place.lane.inner, RUN))
    columns = []
    for n in results.columns(b):
        channel, tap = b.urem_pow2(n, merge), b.udiv_pow2(n, merge)
        columns.append((channel, b.select(b.icmp("slt", tap, taps), offset_of(channel, tap), OUT_OF_BOUNDS)))
    for fragment_row, fragment_col, accumulator in results.fragments():
        if fragment_row >= merge:
            continue
        channel, offset = columns[fragment_col // results.tile.atom.edge]
        for slot in range(accumulator.type.lanes):
            own = b.icmp("eq", b.add(lane_row, fragment_row + result_row(slot)), channel)
            put(b.extract(accumulator, slot), b.select(own, offset, OUT_OF_BOUNDS))
        # Else all offsets are computed first, and there are not that many registers.
        sched_barrier(b)


@dataclass(frozen=True, slots=True)
class PackedRows:
    """16-bit dW: `pointer` is its first row of the group, rows have p_wg_N elements, the group has p_wg_M of them."""

    pointer: Value
    args: Mapping[str, Value]


def add_shuffled(b: Builder, results: Results, shuffle: Shuffle, output: PackedRows) -> None:
    """Through LDS, so that each thread adds several columns of a row, in pairs. The accumulators are transposed."""
    assert shuffle.vec % 2 == 0
    shuffle.write(b, results)
    lds_barrier(b)
    args, pair = output.args, vector(2, results.tile.out)

    def add(words: Value, offset: Value) -> None:
        for number in range(shuffle.vec // 2):
            word = b.extract(words, number)
            pointer = b.offset_pointer(b.offset_pointer(output.pointer, offset), number * pair.bytes)
            add_pair(b, b.bitcast(word, pair), pointer)

    extents = args["p_wg_M"], args["p_wg_N"]
    for chunk in shuffle.chunks(b, results):
        m, n = b.add(results.place.first_m, chunk.row), b.add(results.place.first_n, chunk.col)
        inside = b.both(b.icmp("slt", m, extents[0]), b.icmp("slt", n, extents[1]))
        offset = b.mul(b.add(b.mul(m, extents[1]), n), results.tile.out.bytes)
        if_then(b, inside, partial(add, chunk.words, offset))
