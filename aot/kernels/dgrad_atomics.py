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
from aot.ir.lds import Segment
from aot.ir.types import vector
from aot.ir.values import Value
from aot.kernels.chunks import ChunkMap
from aot.kernels.epilogue import RUN, stage_shuffled
from aot.kernels.fragments import ELEM_BYTES, Lane, result_row
from aot.kernels.loaders import chunk_type
from aot.kernels.tile import Tile

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


def add_lattice_direct(
    b: Builder,
    tile: Tile,
    accumulators: Sequence[Value],
    lane: Lane,
    wave_row: Value,
    wave_col: Value,
    output: AddedOutput,
) -> None:
    """Straight from the accumulators: a lane has runs of four channels of the pixel of its row."""
    edge = tile.atom.edge
    for m in range(tile.fragments_m):
        row_bytes = output.row_bytes(b.add(b.add(wave_row, m * edge), lane.outer))
        for n in range(tile.fragments_n):
            accumulator = accumulators[m * tile.fragments_n + n]
            for slot in range(0, accumulator.type.lanes, RUN):
                col = b.add(b.add(wave_col, n * edge + result_row(slot)), b.mul(lane.inner, RUN))
                pairs = [
                    b.fptrunc(b.slice(accumulator, slot + part, PAIR), vector(PAIR, tile.out))
                    for part in range(0, RUN, PAIR)
                ]
                output.add(b, pairs, row_bytes, col)


def add_lattice_shuffled(
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
    output: AddedOutput,
) -> None:
    """Through LDS, so that neighbouring lanes add to neighbouring channels."""
    vec = max(vec, PAIR)
    tile_row_bytes = tile.n * ELEM_BYTES
    shuffle = stage_shuffled(b, tile, accumulators, lane, wave_row, wave_col, staging=staging, overlays=overlays)
    lds_barrier(b)
    chunks = ChunkMap(tile.m, tile.n, tile.threads, vec)
    for number in range(chunks.passes):
        at = chunks.position(b, thread, number)
        col, row = b.add(at.col, at.col_step), b.add(at.row, at.row_step)
        start = b.mul(at.row, tile_row_bytes)
        start = b.add(start, b.mul(shuffle.column(b, col, shuffle.bits_of_row(b, row)), ELEM_BYTES))
        pointer = b.offset_pointer(staging.pointer(b, start), at.row_step * tile_row_bytes)
        value = b.load(chunk_type(vec), pointer, vec * ELEM_BYTES)
        pairs = [b.bitcast(b.extract(value, word), vector(PAIR, tile.out)) for word in range(vec // PAIR)]
        output.add(b, pairs, output.row_bytes(row), col)
