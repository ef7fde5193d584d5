"""Writes the accumulators of a workgroup to the output.

The output is dense, so GEMM row m starts behind m rows without any decode. A whole address is a lane offset and nothing
else: from m = M on it lies behind the tensor, and so does that of a column behind the last of its group, whatever row
is added to it. Such stores are dropped by hardware, whether or not a scalar offset would count in its range check, and
none needs a branch.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_store
from aot.ir.types import integer_of
from aot.ir.values import Late, Value, constant
from aot.kernels.fragments import RUN, result_row
from aot.kernels.results import Results, Shuffle


@dataclass(frozen=True, slots=True)
class Output:
    """The output rows of one workgroup: GEMM rows from `first_row` (scalar), columns `first_col` + ... of a group.

    A row has `row_elems` elements of all groups; the `group_cols` of this one begin `group_bytes` behind its start.
    """

    resource: Value
    first_row: Value  # of the workgroup's tile
    first_col: Value  # of the tile, in the group
    group_bytes: Value
    elem_bytes: int
    row_elems: Late
    group_cols: Late

    def column_bytes(self, b: Builder, row: Value, wave_row: Value, col: Value) -> Value:
        """Lane offset of a column in a lane's first row, which is row `wave_row + row` of the tile.

        Behind the last column of the group it lies behind every tensor, also with `row_bytes` added: the rows of a tile
        span less than 2^31 bytes (`grids.addressing`).
        """
        n = b.add(self.first_col, col)
        inside = b.icmp("slt", n, self.group_cols())
        row_size = b.mul(self.row_elems(), self.elem_bytes)
        # Scalars first: what is equal in all lanes is one addition to a lane.
        start = b.add(b.mul(b.add(self.first_row, wave_row), row_size), self.group_bytes)
        offset = b.mul(b.add(b.mul(row, self.row_elems()), n), self.elem_bytes)
        return b.select(inside, b.add(offset, start), OUT_OF_BOUNDS)

    def row_bytes(self, b: Builder, fixed: int) -> Value:
        """Distance of a row from the first one of a lane."""
        return b.mul(b.mul(self.row_elems(), self.elem_bytes), fixed)

    def store(self, b: Builder, value: Value, column_bytes: Value, fixed: int) -> None:
        """Store elements of this lane from a column on, `fixed` rows behind the first one of the lane."""
        buffer_store(b, value, self.resource, b.add(column_bytes, self.row_bytes(b, fixed)))


def store_direct(b: Builder, results: Results, output: Output) -> None:
    """One store per accumulator; neighbouring lanes write neighbouring columns."""
    place = results.place
    lane_row = b.mul(place.lane.inner, RUN)
    columns = [output.column_bytes(b, lane_row, place.wave_m, col) for col in results.columns(b)]
    for fragment_row, fragment_col, accumulator in results.fragments():
        column = columns[fragment_col // results.tile.atom.edge]
        for slot in range(0, accumulator.type.lanes, 2):
            pair = results.rounded_pair(b, accumulator, slot)
            for part in (0, 1):
                word = b.bitcast(b.extract(pair, part), integer_of(results.tile.out))
                output.store(b, word, column, fragment_row + result_row(slot + part))


def store_shuffled(b: Builder, results: Results, shuffle: Shuffle, output: Output) -> None:
    """Through LDS, so that each thread stores several columns at once. The accumulators are transposed."""
    shuffle.write(b, results)
    lds_barrier(b)
    for chunk in shuffle.chunks(b, results):
        column = output.column_bytes(b, chunk.lane_row, constant(0), chunk.col)
        output.store(b, chunk.words, column, chunk.fixed_row)
