"""The rows of an operand tile as its loaders meet them: kept in registers, or fetched anew for every batch of chunks.

A thread that loads few chunks keeps an entry per chunk in registers. One that loads many (narrow vectors, few threads)
would fill the register file and the code with them: it runs a loop over batches instead, and gets the entries of a
batch from the row table (A) or from the distance between rows (B).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.intrinsics import OUT_OF_BOUNDS
from aot.ir.values import Value
from aot.kernels.chunks import ChunkMap
from aot.kernels.row_table import ENTRY_BYTES, RowTable
from aot.kernels.rows import image_rows
from aot.kernels.streams import B, E, Row, Stream


class RowSet(Protocol[E]):
    """Entries of the rows of a thread's chunks, in the order of its chunks, walked by a carried state."""

    def start(self) -> list[Value]:
        """State of the first batch."""
        ...

    def entries(self, state: Sequence[Value], count: int) -> list[E]:
        """Entries of the batch, and nothing else."""
        ...

    def advance(self, state: Sequence[Value], count: int) -> list[Value]:
        """State of the batch behind `count` chunks."""
        ...


@dataclass(frozen=True, slots=True)
class TabledRows(Generic[Row, B]):
    """Rows of A behind a table. State: byte place in the table of the thread's first row of the batch."""

    b: Builder
    table: RowTable
    chunks: ChunkMap
    stream: Stream[Row, B]
    first_row: Value

    def start(self) -> list[Value]:
        return [self.b.mul(self.first_row, ENTRY_BYTES)]

    def entries(self, state: Sequence[Value], count: int) -> list[Row]:
        step = self.chunks.rows_per_pass
        return [self.stream.localised(self.table.read(self.b, state[0], number * step)) for number in range(count)]

    def advance(self, state: Sequence[Value], count: int) -> list[Value]:
        return [self.b.add(state[0], count * self.chunks.rows_per_pass * ENTRY_BYTES)]


def read_back(rows: TabledRows[Row, B], *, in_loop: bool) -> list[Row] | TabledRows[Row, B]:
    """Rows that the workgroup has just written to a table: for the loop to read, or this thread's, read at once."""
    lds_barrier(rows.b)
    if in_loop:
        return rows
    own = rows.entries(rows.start(), rows.chunks.passes)
    # The table may stand where the operand tiles will be.
    lds_barrier(rows.b)
    return own


@dataclass(frozen=True, slots=True)
class DecodedRows(Generic[Row, B]):
    """Rows of A decoded anew for every batch, where LDS has no room for a table.

    State: the output pixel of the thread's first row of the batch.
    """

    b: Builder
    args: Mapping[str, Value]
    chunks: ChunkMap
    stream: Stream[Row, B]
    first_pixel: Value

    def start(self) -> list[Value]:
        return [self.first_pixel]

    def entries(self, state: Sequence[Value], count: int) -> list[Row]:
        step = self.chunks.rows_per_pass
        rows = image_rows(self.b, self.args, [self.b.add(state[0], number * step) for number in range(count)])
        return [self.stream.localised(entry) for entry in self.stream.entries(rows)]

    def advance(self, state: Sequence[Value], count: int) -> list[Value]:
        return [self.b.add(state[0], count * self.chunks.rows_per_pass)]


@dataclass(frozen=True, slots=True)
class EvenRows:
    """Rows of B, which lie at even distances. State: lane byte offset of the batch, rows left in the group.

    `lane_bytes` is the offset of the thread's first row and column, `row_bytes` the distance of two rows. Offsets are
    chained from the state, so that nothing of a batch is worth keeping in registers.
    """

    b: Builder
    chunks: ChunkMap
    first_row: Value
    lane_bytes: Value
    row_bytes: Value
    rows_left: Value

    def start(self) -> list[Value]:
        return [self.lane_bytes, self.rows_left]

    def entries(self, state: Sequence[Value], count: int) -> list[Value]:
        b, (offset, left) = self.b, state
        step = self.chunks.rows_per_pass
        # Negative from the first row behind the group on: its sign puts the offset out of bounds without a comparison.
        behind = b.sub(b.sub(left, 1), self.first_row)
        entries: list[Value] = []
        for number in range(count):
            sign = b.and_(b.sub(behind, number * step), OUT_OF_BOUNDS)
            entries.append(b.or_(sign, offset))
            offset = b.add(offset, b.mul(self.row_bytes, step))
        return entries

    def advance(self, state: Sequence[Value], count: int) -> list[Value]:
        offset, left = state
        rows = count * self.chunks.rows_per_pass
        return [self.b.add(offset, self.b.mul(self.row_bytes, rows)), self.b.sub(left, rows)]
