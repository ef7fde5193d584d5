"""The results of a workgroup: in the accumulators of its lanes, and shuffled through LDS.

An epilogue takes them straight from the accumulators, or lets the workgroup write them to a tile in LDS, row by row,
and has each thread fetch vectors of one row from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.intrinsics import keep_in_agprs
from aot.ir.lds import Segment
from aot.ir.types import integer_of, vector
from aot.ir.values import Value
from aot.kernels.budget import ORDINARY, accumulator_registers
from aot.kernels.chunks import ChunkMap
from aot.kernels.fragments import RUN, result_row
from aot.kernels.loaders import chunk_type
from aot.kernels.place import Place
from aot.kernels.swizzle import Swizzle, swizzle
from aot.kernels.tile import Tile

#: The staged tile is read in vectors of at most one granule.
GRANULE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Results:
    """f32 accumulators of a lane, m-major over the fragments of its wave.

    Slot i of a plain accumulator is row result_row(i) + RUN * lane.inner, column lane.outer of its fragment; of a
    transposed one it is row lane.outer, column result_row(i) + RUN * lane.inner. Rows and columns are of D.
    """

    tile: Tile
    accumulators: Sequence[Value]
    place: Place

    def fragments(self) -> Iterator[tuple[int, int, Value]]:
        """First row and column of every fragment in its wave's part of the tile, and its accumulator."""
        edge = self.tile.atom.edge
        for index, accumulator in enumerate(self.accumulators):
            m, n = divmod(index, self.tile.fragments_n)
            yield m * edge, n * edge, accumulator

    def columns(self, b: Builder) -> Iterator[Value]:
        """This lane's column in the tile, per fragment along n; of plain accumulators."""
        for fragment in range(self.tile.fragments_n):
            yield b.add(b.add(self.place.wave_n, fragment * self.tile.atom.edge), self.place.lane.outer)

    def run_column(self, b: Builder, fragment_col: int, slot: int) -> Value:
        """Column in the tile where a run of results begins; of transposed accumulators."""
        return b.add(b.add(self.place.wave_n, fragment_col + result_row(slot)), b.mul(self.place.lane.inner, RUN))

    def rounded_pair(self, b: Builder, accumulator: Value, slot: int) -> Value:
        """Results slot and slot + 1 in the type of D: pairs convert in one instruction where the target has one."""
        return b.fptrunc(b.slice(accumulator, slot, 2), vector(2, self.tile.out))


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """A vector of the staged tile that the thread holds: `words` are its elements as they stand in memory.

    Row and first column are those of the tile; the row is given as a lane part and a fixed part too.
    """

    row: Value
    lane_row: Value
    fixed_row: int
    col: Value
    words: Value


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A tile of rounded results in LDS at `staging`, a row of D per row, swizzled.

    A thread fetches `vec` columns of a row at once, in the order of `ChunkMap`.

    `overlays` says that it lies over operand tiles that other waves may still be reading.
    """

    vec: int
    staging: Segment
    overlays: bool

    def write(self, b: Builder, results: Results) -> None:
        """Write transposed results, four columns of a row at once; a barrier must follow."""
        tile, place = results.tile, results.place
        row_bytes, turn = tile.n * tile.out.bytes, _swizzle(tile)
        if self.overlays:
            lds_barrier(b)
        row_bits = turn.bits_of_row(b, place.lane.outer)
        row_start = b.mul(b.add(place.wave_m, place.lane.outer), row_bytes)
        crowded = accumulator_registers(tile) > ORDINARY // 2
        for fragment_row, fragment_col, result in results.fragments():
            # Else all are copied to ordinary registers up front, and as many of those are not to be had.
            accumulator = keep_in_agprs(b, result) if crowded else result
            for slot in range(0, accumulator.type.lanes, RUN):
                col = results.run_column(b, fragment_col, slot)
                start = b.add(row_start, b.mul(turn.column(b, col, row_bits), tile.out.bytes))
                pairs = (results.rounded_pair(b, accumulator, slot + part) for part in range(0, RUN, 2))
                words = [b.bitcast(pair, integer_of(pair.type)) for pair in pairs]
                pointer = b.offset_pointer(self.staging.pointer(b, start), fragment_row * row_bytes)
                b.store(b.gather(words), pointer, RUN * tile.out.bytes)

    def chunks(self, b: Builder, results: Results) -> Iterator[StagedChunk]:
        """This thread's share of the tile, each chunk fetched when it is asked for."""
        tile = results.tile
        row_bytes, turn = tile.n * tile.out.bytes, _swizzle(tile)
        share = ChunkMap(tile.m, tile.n, tile.threads, self.vec, tile.out.bytes)
        for number in range(share.passes):
            at = share.position(b, results.place.thread, number)
            col, row = b.add(at.col, at.col_step), b.add(at.row, at.row_step)
            start = b.mul(at.row, row_bytes)
            start = b.add(start, b.mul(turn.column(b, col, turn.bits_of_row(b, row)), tile.out.bytes))
            pointer = b.offset_pointer(self.staging.pointer(b, start), at.row_step * row_bytes)
            words = b.load(chunk_type(share.chunk_bytes), pointer, share.chunk_bytes)
            yield StagedChunk(row, at.row, at.row_step, col, words)


def _swizzle(tile: Tile) -> Swizzle:
    return swizzle(cols=tile.n, granule=GRANULE_BYTES // tile.out.bytes, row_period=16, elem_bytes=tile.out.bytes)
