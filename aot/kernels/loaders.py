"""Moves one K tile of one operand from global memory to LDS: through registers, or directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.intrinsics import buffer_load, buffer_load_to_lds
from aot.ir.lds import Segment
from aot.ir.types import I16, I32, Type, vector
from aot.ir.values import Value
from aot.kernels.chunks import ChunkMap
from aot.kernels.fragments import ELEM_BYTES
from aot.kernels.streams import Addresses


def chunk_type(elems: int) -> Type:
    """Register type of a chunk of 16-bit elements."""
    return I16 if elems == 1 else vector(elems // 2, I32)


@dataclass(frozen=True, slots=True)
class RegisterLoader:
    """Chunks pass through registers. `lane_bytes` is where the thread's first chunk goes in LDS."""

    chunks: ChunkMap
    row_bytes: int
    lane_bytes: Value

    @classmethod
    def prepare(cls, b: Builder, chunks: ChunkMap, thread: Value, row_elems: int) -> RegisterLoader:
        """A loader into a tile of rows of `row_elems` elements."""
        at, row_bytes = chunks.position(b, thread, 0), row_elems * ELEM_BYTES
        lane_bytes = b.add(b.mul(at.row, row_bytes, "nuw nsw"), b.mul(at.col, ELEM_BYTES, "nuw nsw"), "nuw nsw")
        return cls(chunks, row_bytes, lane_bytes)

    def load(self, b: Builder, addresses: Addresses) -> list[Value]:
        """Issue all loads of the tile."""
        kind = chunk_type(self.chunks.vec)
        return [
            buffer_load(b, kind, addresses.resource, offset, addresses.scalar) for offset in addresses.chunks
        ]

    def store(self, b: Builder, values: Sequence[Value], segment: Segment) -> None:
        """Write loaded chunks to LDS."""
        for number, value in enumerate(values):
            fixed = number * self.chunks.rows_per_pass * self.row_bytes
            pointer = b.offset_pointer(segment.pointer(b, self.lane_bytes), fixed)
            b.store(value, pointer, value.type.bytes)


@dataclass(frozen=True, slots=True)
class DirectLoader:
    """Chunks go straight to LDS, in thread order. `wave_bytes` is the scalar place of the wave's first chunk."""

    chunks: ChunkMap
    wave_bytes: Value

    @classmethod
    def prepare(cls, b: Builder, chunks: ChunkMap, wave: Value, wave_size: int) -> DirectLoader:
        """A loader into a packed tile."""
        return cls(chunks, b.mul(wave, wave_size * chunks.vec * ELEM_BYTES))

    def issue(self, b: Builder, addresses: Addresses, segment: Segment) -> None:
        """Issue all loads of the tile."""
        chunk_bytes = self.chunks.vec * ELEM_BYTES
        for number, offset in enumerate(addresses.chunks):
            fixed = number * self.chunks.threads * chunk_bytes
            pointer = b.offset_pointer(segment.pointer(b, self.wave_bytes), fixed)
            buffer_load_to_lds(b, addresses.resource, pointer, chunk_bytes, offset, addresses.scalar, segment.tags)
