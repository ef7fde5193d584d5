"""Backward data as implicit GEMMs: D[m, n] = sum over k of A[m, k] * B[k, n], one product per pixel lattice.

m is a pixel of a lattice of dX, n an input channel of the group, k = (ydot, xdot, k_out) a tap that meets the lattice
and an output channel. A is dY seen through the taps, B the weights, which lie across k. A kernel for any stride finds
the lattice of its workgroup in a table; at stride 1 there is one lattice, which is folded from arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aot.ir.builder import Builder
from aot.ir.control import if_else
from aot.ir.intrinsics import buffer_resource, is_one, opaque, workgroup_id, workitem_id_x
from aot.ir.lds import Segment
from aot.ir.values import Value, at_once
from aot.kernels import dgrad_budget
from aot.kernels.chunks import ChunkMap
from aot.kernels.counter import NOWHERE
from aot.kernels.dgrad_arguments import dgrad_arguments
from aot.kernels.dgrad_budget import GradientBudget
from aot.kernels.dgrad_output import LatticeOutput, row_table_bytes, store_lattice_direct, store_lattice_shuffled
from aot.kernels.dgrad_record import SubGemmRecord, folded_record, found_record, tile_of_record
from aot.kernels.dgrad_streams import CountedTaps, GradientWalk, UniformTaps
from aot.kernels.epilogue import Output, store_direct, store_shuffled
from aot.kernels.gemm import GemmKernel, operand_bytes
from aot.kernels.k_rows import KRowStaging, k_row_loader
from aot.kernels.loaders import Staging, staged_loader
from aot.kernels.mainloop import Loads, Multiply
from aot.kernels.place import Place
from aot.kernels.results import Results
from aot.kernels.row_table import ENTRY_BYTES, RowTable, own_rows, repeated_row_numbers
from aot.kernels.rows import ImageRow
from aot.kernels.rowsets import RowSet, TabledRows, read_back
from aot.kernels.source import KernelSource
from aot.kernels.streams import Args, Row, Stream
from aot.kernels.tile import Tile
from grids import geometry
from grids.gemm.records import Dgrad
from grids.targets import target


def emit_dgrad(identity: Dgrad, flavor: str) -> KernelSource:
    """The kernel of one backward-data identity. No problem extent enters the text."""
    return _Dgrad(identity, flavor).source()


def _output_table(identity: Dgrad, layout: geometry.LdsLayout[int]) -> Segment | None:
    """Where the row offsets of a lattice stand: over the operands, or behind a shuffled tile if there is room."""
    size, behind = row_table_bytes(identity.tile_m), layout.c_offset + layout.c_bytes
    if identity.epilogue == "default":
        return Segment(0, size)
    return Segment(behind, size) if behind + size <= target(identity.arch).lds_bytes else None


class _Dgrad(GemmKernel[GradientBudget]):
    """The pieces of one kernel, from index maps to epilogue."""

    def __init__(self, identity: Dgrad, flavor: str) -> None:
        tile, layout = Tile.of(identity), geometry.lds_of_identity(identity)
        self.folded = identity.folded
        self.a_chunks = ChunkMap(tile.m, tile.k, tile.threads, identity.vector_size_a, tile.elem.bytes)
        b_width = geometry.clamped_width(
            rows=tile.k,
            cols=tile.n,
            threads=tile.threads,
            request=identity.vector_size_b,
            elem_bytes=tile.elem.bytes,
        )
        choices = dgrad_budget.plan(tile, self.a_chunks, b_width, transposed=not identity.lds_k_outer)
        self.b_chunks = choices.weights
        # Sharing decoded rows may save work; a table that is read in the loop is needed anyway.
        self.has_table = bool(choices.a_batch) or self.a_chunks.passes > own_rows(tile.m, tile.threads)
        # A table that only the prologue reads may stand where the operand tiles will be.
        self.table = Segment(operand_bytes(layout) if choices.a_batch else 0, tile.m * ENTRY_BYTES)
        self.output_table = None if self.folded else _output_table(identity, layout)
        tables = [*([self.table] if self.has_table else []), *([self.output_table] if self.output_table else [])]
        lds_bytes = max(layout.total_bytes, *(table.start + table.size for table in tables), 0)
        super().__init__(identity, flavor, dgrad_arguments(), choices, lds_bytes)

    def source(self) -> KernelSource:
        """Index maps, prologue, K loop, epilogue."""
        b, identity = self.b, self.identity
        record = self._record()
        place = self._place(record)
        tiles = b.udiv_pow2(b.add(record["gemm_k"], self.tile.k - 1), self.tile.k)
        phase = self._multiply(place)
        walk = self._walk(place, record)
        numbers, rows = self._own_rows(place, record)

        def loop(kind: Callable[[Builder, Args, GradientWalk], Stream[Row, int]]) -> list[Value]:
            stream = kind(b, self.args, walk)
            entries = self._entries(place, stream, numbers, rows)
            return self._pinned(self._loop(place, tiles, stream, entries, phase))

        with self._priority():
            if identity.uniform_k_decode:
                lean = is_one(b, self.args["uniform_taps"])
                accumulators = if_else(b, lean, partial(loop, UniformTaps), partial(loop, CountedTaps))
            else:
                accumulators = loop(CountedTaps)
        self._store(self._place_anew(place), record, self._pinned(accumulators))
        return self._rendered({**dict.fromkeys(("A", "B", "sub_gemm_buf"), "readonly"), "D": "writeonly"}, "xy")

    # --- index maps --------------------------------------------------------------------------------------------------

    def _record(self) -> SubGemmRecord:
        """The sub-GEMM of this workgroup."""
        b, wave_size = self.b, self.identity.wave_size
        if self.folded:
            return folded_record(b, self.args)
        thread = workitem_id_x(b, self.tile.threads)
        return found_record(b, self.flavor, self.args, b.urem_pow2(thread, wave_size))

    def _place(self, record: SubGemmRecord) -> Place:
        """Workgroups: tiles of all records along x, groups along y."""
        b, tile = self.b, self.tile
        m_tile, n_tile = tile_of_record(b, self.args, record)
        return Place.at(
            b,
            tile,
            self.identity.wave_size,
            thread=workitem_id_x(b, tile.threads),
            first_m=b.mul(m_tile, tile.m),
            first_n=b.mul(n_tile, tile.n),
            group=workgroup_id(b, "y"),
        )

    def _place_anew(self, place: Place) -> Place:
        """The same place, worked out again, so that only the thread number has to be kept through the K loop."""
        return Place.at(
            self.b,
            self.tile,
            self.identity.wave_size,
            thread=opaque(self.b, place.thread),
            first_m=place.first_m,
            first_n=place.first_n,
            group=place.group,
        )

    def _multiply(self, place: Place) -> Multiply:
        """The matrix phase: results are transposed for the shuffled epilogue."""
        weights = self._b_fragments(place, k_outer=self.identity.lds_k_outer)
        return Multiply(
            tile=self.tile,
            a=self._a_fragments(place),
            b=weights,
            transposed=self.identity.epilogue == "cshuffle",
            hints=self.identity.pipeline in ("compv3", "compv4") and self.budget.hints,
        )

    def _walk(self, place: Place, record: SubGemmRecord) -> GradientWalk:
        """This thread's places in the operand tiles, and where the workgroup begins."""
        b, args = self.b, self.args
        row, col = self.b_chunks.position(b, place.thread)
        filters = b.mul(place.group, args["p_kpg"])
        first_tap = b.add(
            b.mul(record["b_y_offset"], args["b_y_bytes"]), b.mul(record["b_x_offset"], args["b_x_bytes"])
        )
        first_filter = b.mul(filters, args["b_k_bytes"])
        return GradientWalk(
            flavor=self.flavor,
            record=record,
            tile_k=self.tile.k,
            elem_bytes=self.tile.elem.bytes,
            a_col=self.a_chunks.position(b, place.thread, 0).col,
            a_group_bytes=b.mul(filters, self.tile.elem.bytes),
            b_rows=tuple(b.add(row, number) for number in range(self.b_chunks.run)),
            b_col_bytes=b.mul(col, self.tile.elem.bytes),
            b_start_bytes=b.add(b.add(first_filter, first_tap), b.mul(place.first_n, self.tile.elem.bytes)),
        )

    def _own_rows(self, place: Place, record: SubGemmRecord) -> tuple[list[Value], list[ImageRow]]:
        """The rows of A that this thread decodes: those of its chunks, or its share of a row table."""
        b, tile = self.b, self.tile
        if self.has_table:
            numbers = list(repeated_row_numbers(b, place.thread, tile.m, tile.threads))
        else:
            numbers = self.a_chunks.row_numbers(b, place.thread)
        return numbers, [self._gradient_row(record, b.add(place.first_m, number)) for number in numbers]

    def _gradient_row(self, record: SubGemmRecord, m: Value) -> ImageRow:
        """The pixel of dY that tap (0, 0) meets at a row of the lattice; nowhere for rows behind the last."""
        b, args = self.b, self.args
        line, w = record.by_w_slice.divmod(b, m)
        image, h = record.by_h_slice.divmod(b, line)
        ho, wo = b.add(h, record["h_tilde_slice_begin"]), b.add(w, record["w_tilde_slice_begin"])
        start = b.add(b.mul(image, args["a_n_bytes"]), b.mul(ho, args["a_ho_bytes"]))
        start = b.add(start, b.mul(wo, args["a_wo_bytes"]))
        return ImageRow(start, b.select(b.icmp("slt", m, record["gemm_m"]), ho, NOWHERE), wo)

    # --- loop and epilogue -------------------------------------------------------------------------------------------

    def _entries(
        self, place: Place, stream: Stream[Row, int], numbers: list[Value], rows: list[ImageRow]
    ) -> list[Row] | RowSet[Row]:
        """What the loop knows about the rows of A: an entry per chunk, or a table of them."""
        b, entries = self.b, stream.entries(rows)
        if not self.has_table:
            return [stream.localised(entry) for entry in entries]
        table = RowTable(self.table, stream.words)
        table.write(b, numbers, entries)
        tabled = TabledRows(b, table, self.a_chunks, stream, self.a_chunks.position(b, place.thread, 0).row)
        return read_back(tabled, in_loop=bool(self.budget.a_batch))

    def _loop(
        self,
        place: Place,
        tiles: Value,
        stream: Stream[Row, int],
        a_rows: list[Row] | RowSet[Row],
        phase: Multiply,
    ) -> list[Value]:
        """The K loop of this pipeline."""
        b, choices = self.b, self.budget
        a_staging = Staging.prepare(b, self.a_chunks, place.thread, self.layout.a_row_elems)
        b_staging = KRowStaging.prepare(b, self.b_chunks, place.thread, self.layout.b_row_elems)
        loads = Loads(staged_loader(a_staging, a_rows, choices.a_batch), k_row_loader(b_staging, choices.b_batch))
        return self._staged_loop(stream, tiles, loads, self._buffers(), phase)

    def _store(self, place: Place, record: SubGemmRecord, accumulators: list[Value]) -> None:
        """The epilogue of this identity; at stride 1 the rows of dX follow one another as in a forward output."""
        results = Results(self.tile, accumulators, place)
        b, args = self.b, self.args
        shuffled = self.identity.epilogue == "cshuffle"
        shuffle = self._shuffle(self._store_width)
        resource = buffer_resource(b, self.flavor, args["D"], args["D_bytes"])
        group_bytes = b.mul(b.mul(place.group, args["p_cpg"]), self.tile.out.bytes)
        if self.folded:
            output = Output(
                resource=resource,
                first_row=place.first_m,
                first_col=place.first_n,
                group_bytes=group_bytes,
                elem_bytes=self.tile.out.bytes,
                row_elems=at_once(args["p_C"]),
                group_cols=at_once(args["p_cpg"]),
            )
            if shuffled:
                store_shuffled(b, results, shuffle, output)
            else:
                store_direct(b, results, output)
            return
        lattice = LatticeOutput(
            resource=resource,
            record=record,
            first_row=place.first_m,
            first_col=place.first_n,
            group_bytes=group_bytes,
            elem_bytes=self.tile.out.bytes,
            args=args,
        )
        if shuffled:
            store_lattice_shuffled(b, results, shuffle, self.output_table, lattice)
        else:
            assert self.output_table is not None
            store_lattice_direct(b, results, self.output_table, lattice)
