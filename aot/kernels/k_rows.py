"""Operand tiles that lie across k: the weights of backward data, both operands of backward weights.

Global memory has a row of n, the free axis, per k. A thread loads vectors along n from a few neighbouring rows, the
same rows in every pass, so that only those rows have to be decoded. LDS holds the tile either K-outer, as it comes, or
M-outer (rows along k, as plain fragment reads want them): then each thread puts the elements of its rows side by side
first. Columns beyond the extent of n are loaded as they come: they end in results that nobody stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.control import Loop
from aot.ir.intrinsics import buffer_load
from aot.ir.lds import Segment
from aot.ir.types import integer, vector
from aot.ir.values import Value, constant
from aot.kernels.loaders import HeldLoader, MovingLoader, TileLoader, chunk_type
from aot.kernels.streams import View
from grids import geometry

#: The widest LDS write of the elements that a thread has of one column.
WRITE_BYTES = 8
#: Bytes of one row that neighbouring lanes load together: a cache line, or half of one where lanes also run along k.
LINE_BYTES = 128


def most_rows(elem_bytes: int) -> int:
    """Rows of one thread where the shape allows it: one LDS write takes as many elements of a column."""
    return WRITE_BYTES // elem_bytes


@dataclass(frozen=True, slots=True)
class KRowChunks:
    """How threads share a tile of `rows` (k) x `cols` (n), in chunks of `vec` elements. All extents are powers of two.

    The threads form `row_groups` x `col_lanes`; a thread has `run` neighbouring rows and a chunk of them every
    `col_lanes` chunks: elements (row + i, col + p * pass_cols + j) for i < run, p < passes, j < vec. It has at most
    `most_rows` where the shape allows. With `transposed`, lanes of a wave spread along k, so that their LDS writes fall
    into different banks.
    """

    rows: int
    cols: int
    threads: int
    vec: int
    elem_bytes: int
    transposed: bool
    most_rows: int

    def __post_init__(self) -> None:
        assert geometry.loads_evenly(rows=self.rows, cols=self.cols, threads=self.threads, vec=self.vec)
        assert self.col_lanes * self.row_groups == self.threads
        assert self.run * self.row_groups == self.rows

    @property
    def chunk_bytes(self) -> int:
        """Size of one chunk."""
        return self.vec * self.elem_bytes

    @property
    def registers(self) -> int:
        """Registers that one chunk takes, of 4 bytes each."""
        return max(1, self.chunk_bytes // 4)

    @property
    def col_lanes(self) -> int:
        """Threads along one row."""
        least = max(1, self.threads // self.rows)
        most = max(least, min(self.cols // self.vec, self.most_rows * self.threads // self.rows, self.threads))
        wanted = most if self.transposed else LINE_BYTES // self.chunk_bytes
        return min(max(wanted, least), most)

    @property
    def row_groups(self) -> int:
        """Threads along one column."""
        return self.threads // self.col_lanes

    @property
    def run(self) -> int:
        """Rows of a thread."""
        return self.rows // self.row_groups

    @property
    def passes(self) -> int:
        """Chunks of a thread along each of its rows."""
        return self.cols // (self.vec * self.col_lanes)

    @property
    def pass_cols(self) -> int:
        """Columns from one pass to the next."""
        return self.col_lanes * self.vec

    def position(self, b: Builder, thread: Value) -> tuple[Value, Value]:
        """First row and column of a thread, in elements of the tile."""
        near = min(self.col_lanes, LINE_BYTES // 2 // self.chunk_bytes) if self.transposed else self.col_lanes
        lane, rest = b.urem_pow2(thread, near), b.udiv_pow2(thread, near)
        group, far = b.urem_pow2(rest, self.row_groups), b.udiv_pow2(rest, self.row_groups)
        col = lane if near == self.col_lanes else b.add(lane, b.mul(far, near))
        return b.mul(group, self.run), b.mul(col, self.vec)


@dataclass(frozen=True, slots=True)
class KRowStaging:
    """Moves chunks between global memory, registers and LDS.

    An entry of the view is the number of a row among the `run` of the thread. Registers hold chunks row by row within a
    pass.
    """

    chunks: KRowChunks
    row_bytes: int  # from row to row of the LDS tile, pad included
    lane_bytes: Value  # in LDS of the thread's first element

    @classmethod
    def prepare(cls, b: Builder, chunks: KRowChunks, thread: Value, row_elems: int) -> KRowStaging:
        """For LDS rows of `row_elems` elements: rows of k when K-outer, else of n."""
        row, col = chunks.position(b, thread)
        outer, inner = (col, row) if chunks.transposed else (row, col)
        row_bytes, elem_bytes = row_elems * chunks.elem_bytes, chunks.elem_bytes
        return cls(chunks, row_bytes, b.add(b.mul(outer, row_bytes, "nuw nsw"), b.mul(inner, elem_bytes, "nuw nsw")))

    def load(self, b: Builder, view: View[int], first_bytes: Value, passes: int) -> list[Value]:
        """Issue the loads of this many passes, row by row within a pass, from `first_bytes` along the rows on.

        That is part of the lane offset: what lies behind the end of the tensor is so by every reading of the range
        check.
        """
        chunks = self.chunks
        return [
            buffer_load(
                b,
                chunk_type(chunks.chunk_bytes),
                view.resource,
                b.add(b.add(view.offset(row), first_bytes), number * chunks.pass_cols * chunks.elem_bytes),
                view.scalar,
            )
            for number in range(passes)
            for row in range(chunks.run)
        ]

    @property
    def pass_bytes(self) -> int:
        """Distance in LDS of two passes."""
        return self.chunks.pass_cols * (self.row_bytes if self.chunks.transposed else self.chunks.elem_bytes)

    def store(self, b: Builder, values: Sequence[Value], segment: Segment, lane_bytes: Value) -> None:
        """Write loaded passes, the first one to lane_bytes."""
        run = self.chunks.run
        for first in range(0, len(values), run):
            pointer = b.offset_pointer(segment.pointer(b, lane_bytes), first // run * self.pass_bytes)
            rows = values[first : first + run]
            if self.chunks.transposed:
                self._store_columns(b, rows, pointer)
                continue
            for number, value in enumerate(rows):
                b.store(value, b.offset_pointer(pointer, number * self.row_bytes), value.type.bytes)

    def _store_columns(self, b: Builder, rows: Sequence[Value], pointer: Value) -> None:
        """Every column of a chunk is a piece of an LDS row, as long as the thread has rows."""
        vec, element = self.chunks.vec, integer(self.chunks.elem_bytes)
        elements = [b.bitcast(row, vector(vec, element)) for row in rows]
        for number in range(vec):
            column = b.gather(b.extract(row, number) for row in elements)
            b.store(column, b.offset_pointer(pointer, number * self.row_bytes), column.type.bytes)


class KRowLoader(HeldLoader[int]):
    """All chunks of a thread pass through registers."""

    def __init__(self, staging: KRowStaging) -> None:
        self.staging = staging

    def load(self, b: Builder, view: View[int]) -> list[Value]:
        """Issue all loads of the tile."""
        return self.staging.load(b, view, constant(0), self.staging.chunks.passes)

    def store(self, b: Builder, values: Sequence[Value], segment: Segment) -> None:
        """Write the loaded tile to LDS."""
        self.staging.store(b, values, segment, self.staging.lane_bytes)


class BatchedKRowLoader(MovingLoader[int]):
    """A loop over batches of passes, each loaded and then written."""

    def __init__(self, staging: KRowStaging, limit: int) -> None:
        self.staging, self.batch = staging, max(1, limit // staging.chunks.run)
        assert staging.chunks.passes % self.batch == 0

    def move(self, b: Builder, view: View[int], segment: Segment) -> None:
        """Load and write all batches."""
        staging, batch = self.staging, self.batch
        rounds = constant(staging.chunks.passes // batch)
        with Loop(b, [rounds, constant(0), staging.lane_bytes], "batch") as loop:
            left, first_bytes, place = loop.carried
            staging.store(b, staging.load(b, view, first_bytes, batch), segment, place)
            left = b.sub(left, 1)
            first_bytes = b.add(first_bytes, batch * staging.chunks.pass_cols * staging.chunks.elem_bytes)
            place = b.add(place, batch * staging.pass_bytes)
            loop.repeat_if(b.icmp("ne", left, 0), [left, first_bytes, place], [])


def k_row_loader(staging: KRowStaging, batch: int | None) -> TileLoader[int]:
    """The loader that holds the whole tile, or up to `batch` chunks of a thread at a time."""
    return BatchedKRowLoader(staging, batch) if batch else KRowLoader(staging)
