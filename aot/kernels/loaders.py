"""Moves one K tile of one operand from global memory to LDS: through registers, or directly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from aot.ir.builder import Builder
from aot.ir.control import Loop
from aot.ir.intrinsics import buffer_load, buffer_load_to_lds, not_invariant
from aot.ir.lds import Segment
from aot.ir.types import I32, Type, integer, vector
from aot.ir.values import Value, constant
from aot.kernels.chunks import ChunkMap
from aot.kernels.rowsets import RowSet
from aot.kernels.streams import E, View


def chunk_type(num_bytes: int) -> Type:
    """Register type of a chunk: whole registers, or what a single narrow element takes of one."""
    whole = vector(max(1, num_bytes // I32.bytes), I32)
    return whole if whole.bytes == num_bytes else integer(num_bytes)


def load_chunks(b: Builder, kind: Type, view: View[E], entries: Iterable[E]) -> list[Value]:
    """Issue one load per entry."""
    return [buffer_load(b, kind, view.resource, view.offset(entry), view.scalar) for entry in entries]


@dataclass(frozen=True, slots=True)
class Staging:
    """Where chunks that passed through registers go in LDS: element (row, col) at row * row_bytes + col elements.

    Chunks of a thread share a column, so each is `pass_bytes` behind the one before.
    """

    chunks: ChunkMap
    row_bytes: int  # from row to row of the tile, pad included
    lane_bytes: Value  # of the thread's first chunk

    @classmethod
    def prepare(cls, b: Builder, chunks: ChunkMap, thread: Value, row_elems: int) -> Staging:
        """For a tile with rows of `row_elems` elements."""
        at, row_bytes = chunks.position(b, thread, 0), row_elems * chunks.elem_bytes
        lane_bytes = b.add(b.mul(at.row, row_bytes, "nuw nsw"), b.mul(at.col, chunks.elem_bytes, "nuw nsw"), "nuw nsw")
        return cls(chunks, row_bytes, lane_bytes)

    @property
    def pass_bytes(self) -> int:
        """Distance in LDS of two chunks of a thread."""
        return self.chunks.rows_per_pass * self.row_bytes

    def store(self, b: Builder, values: Sequence[Value], segment: Segment, lane_bytes: Value) -> None:
        """Write consecutive chunks, the first one to lane_bytes."""
        for number, value in enumerate(values):
            pointer = b.offset_pointer(segment.pointer(b, lane_bytes), number * self.pass_bytes)
            b.store(value, pointer, value.type.bytes)


class TileLoader(Protocol[E]):
    """Brings one operand's K tile to LDS. A batched loader holds nothing in registers: `move` does it all."""

    @property
    def batched(self) -> bool: ...

    def load(self, b: Builder, view: View[E]) -> list[Value]:
        """Issue the loads of the tile, as far as registers hold it."""
        ...

    def store(self, b: Builder, values: Sequence[Value], segment: Segment) -> None:
        """Write what `load` brought to LDS."""
        ...

    def move(self, b: Builder, view: View[E], segment: Segment) -> None:
        """Load and write what `load` does not bring."""
        ...


class HeldLoader(Generic[E]):
    """A loader whose tile is in registers between `load` and `store`."""

    batched = False

    def move(self, b: Builder, view: View[E], segment: Segment) -> None:
        """Nothing: `load` and `store` do it all."""


class MovingLoader(Generic[E]):
    """A loader whose tile is more than registers hold: `move` takes it to LDS in batches."""

    batched = True

    def load(self, b: Builder, view: View[E]) -> list[Value]:
        """Nothing: `move` does it all."""
        del b, view
        return []

    def store(self, b: Builder, values: Sequence[Value], segment: Segment) -> None:
        """Nothing: `move` does it all."""


class RegisterLoader(HeldLoader[E]):
    """Chunks pass through registers; all loads of a tile are issued before the first is written to LDS."""

    def __init__(self, staging: Staging, entries: Sequence[E]) -> None:
        self.staging, self.entries = staging, list(entries)

    def load(self, b: Builder, view: View[E]) -> list[Value]:
        """Issue all loads of the tile."""
        return load_chunks(b, chunk_type(self.staging.chunks.chunk_bytes), view, self.entries)

    def store(self, b: Builder, values: Sequence[Value], segment: Segment) -> None:
        """Write the loaded tile to LDS."""
        self.staging.store(b, values, segment, self.staging.lane_bytes)


class BatchedLoader(MovingLoader[E]):
    """A loop over batches of chunks, each loaded and then written."""

    def __init__(self, staging: Staging, rows: RowSet[E], batch: int) -> None:
        self.staging, self.rows, self.batch = staging, rows, batch

    def move(self, b: Builder, view: View[E], segment: Segment) -> None:
        """Load and write all batches."""
        staging, kind = self.staging, chunk_type(self.staging.chunks.chunk_bytes)

        def one(place: Value, state: Sequence[Value]) -> Value:
            loaded = load_chunks(b, kind, view, self.rows.entries(state, self.batch))
            staging.store(b, loaded, segment, place)
            return b.add(place, self.batch * staging.pass_bytes)

        for_batches(b, staging.chunks, self.rows, self.batch, staging.lane_bytes, one)


def staged_loader(staging: Staging, rows: list[E] | RowSet[E], batch: int | None) -> TileLoader[E]:
    """The loader for rows that are all known, or of which `batch` are fetched at a time."""
    if isinstance(rows, list):
        return RegisterLoader(staging, rows)
    assert batch is not None
    return BatchedLoader(staging, rows, batch)


class DirectLoader(Generic[E]):
    """Chunks go straight to LDS, in thread order: lane l of a wave fetches the chunk at wave_bytes + l chunks.

    `wave_bytes` is the scalar place of the wave's first chunk. `rows` are the entries of all chunks of a thread, or
    give them `batch` at a time.
    """

    def __init__(self, chunks: ChunkMap, wave_bytes: Value, rows: list[E] | RowSet[E], batch: int | None) -> None:
        self.chunks, self.wave_bytes, self.rows, self.batch = chunks, wave_bytes, rows, batch

    def issue(self, b: Builder, view: View[E], segment: Segment) -> None:
        """Issue all loads of the tile."""
        rows, batch = self.rows, self.batch
        # A destination is one addition away; kept in registers, those of all chunks would be too many.
        first = not_invariant(b, self.wave_bytes)
        if isinstance(rows, list):
            self._issue(b, view, rows, segment, first)
            return
        assert batch is not None

        def one(place: Value, state: Sequence[Value]) -> Value:
            self._issue(b, view, rows.entries(state, batch), segment, place)
            return b.add(place, batch * self._pass_bytes)

        for_batches(b, self.chunks, rows, batch, first, one)

    @property
    def _pass_bytes(self) -> int:
        return self.chunks.threads * self.chunks.chunk_bytes

    def _issue(self, b: Builder, view: View[E], entries: Sequence[E], segment: Segment, place: Value) -> None:
        for number, entry in enumerate(entries):
            pointer = b.offset_pointer(segment.pointer(b, place), number * self._pass_bytes)
            size = self.chunks.chunk_bytes
            buffer_load_to_lds(b, view.resource, pointer, size, view.offset(entry), view.scalar, segment.tags)


def for_batches(
    b: Builder,
    chunks: ChunkMap,
    rows: RowSet[E],
    batch: int,
    place: Value,
    body: Callable[[Value, Sequence[Value]], Value],
) -> None:
    """Run `body(place, rows state) -> next place` over all batches of a tile."""
    with Loop(b, [constant(chunks.passes // batch), place, *rows.start()], "batch") as loop:
        left, place, *state = loop.carried
        place = body(place, state)
        left = b.sub(left, 1)
        loop.repeat_if(b.icmp("ne", left, 0), [left, place, *rows.advance(state, batch)], [])
