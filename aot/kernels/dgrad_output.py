"""Writes results to the pixels of a lattice: GEMM row m = (n, h, w) is input pixel (n, h * stride + origin, ...).

A row takes two divisions, so it is decoded once per workgroup and kept in LDS as the byte offset of its first channel;
where a shuffled tile leaves no room for that, each thread decodes the rows that it stores. Rows and columns without a
pixel have offsets that are out of bounds each for itself and together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_store
from aot.ir.lds import Segment
from aot.ir.types import I32, integer_of, vector
from aot.ir.values import Value
from aot.kernels.dgrad_record import SubGemmRecord
from aot.kernels.fragments import RUN, result_row
from aot.kernels.results import Results, Shuffle
from aot.kernels.row_table import repeated_row_numbers
from aot.kernels.tile import Tile
from grids.addressing import DX_BYTES_LIMIT

#: Of a column without a channel. Added to any row it lies behind every tensor, and wraps with none.
NO_COLUMN = DX_BYTES_LIMIT
#: A row of the table: one i32 byte offset.
ROW_BYTES = 4


def row_table_bytes(tile_m: int) -> int:
    """LDS of the row offsets of a tile."""
    return tile_m * ROW_BYTES


def pixel_bytes(b: Builder, record: SubGemmRecord, args: Mapping[str, Value], m: Value) -> Value:
    """Byte offset in dX of the pixel of GEMM row m, out of bounds where there is none."""
    line, w = record.by_w_slice.divmod(b, m)
    image, h = record.by_h_slice.divmod(b, line)
    hi = b.add(b.mul(h, record["d_h_stride"]), record["d_h_offset"])
    wi = b.add(b.mul(w, record["d_w_stride"]), record["d_w_offset"])
    inside = b.both(b.icmp("ult", hi, args["p_Hi"]), b.icmp("ult", wi, args["p_Wi"]))
    inside = b.both(inside, b.icmp("slt", m, record["gemm_m"]))
    offset = b.add(b.mul(image, args["d_n_bytes"]), b.mul(hi, args["d_hi_bytes"]))
    return b.select(inside, b.add(offset, b.mul(wi, args["d_wi_bytes"])), OUT_OF_BOUNDS)


@dataclass(frozen=True, slots=True)
class LatticeOutput:
    """The pixels of one workgroup: GEMM rows from `first_row`, columns `first_col` + ... of a group."""

    resource: Value
    record: SubGemmRecord
    first_row: Value  # of the workgroup's tile, in the lattice
    first_col: Value  # of the tile, in the group
    group_bytes: Value  # of the group's first channel in a pixel
    elem_bytes: int
    args: Mapping[str, Value]

    def row_bytes(self, b: Builder, row: Value) -> Value:
        """Byte offset of a row of the tile, out of bounds where the lattice has no pixel of the image."""
        return pixel_bytes(b, self.record, self.args, b.add(self.first_row, row))

    def col_bytes(self, b: Builder, col: Value) -> Value:
        """Byte offset of a column of the tile."""
        n = b.add(self.first_col, col)
        # Part of the column: added to the sum of both marks it might wrap it.
        offset = b.add(b.mul(n, self.elem_bytes), self.group_bytes)
        return b.select(b.icmp("slt", n, self.args["p_cpg"]), offset, NO_COLUMN)

    def store(self, b: Builder, value: Value, row_bytes: Value, col_bytes: Value) -> None:
        """Store at a row and a column."""
        buffer_store(b, value, self.resource, b.add(row_bytes, col_bytes))

    def write_table(self, b: Builder, table: Segment, thread: Value, tile: Tile) -> None:
        """Put the offsets of all rows of the tile into LDS; a barrier must follow."""
        for row in repeated_row_numbers(b, thread, tile.m, tile.threads):
            b.store(self.row_bytes(b, row), table.pointer(b, b.mul(row, ROW_BYTES)), ROW_BYTES)


def store_lattice_direct(b: Builder, results: Results, table: Segment, output: LatticeOutput) -> None:
    """One store per accumulator. The table lies over operand tiles that nobody reads any more."""
    tile, place = results.tile, results.place
    output.write_table(b, table, place.thread, tile)
    lds_barrier(b)
    columns = [output.col_bytes(b, col) for col in results.columns(b)]
    lane_bytes = b.mul(b.add(place.wave_m, b.mul(place.lane.inner, RUN)), ROW_BYTES)
    for m in range(tile.fragments_m):
        for slot in range(0, tile.atom.accumulator.lanes, RUN):
            fixed = (m * tile.atom.edge + result_row(slot)) * ROW_BYTES
            pointer = b.offset_pointer(table.pointer(b, lane_bytes), fixed)
            rows = b.load(vector(RUN, I32), pointer, RUN * ROW_BYTES)
            for n in range(tile.fragments_n):
                accumulator = results.accumulators[m * tile.fragments_n + n]
                for part in range(0, RUN, 2):
                    pair = results.rounded_pair(b, accumulator, slot + part)
                    for half in (0, 1):
                        word = b.bitcast(b.extract(pair, half), integer_of(tile.out))
                        output.store(b, word, b.extract(rows, part + half), columns[n])


def store_lattice_shuffled(
    b: Builder, results: Results, shuffle: Shuffle, table: Segment | None, output: LatticeOutput
) -> None:
    """Through LDS, several columns per store. Without a table the rows are decoded where they are stored."""
    shuffle.write(b, results)
    row_of = row_lookup(b, table, output)
    if table is not None:
        output.write_table(b, table, results.place.thread, results.tile)
    lds_barrier(b)
    for chunk in shuffle.chunks(b, results):
        output.store(b, chunk.words, row_of(chunk.lane_row, chunk.fixed_row), output.col_bytes(b, chunk.col))


def row_lookup(b: Builder, table: Segment | None, output: LatticeOutput) -> Callable[[Value, int], Value]:
    """The offset of row `lane part + fixed part`, from the table or by decoding."""
    if table is None:
        return lambda row, fixed: output.row_bytes(b, b.add(row, fixed))
    return lambda row, fixed: b.load(
        I32, b.offset_pointer(table.pointer(b, b.mul(row, ROW_BYTES)), fixed * ROW_BYTES), ROW_BYTES
    )
