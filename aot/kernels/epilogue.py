"""Writes the accumulators of a workgroup to the output.

The output is dense, so the row of GEMM row m starts at m * K without any decode. Rows travel in the scalar offset: from
m = M on, the sum lies behind the tensor and the store is dropped by hardware, as are columns from kpg on, whose lane
offset is out of bounds. No store needs a branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_store
from aot.ir.types import I16
from aot.ir.values import Value, constant
from aot.kernels.fragments import ELEM_BYTES, RUN, result_row
from aot.kernels.results import Results, Shuffle


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


def store_direct(b: Builder, results: Results, output: Output) -> None:
    """One 16-bit store per accumulator; neighbouring lanes write neighbouring columns."""
    lane_row = b.mul(results.place.lane.inner, RUN)
    columns = [output.column_bytes(b, lane_row, col) for col in results.columns(b)]
    for fragment_row, fragment_col, accumulator in results.fragments():
        for slot in range(0, accumulator.type.lanes, 2):
            pair = results.rounded_pair(b, accumulator, slot)
            for part in (0, 1):
                word = b.bitcast(b.extract(pair, part), I16)
                row = output.row_bytes(b, results.place.wave_m, fragment_row + result_row(slot + part))
                buffer_store(b, word, output.resource, columns[fragment_col // results.tile.atom.edge], row)


def store_shuffled(b: Builder, results: Results, shuffle: Shuffle, output: Output) -> None:
    """Through LDS, so that each thread stores several columns at once. The accumulators are transposed."""
    shuffle.write(b, results)
    lds_barrier(b)
    for chunk in shuffle.chunks(b, results):
        row_start_bytes = output.row_bytes(b, constant(0), chunk.fixed_row)
        buffer_store(
            b, chunk.words, output.resource, output.column_bytes(b, chunk.lane_row, chunk.col), row_start_bytes
        )
