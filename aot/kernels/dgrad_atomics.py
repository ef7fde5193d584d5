"""Adds the results of one slice of a split reduction to dX, which starts as zeros, two channels per atomic.

The accumulators are transposed, so that neighbouring results of a lane are channels of one pixel. Pairs are aligned:
the channels of a group are even in number. These atomics have no bounds; pairs without a pixel or a channel are
branched around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aot.ir.atomics import add_pair
from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.control import if_then
from aot.ir.intrinsics import OUT_OF_BOUNDS
from aot.ir.types import vector
from aot.ir.values import Value
from aot.kernels.fragments import ELEM_BYTES, RUN
from aot.kernels.results import Results, Shuffle

PAIR = 2


@dataclass(frozen=True, slots=True)
class AddedOutput:
    """The pixels of one workgroup. `row_bytes` gives the offset of a row of the tile, out of bounds without a pixel."""

    pointer: Value  # of the first channel of the group
    row_bytes: Callable[[Value], Value]
    first_col: Value
    channels: Value  # of the group

    def add(self, b: Builder, pairs: Sequence[Value], row_bytes: Value, col: Value) -> None:
        """Add pairs to neighbouring channels of a pixel."""
        has_pixel = b.icmp("ne", row_bytes, OUT_OF_BOUNDS)
        for number, pair in enumerate(pairs):
            n = b.add(self.first_col, b.add(col, number * PAIR))

            def one(n: Value = n, pair: Value = pair) -> None:
                place = b.add(row_bytes, b.mul(n, ELEM_BYTES))
                add_pair(b, pair, b.offset_pointer(self.pointer, place))

            if_then(b, b.both(has_pixel, b.icmp("slt", n, self.channels)), one)


def add_lattice_direct(b: Builder, results: Results, output: AddedOutput) -> None:
    """Straight from the accumulators: a lane has runs of four channels of the pixel of its row."""
    tile, place = results.tile, results.place
    for m in range(tile.fragments_m):
        row_bytes = output.row_bytes(b.add(b.add(place.wave_m, m * tile.atom.edge), place.lane.outer))
        for n in range(tile.fragments_n):
            accumulator = results.accumulators[m * tile.fragments_n + n]
            for slot in range(0, accumulator.type.lanes, RUN):
                col = results.run_column(b, n * tile.atom.edge, slot)
                pairs = [results.rounded_pair(b, accumulator, slot + part) for part in range(0, RUN, PAIR)]
                output.add(b, pairs, row_bytes, col)


def add_lattice_shuffled(b: Builder, results: Results, shuffle: Shuffle, output: AddedOutput) -> None:
    """Through LDS, so that neighbouring lanes add to neighbouring channels. Chunks are whole pairs."""
    assert shuffle.vec % PAIR == 0
    shuffle.write(b, results)
    lds_barrier(b)
    pair = vector(PAIR, results.tile.out)
    for chunk in shuffle.chunks(b, results):
        pairs = [b.bitcast(b.extract(chunk.words, word), pair) for word in range(shuffle.vec // PAIR)]
        output.add(b, pairs, output.row_bytes(chunk.row), chunk.col)
