"""A table in LDS of what is known about each row of the input tile, so that a row is decoded once per workgroup.

Each thread decodes tile_rows / threads rows, or one if it has a number below tile_rows, and writes their entries; then
every thread reads the entries of the rows of its chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.lds import Segment
from aot.ir.types import I32, vector
from aot.ir.values import Value, constant

#: Words of an entry are i32; an entry takes a power of two of bytes so that one read fetches it.
ENTRY_BYTES = 16


def own_rows(tile_rows: int, threads: int) -> int:
    """Rows that each thread decodes."""
    return max(1, tile_rows // threads)


def own_row_numbers(b: Builder, thread: Value, tile_rows: int, threads: int) -> list[Value]:
    """The rows of the tile that thread t decodes: t, t + threads, ...; behind the tile for surplus threads."""
    return [b.add(thread, number * threads) for number in range(own_rows(tile_rows, threads))]


def repeated_row_numbers(b: Builder, thread: Value, tile_rows: int, threads: int) -> Iterator[Value]:
    """The same, surplus threads repeating what others do; each number is written when it is asked for."""
    first = b.urem_pow2(thread, tile_rows) if threads > tile_rows else thread
    for number in range(own_rows(tile_rows, threads)):
        yield b.add(first, number * threads)


@dataclass(frozen=True, slots=True)
class RowTable:
    """Entries of `words` words at `segment`; the entry of row r of the tile is at byte r * ENTRY_BYTES."""

    segment: Segment
    words: int

    def write(self, b: Builder, rows: Sequence[Value], entries: Sequence[Iterable[Value]]) -> None:
        """Put the entries of these rows; a barrier must follow."""
        for row, entry in zip(rows, entries, strict=True):
            padded = [*entry, *(constant(0) for _ in range(_stored_words(self.words) - self.words))]
            b.store(b.gather(padded), self.segment.pointer(b, b.mul(row, ENTRY_BYTES)), ENTRY_BYTES)

    def read(self, b: Builder, lane_bytes: Value, fixed_row: int) -> tuple[Value, ...]:
        """The words of the entry `fixed_row` rows behind the one at lane_bytes."""
        pointer = b.offset_pointer(self.segment.pointer(b, lane_bytes), fixed_row * ENTRY_BYTES)
        entry = b.load(vector(_stored_words(self.words), I32), pointer, ENTRY_BYTES)
        return tuple(b.extract(entry, word) for word in range(self.words))


def _stored_words(words: int) -> int:
    return 2 if words == 2 else 4
