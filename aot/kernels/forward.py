"""The forward convolution as an implicit GEMM: D[m, n] = sum over k of A[m, k] * B[n, k].

m is an output pixel (n, ho, wo), n an output channel of the group, k = (y, x, c) a filter tap and input channel. A is
the input seen through the filter, B the weights, which lie along k as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aot.ir.builder import Builder
from aot.ir.control import if_else, if_then
from aot.ir.intrinsics import buffer_resource, is_one
from aot.ir.lds import Segment
from aot.ir.values import Value, late
from aot.kernels import budget, mainloop
from aot.kernels.arguments import forward_arguments
from aot.kernels.budget import Budget
from aot.kernels.chunks import ChunkMap
from aot.kernels.epilogue import Output, store_direct, store_shuffled
from aot.kernels.gemm import GemmKernel, operand_bytes
from aot.kernels.loaders import Staging, staged_loader
from aot.kernels.mainloop import Buffers, Loads, Multiply
from aot.kernels.place import Place
from aot.kernels.results import Results
from aot.kernels.row_table import ENTRY_BYTES, RowTable, own_row_numbers, own_rows
from aot.kernels.rows import ImageRow, image_rows
from aot.kernels.rowsets import DecodedRows, EvenRows, RowSet, TabledRows, read_back
from aot.kernels.source import KernelSource
from aot.kernels.streams import Args, GeneralStream, Row, Stream, UniformStream, Walk
from aot.kernels.swizzle import Swizzle, swizzle
from aot.kernels.tile import Tile
from grids.gemm.records import Forward
from grids.geometry import lds_of_identity
from grids.targets import target


def emit_forward(identity: Forward, flavor: str) -> KernelSource:
    """The kernel of one forward identity. No problem extent enters: the text depends on identity and flavor only."""
    return _Forward(identity, flavor).source()


def _chunks(identity: Forward, tile: Tile) -> tuple[ChunkMap, ChunkMap]:
    """How threads share out the operand tiles, A then B."""
    widths = identity.vector_size_a, identity.vector_size_b
    if identity.async_dma:
        widths = identity.async_chunk_a, identity.async_chunk_b
    return (
        ChunkMap(tile.m, tile.k, tile.threads, widths[0], tile.elem.bytes),
        ChunkMap(tile.n, tile.k, tile.threads, widths[1], tile.elem.bytes),
    )


def _swizzle(tile: Tile, a: ChunkMap, b: ChunkMap) -> Swizzle:
    """Direct-to-LDS tiles have no pad and are swizzled instead, as far as all chunks of a thread share a column."""
    period = min(a.rows_per_pass, b.rows_per_pass, tile.atom.edge)
    return swizzle(cols=tile.k, granule=tile.atom.operand.lanes, row_period=period, elem_bytes=tile.elem.bytes)


class _Forward(GemmKernel[Budget]):
    """The pieces of one kernel, from index maps to epilogue."""

    def __init__(self, identity: Forward, flavor: str) -> None:
        tile, layout = Tile.of(identity), lds_of_identity(identity)
        self.a_chunks, self.b_chunks = _chunks(identity, tile)
        self.swizzle = _swizzle(tile, self.a_chunks, self.b_chunks) if identity.async_dma else None
        choices = budget.plan(
            tile,
            self.a_chunks,
            self.b_chunks,
            staged=not identity.async_dma,
            hinted=identity.pipeline in ("compv3", "compv4"),
        )
        self.batched = choices.a_batch is not None
        # A table that is read in the loop stands behind the operand tiles.
        self.table_start, self.table_bytes = operand_bytes(layout), tile.m * ENTRY_BYTES
        behind = self.table_start + self.table_bytes
        self.tabled = self.batched and behind <= target(identity.arch).lds_bytes
        lds_bytes = max(layout.total_bytes, behind) if self.tabled else layout.total_bytes
        super().__init__(identity, flavor, forward_arguments(), choices, lds_bytes)

    def source(self) -> KernelSource:
        """Index maps, prologue, K loop, epilogue."""
        b, args = self.b, self.args
        place = Place.of(b, self.tile, self.identity.wave_size)
        buffers = self._buffers(told_apart=self.identity.async_dma)
        phase = self._multiply(place)
        walk = self._walk(place)
        pixels, rows = self._own_rows(place)
        kept = self._weights(place, walk) if self.budget.roomy else None

        def loop(kind: Callable[[Builder, Args, Walk], Stream[Row, Value]]) -> list[Value]:
            stream = kind(b, args, walk)
            entries = self._entries(place, stream, pixels, rows)
            # What stands in front of both loops takes registers in each: where they are short, each works it out.
            weights = kept or self._weights(place, walk)
            return self._pinned(self._loop(place, stream, entries, weights, buffers, phase))

        with self._priority():
            accumulators = if_else(
                b, is_one(b, args["uniform_taps"]), partial(loop, UniformStream), partial(loop, GeneralStream)
            )
        self._store(place, self._pinned(accumulators))
        return self._rendered({"A": "readonly", "B": "readonly", "D": "writeonly"})

    # --- index maps --------------------------------------------------------------------------------------------------

    def _multiply(self, place: Place) -> Multiply:
        """The matrix phase: results are transposed for the shuffled epilogue."""
        return Multiply(
            tile=self.tile,
            a=self._a_fragments(place, swizzle=self.swizzle),
            b=self._b_fragments(place, swizzle=self.swizzle),
            transposed=self.identity.epilogue == "cshuffle",
            hints=self.budget.hints,
            reads_ahead=self.identity.pipeline == "compv4",
        )

    def _walk(self, place: Place) -> Walk:
        """Columns of this thread; a swizzled tile fetches each granule from where it belongs."""
        b, args = self.b, self.args
        columns = []
        for chunks in (self.a_chunks, self.b_chunks):
            at = chunks.position(b, place.thread, 0)
            turn = self.swizzle
            columns.append(at.col if turn is None else turn.column(b, at.col, turn.bits_of_row(b, at.row)))
        first_row = b.add(b.mul(place.group, args["p_kpg"]), place.first_n)
        return Walk(
            flavor=self.flavor,
            tile_k=self.tile.k,
            elem_bytes=self.tile.elem.bytes,
            a_col=columns[0],
            b_col=columns[1],
            a_group_bytes=b.mul(b.mul(place.group, args["p_cpg"]), self.tile.elem.bytes),
            b_start_bytes=b.mul(first_row, b.mul(args["p_K_gemm"], self.tile.elem.bytes)),
        )

    def _own_rows(self, place: Place) -> tuple[list[Value], list[ImageRow]]:
        """The rows of A that this thread decodes in the prologue: those of its chunks, or its share of a row table."""
        b = self.b
        if self._has_table:
            numbers = own_row_numbers(b, place.thread, self.tile.m, self.tile.threads)
        elif self.batched:
            numbers = []
        else:
            numbers = self.a_chunks.row_numbers(b, place.thread)
        return numbers, image_rows(b, self.args, [b.add(place.first_m, row) for row in numbers])

    @property
    def _has_table(self) -> bool:
        """Whether decoded rows are shared: where the loop reads them, or where it saves work in the prologue."""
        if self.batched:
            return self.tabled
        return self.a_chunks.passes > own_rows(self.tile.m, self.tile.threads)

    def _weights(self, place: Place, walk: Walk) -> EvenRows:
        """The rows of B that this thread loads."""
        b, args = self.b, self.args
        row = self.b_chunks.position(b, place.thread, 0).row
        row_bytes = b.mul(args["p_K_gemm"], self.tile.elem.bytes)
        return EvenRows(
            b=b,
            chunks=self.b_chunks,
            first_row=row,
            lane_bytes=b.add(b.mul(row, row_bytes), b.mul(walk.b_col, self.tile.elem.bytes)),
            row_bytes=row_bytes,
            rows_left=b.sub(args["p_kpg"], place.first_n),
        )

    # --- loop and epilogue -------------------------------------------------------------------------------------------

    def _entries(
        self, place: Place, stream: Stream[Row, Value], numbers: list[Value], rows: list[ImageRow]
    ) -> list[Row] | RowSet[Row]:
        """What the loop knows about the rows of A: an entry per chunk, a table of them, or how to decode them."""
        b, tile = self.b, self.tile
        first = self.a_chunks.position(b, place.thread, 0).row
        if not self._has_table:
            if self.batched:
                return DecodedRows(b, self.args, self.a_chunks, stream, b.add(place.first_m, first))
            return [stream.localised(entry) for entry in stream.entries(rows)]
        # A table that only the prologue reads may stand where the operand tiles will be.
        table = RowTable(Segment(self.table_start * self.tabled, self.table_bytes), stream.words)
        if tile.threads > tile.m:
            has_row = b.icmp("ult", place.thread, tile.m)
            if_then(b, has_row, lambda: table.write(b, numbers, stream.entries(rows)))
        else:
            table.write(b, numbers, stream.entries(rows))
        return read_back(TabledRows(b, table, self.a_chunks, stream, first), in_loop=self.batched)

    def _loop(
        self,
        place: Place,
        stream: Stream[Row, Value],
        a_rows: list[Row] | RowSet[Row],
        weights: EvenRows,
        buffers: list[Buffers],
        phase: Multiply,
    ) -> list[Value]:
        """The K loop of this pipeline."""
        b, identity, layout, tiles = self.b, self.identity, self.layout, self.args["k_tiles"]
        many = self.budget.b_batch is not None
        b_rows = weights if many else weights.entries(weights.start(), self.b_chunks.passes)
        a_batch, b_batch = self.budget.a_batch, self.budget.b_batch
        if identity.async_dma:
            direct = (
                self._direct_loader(place, self.a_chunks, a_rows, a_batch),
                self._direct_loader(place, self.b_chunks, b_rows, b_batch),
            )
            return mainloop.direct(b, stream, tiles, direct, buffers, phase)
        a_staging = Staging.prepare(b, self.a_chunks, place.thread, layout.a_row_elems)
        b_staging = Staging.prepare(b, self.b_chunks, place.thread, layout.b_row_elems)
        loads = Loads(staged_loader(a_staging, a_rows, a_batch), staged_loader(b_staging, b_rows, b_batch))
        return self._staged_loop(stream, tiles, loads, buffers, phase)

    def _store(self, place: Place, accumulators: list[Value]) -> None:
        """The epilogue of this identity."""
        b, args, identity = self.b, self.args, self.identity
        output = Output(
            resource=buffer_resource(b, self.flavor, args["D"], args["D_bytes"]),
            first_row=place.first_m,
            first_col=place.first_n,
            group_bytes=b.mul(b.mul(place.group, args["p_kpg"]), self.tile.out.bytes),
            elem_bytes=self.tile.out.bytes,
            row_elems=late(args, "p_K"),
            group_cols=late(args, "p_kpg"),
        )
        results = Results(self.tile, accumulators, place)
        if identity.epilogue == "default":
            store_direct(b, results, output)
            return
        shuffle = self._shuffle(identity.vector_size_c)
        store_shuffled(b, results, shuffle, output)
