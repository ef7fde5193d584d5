"""Writes the accumulators of a workgroup to the output.

The output is dense, so the row of GEMM row m starts at m * K without any decode. Rows travel in the scalar offset: from
m = M on, the sum lies behind the tensor and the store is dropped by hardware, as are columns from kpg on, whose lane
offset is out of bounds. No store needs a branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_store
from aot.ir.lds import Segment
from aot.ir.types import I16, I32, vector
from aot.ir.values import Value, constant
from aot.kernels.chunks import ChunkMap
from aot.kernels.fragments import ELEM_BYTES, Lane, result_row
from aot.kernels.loaders import chunk_type
from aot.kernels.swizzle import Swizzle, swizzle
from aot.kernels.tile import Tile

#: Results of a lane that stand in consecutive rows of a matrix instruction.
RUN = 4
#: The staged tile is read in vectors of at most one granule.
GRANULE = 8


@dataclass(frozen=True, slots=True)
class Output:
    """The output rows of one workgroup: GEMM rows from `first_row` (scalar), columns `first_col` + ... of a group."""

    resource: Value
    first_row: Value
    first_col: Value
    group_bytes: Value
    args: Mapping[str, Value]

    def column_bytes(self, b: Builder, row: Value, col: Value) -> Value:
        """Lane part of an address: row and column in the tile; out of bounds from kpg on."""
        n = b.add(self.first_col, col)
        inside = b.icmp("slt", n, self.args["p_kpg"])
        offset = b.mul(b.add(b.mul(row, self.args["p_K"]), n), ELEM_BYTES)
        return b.select(inside, offset, OUT_OF_BOUNDS)

    def row_bytes(self, b: Builder, wave_row: Value, fixed: int) -> Value:
        """Scalar part of an address: rows of the tile that are equal in all lanes."""
        row_size = b.mul(self.args["p_K"], ELEM_BYTES)
        start = b.add(b.mul(b.add(self.first_row, wave_row), row_size), self.group_bytes)
        return b.add(start, b.mul(row_size, fixed))


def store_direct(
    b: Builder,
    tile: Tile,
    accumulators: Sequence[Value],
    lane: Lane,
    wave_row: Value,
    wave_col: Value,
    output: Output,
) -> None:
    """One 16-bit store per accumulator; neighbouring lanes write neighbouring columns."""
    edge = tile.atom.edge
    lane_row = b.mul(lane.inner, RUN)
    columns = [
        output.column_bytes(b, lane_row, b.add(b.add(wave_col, fragment * edge), lane.outer))
        for fragment in range(tile.fragments_n)
    ]
    for index, accumulator in enumerate(accumulators):
        m, n = divmod(index, tile.fragments_n)
        for slot in range(0, accumulator.type.lanes, 2):
            # Pairs convert in one instruction where the target has one.
            pair = b.fptrunc(b.slice(accumulator, slot, 2), vector(2, tile.out))
            for part in (0, 1):
                word = b.bitcast(b.extract(pair, part), I16)
                row = output.row_bytes(b, wave_row, m * edge + result_row(slot + part))
                buffer_store(b, word, output.resource, columns[n], row)


def store_shuffled(
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
    output: Output,
) -> None:
    """Through LDS, so that each thread stores `vec` columns at once. The accumulators are transposed.

    A run of four results of a lane is then four columns of one row: one 8-byte LDS write. `overlays` says that the
    staging tile lies over operand tiles that other waves may still be reading.
    """
    row_bytes = tile.n * ELEM_BYTES
    shuffle = stage_shuffled(b, tile, accumulators, lane, wave_row, wave_col, staging=staging, overlays=overlays)
    lds_barrier(b)
    chunks = ChunkMap(tile.m, tile.n, tile.threads, vec)
    for number in range(chunks.passes):
        at = chunks.position(b, thread, number)
        col, row = b.add(at.col, at.col_step), b.add(at.row, at.row_step)
        start = b.add(b.mul(at.row, row_bytes), b.mul(shuffle.column(b, col, shuffle.bits_of_row(b, row)), ELEM_BYTES))
        pointer = b.offset_pointer(staging.pointer(b, start), at.row_step * row_bytes)
        value = b.load(chunk_type(vec), pointer, vec * ELEM_BYTES)
        row_start_bytes = output.row_bytes(b, constant(0), at.row_step)
        buffer_store(b, value, output.resource, output.column_bytes(b, at.row, col), row_start_bytes)


def stage_shuffled(
    b: Builder,
    tile: Tile,
    accumulators: Sequence[Value],
    lane: Lane,
    wave_row: Value,
    wave_col: Value,
    *,
    staging: Segment,
    overlays: bool,
) -> Swizzle:
    """Write the converted results to LDS, row by row; a barrier must follow. How columns of a row are swizzled."""
    edge, row_bytes = tile.atom.edge, tile.n * ELEM_BYTES
    shuffle = swizzle(cols=tile.n, granule=GRANULE, row_period=16)
    if overlays:
        lds_barrier(b)
    row_bits = shuffle.bits_of_row(b, lane.outer)
    row_start = b.mul(b.add(wave_row, lane.outer), row_bytes)
    for index, accumulator in enumerate(accumulators):
        m, n = divmod(index, tile.fragments_n)
        for slot in range(0, accumulator.type.lanes, RUN):
            col = b.add(b.add(wave_col, n * edge + result_row(slot)), b.mul(lane.inner, RUN))
            start = b.add(row_start, b.mul(shuffle.column(b, col, row_bits), ELEM_BYTES))
            halves = [
                b.bitcast(b.fptrunc(b.slice(accumulator, slot + part, 2), vector(2, tile.out)), I32) for part in (0, 2)
            ]
            pointer = b.offset_pointer(staging.pointer(b, start), m * edge * row_bytes)
            b.store(b.gather(halves), pointer, RUN * ELEM_BYTES)
    return shuffle
