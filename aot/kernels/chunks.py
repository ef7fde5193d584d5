"""How the threads of a workgroup share out a tile: vectors of one row, numbered row by row.

Chunk q = pass * threads + thread covers row q div (cols / vec), columns (q mod (cols / vec)) * vec onwards. Threads and
chunks per row are powers of two, so a thread's chunks either share one column, or one row holds several passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.values import Value, constant
from grids import geometry


@dataclass(frozen=True, slots=True)
class Position:
    """The first element of a chunk in its tile: row `row + row_step`, column `col + col_step`, all in elements.

    What depends on the thread is a lane value; the steps are known at build time.
    """

    row: Value
    row_step: int
    col: Value
    col_step: int


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """Vectors of `vec` elements over a tile of rows x cols elements, `threads` at a time.

    Thread t holds chunks t, t + threads, ... of the numbering above: elements (row, col) to (row, col + vec - 1) each.
    """

    rows: int
    cols: int
    threads: int
    vec: int
    elem_bytes: int

    def __post_init__(self) -> None:
        assert geometry.loads_evenly(rows=self.rows, cols=self.cols, threads=self.threads, vec=self.vec)

    @property
    def passes(self) -> int:
        """Chunks of one thread."""
        return geometry.loader_chunks(rows=self.rows, cols=self.cols, threads=self.threads, vec=self.vec)

    @property
    def chunk_bytes(self) -> int:
        """Size of one chunk."""
        return self.vec * self.elem_bytes

    @property
    def registers(self) -> int:
        """Registers that one chunk takes, of 4 bytes each."""
        return max(1, self.chunk_bytes // 4)

    @property
    def per_row(self) -> int:
        """Chunks of one row."""
        return self.cols // self.vec

    @property
    def shares_column(self) -> bool:
        """Whether all chunks of a thread stand in the same columns."""
        return self.threads % self.per_row == 0

    @property
    def rows_per_pass(self) -> int:
        """Rows from one chunk of a thread to its next; only where they share a column."""
        assert self.shares_column
        return self.threads // self.per_row

    def position(self, b: Builder, thread: Value, number: int) -> Position:
        """First element of a thread's chunk of this number."""
        if self.shares_column:
            row, col = b.udiv_pow2(thread, self.per_row), b.urem_pow2(thread, self.per_row)
            return Position(row, number * self.rows_per_pass, b.mul(col, self.vec), 0)
        row_number, part = divmod(number, self.per_row // self.threads)
        return Position(constant(0), row_number, b.mul(thread, self.vec), part * self.threads * self.vec)

    def row_numbers(self, b: Builder, thread: Value) -> list[Value]:
        """The row of each of a thread's chunks; only where they share a column."""
        first = self.position(b, thread, 0).row
        return [b.add(first, number * self.rows_per_pass) for number in range(self.passes)]
