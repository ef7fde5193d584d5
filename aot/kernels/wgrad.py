"""Backward weights as an implicit GEMM: D[m, n] = sum over k of A[k, m] * B[k, n].

m is an output channel of the group, n = (y, x, c) a filter tap and input channel, k = (n, ho, wo) an output pixel. A is
dY, B the input seen through the taps; both lie across k. What a workgroup does with its sums is the variant:

| variant | sums of | go to |
|---|---|---|
| non-split | all pixels | dW, stored |
| atomic | a slice of the pixels | dW, added in pairs of 16-bit numbers |
| two-stage | a slice of the pixels | a f32 replica of dW, added; `wgrad_reduce` folds the replicas |
| merged | several depthwise groups side by side | the diagonal: the channel's own filter |

Slices are whole K tiles. A slice behind the last pixel runs one tile of zeros.
"""

from __future__ import annotations

from dataclasses import replace

from aot.ir.atomics import add_f32
from aot.ir.intrinsics import buffer_resource, buffer_store, workgroup_id
from aot.ir.types import I64, integer_of
from aot.ir.values import Value, late
from aot.kernels import wgrad_budget
from aot.kernels.epilogue import Output, store_direct, store_shuffled
from aot.kernels.gemm import GemmKernel
from aot.kernels.k_rows import KRowChunks, KRowStaging, k_row_loader
from aot.kernels.loaders import TileLoader
from aot.kernels.mainloop import Loads, Multiply
from aot.kernels.place import Place
from aot.kernels.results import Results
from aot.kernels.source import KernelSource
from aot.kernels.tile import Tile
from aot.kernels.wgrad_arguments import N_CPG, SLICES, wgrad_arguments
from aot.kernels.wgrad_budget import WgradBudget
from aot.kernels.wgrad_loaders import PixelLoader, SteppingPixelLoader
from aot.kernels.wgrad_output import WORD_BYTES, PackedRows, Slab, add_shuffled, add_to_slab, store_diagonal
from aot.kernels.wgrad_streams import PixelChunk, PixelStream, PixelWalk, decoded_column
from cache_schema.arguments import ArgumentList
from grids.gemm.records import Wgrad
from grids.geometry import lds_of_identity


def emit_wgrad(identity: Wgrad, flavor: str) -> KernelSource:
    """The kernel of one backward-weights identity. No problem extent enters the text."""
    return WgradKernel(identity, flavor, wgrad_arguments()).source()


class WgradKernel(GemmKernel[WgradBudget]):
    """The pieces of one kernel, from index maps to epilogue."""

    def __init__(self, identity: Wgrad, flavor: str, arguments: ArgumentList) -> None:
        choices = wgrad_budget.plan(identity, Tile.of(identity))
        super().__init__(identity, flavor, arguments, choices, lds_of_identity(identity).total_bytes)

    def source(self) -> KernelSource:
        """Index maps, prologue, K loop, epilogue."""
        place, part = self._place()
        first_tile, tiles = self._slice(part)
        phase = self._multiply(place)
        with self._priority():
            accumulators = self._reduced(place, first_tile, tiles, phase)
        # Where registers are short, no lane value is kept through the loop for what stands behind it.
        behind = place if self.budget.fits else place.found_again(self.b, self.tile, self.identity.wave_size)
        self._store(behind, part, self._pinned(accumulators))
        return self._rendered(self._pointer_tags)

    @property
    def _pointer_tags(self) -> dict[str, str]:
        """What is done to each tensor; a result that workgroups share is read as well."""
        return {"A": "readonly", "B": "readonly"} | ({} if self.is_split else {"D": "writeonly"})

    @property
    def is_split(self) -> bool:
        """Whether workgroups share a result."""
        return self.identity.split_k > 1

    # --- index maps --------------------------------------------------------------------------------------------------

    def _place(self) -> tuple[Place, Value]:
        """Where a thread is, and the number of its workgroup's slice: z = group * slices + slice."""
        b, args = self.b, self.args
        place = Place.of(b, self.tile, self.identity.wave_size)
        if not self.is_split:
            return place, b.const(0)
        group, part = SLICES.of(args).divmod(b, workgroup_id(b, "z"))
        return replace(place, group=group), part

    def _slice(self, part: Value) -> tuple[Value, Value]:
        """First K tile of the workgroup and the number of its tiles; behind the last tile it is one of zeros."""
        b, args = self.b, self.args
        if not self.is_split:
            return b.const(0), args["k_tiles"]
        wanted = b.mul(part, args["ks_tiles"])
        first = b.select(b.icmp("slt", wanted, args["k_tiles"]), wanted, args["k_tiles"])
        left = b.sub(args["k_tiles"], first)
        tiles = b.select(b.icmp("slt", left, args["ks_tiles"]), left, args["ks_tiles"])
        return first, b.select(b.icmp("slt", tiles, 1), 1, tiles)

    def _multiply(self, place: Place) -> Multiply:
        """The matrix phase: results are transposed for the shuffled epilogue."""
        return Multiply(
            tile=self.tile,
            a=self._a_fragments(place, k_outer=self.identity.lds_k_outer),
            b=self._b_fragments(place, k_outer=self.identity.lds_k_outer),
            transposed=self.identity.epilogue == "cshuffle",
            hints=self.budget.hints and self.identity.pipeline in ("compv3", "compv4"),
        )

    def _loads(self, place: Place, first_tile: Value) -> tuple[PixelStream, Loads[int, PixelChunk]]:
        """The walk over K tiles and the loaders of both operands."""
        b, args, choices = self.b, self.args, self.budget
        a_row, a_col = choices.gradients.position(b, place.thread)
        b_row, b_col = choices.pixels.position(b, place.thread)
        first_col = b.add(place.first_n, b_col)
        passes = 1 if choices.b_batch else choices.pixels.passes
        columns = tuple(
            decoded_column(b, args, b.add(first_col, number * choices.pixels.pass_cols), self.tile.elem.bytes)
            for number in range(passes)
        )
        first_row = b.add(b.mul(place.group, args["p_kpg"]), place.first_m)
        walk = PixelWalk(
            flavor=self.flavor,
            tile_k=self.tile.k,
            elem_bytes=self.tile.elem.bytes,
            a_places=tuple((row, a_col) for row in self._rows(a_row, choices.gradients)[: None if choices.fits else 1]),
            b_rows=self._rows(b_row, choices.pixels),
            a_start_bytes=b.mul(first_row, self.tile.elem.bytes),
            b_group_bytes=b.mul(b.mul(place.group, args["p_cpg"]), self.tile.elem.bytes),
            columns=() if choices.b_batch else columns,
            first_k=b.mul(first_tile, self.tile.k),
            prefetches_addresses=self.identity.prefetch_addr,
        )
        stream = PixelStream(b, args, walk)
        a_staging = KRowStaging.prepare(b, choices.gradients, place.thread, self.layout.a_row_elems)
        b_staging = KRowStaging.prepare(b, choices.pixels, place.thread, self.layout.b_row_elems)
        pixels: TileLoader[PixelChunk]
        if choices.b_batch:
            channel = N_CPG.of(args).divmod(b, first_col)[1]
            pixels = SteppingPixelLoader(args, b_staging, columns[0], channel, choices.b_batch)
        else:
            pixels = PixelLoader(b_staging)
        return stream, Loads(k_row_loader(a_staging, choices.a_batch), pixels)

    def _rows(self, first: Value, chunks: KRowChunks) -> tuple[Value, ...]:
        return tuple(self.b.add(first, number) for number in range(chunks.run))

    # --- loop and epilogue -------------------------------------------------------------------------------------------

    def _reduced(self, place: Place, first_tile: Value, tiles: Value, phase: Multiply) -> list[Value]:
        """The K loop of this pipeline over some tiles."""
        stream, loads = self._loads(place, first_tile)
        return self._staged_loop(stream, tiles, loads, self._buffers(), phase)

    def _store(self, place: Place, part: Value, accumulators: list[Value]) -> None:
        """The epilogue of this variant."""
        b, args, identity = self.b, self.args, self.identity
        results = Results(self.tile, accumulators, place)
        shuffle = self._shuffle(self._store_width)
        group_rows = b.mul(place.group, args["p_kpg"])
        if identity.group_merge > 1:
            self._store_merged(place, part, results)
        elif identity.two_stage:
            slab = self._slab(b.add(b.mul(place.group, identity.ws_replicas), self._replica(part)))
            add_to_slab(b, results, Slab(slab, args))
        elif self.is_split:
            start = b.mul(b.mul(group_rows, args["p_wg_N"]), self.tile.out.bytes)
            output = PackedRows(b.offset_pointer(args["D"], start), args)
            add_shuffled(b, results, shuffle, output)
        else:
            # The buffer ends with the group, so that rows behind its last are dropped.
            group_bytes = b.mul(b.mul(args["p_kpg"], args["p_wg_N"]), self.tile.out.bytes)
            start = b.mul(group_bytes, place.group)
            resource = buffer_resource(b, self.flavor, args["D"], b.add(start, group_bytes))
            plain = Output(
                resource=resource,
                first_row=place.first_m,
                first_col=place.first_n,
                group_bytes=start,
                elem_bytes=self.tile.out.bytes,
                row_elems=late(args, "p_wg_N"),
                group_cols=late(args, "p_wg_N"),
            )
            if identity.epilogue == "default":
                store_direct(b, results, plain)
            else:
                store_shuffled(b, results, shuffle, plain)

    def _replica(self, part: Value) -> Value:
        """The replica of a group that a slice adds to."""
        return self.b.urem_pow2(part, self.identity.ws_replicas)

    def _slab(self, number: Value) -> Value:
        """One slab of the workspace: p_wg_M x p_wg_N f32."""
        b, args = self.b, self.args
        size = b.mul(b.mul(args["p_wg_M"], args["p_wg_N"]), WORD_BYTES)
        start = b.mul(b.zext(number, I64), b.zext(size, I64))
        return buffer_resource(b, self.flavor, b.offset_pointer(args["D"], start), size)

    def _store_merged(self, place: Place, part: Value, results: Results) -> None:
        """Row m is group merge * z + m of the problem; its filter has a tap per column of its channel."""
        b, args, identity = self.b, self.args, self.identity
        merge, taps = identity.group_merge, args["p_taps"]
        replicas = identity.ws_replicas if identity.two_stage else 1
        group_bytes = b.mul(b.mul(taps, replicas), WORD_BYTES if identity.two_stage else self.tile.out.bytes)
        size = b.mul(group_bytes, merge)
        start = b.mul(b.zext(place.group, I64), b.zext(size, I64))
        resource = buffer_resource(b, self.flavor, b.offset_pointer(args["D"], start), size)

        def add(result: Value, offset: Value) -> None:
            add_f32(b, result, resource, offset)

        def store(result: Value, offset: Value) -> None:
            buffer_store(b, b.bitcast(b.fptrunc(result, self.tile.out), integer_of(self.tile.out)), resource, offset)

        def offset_f32(channel: Value, tap: Value) -> Value:
            row = b.add(b.mul(channel, replicas), self._replica(part))
            return b.mul(b.add(b.mul(row, taps), tap), WORD_BYTES)

        def offset_out(channel: Value, tap: Value) -> Value:
            return b.mul(b.add(b.mul(channel, taps), tap), self.tile.out.bytes)

        store_diagonal(
            b,
            results,
            merge=merge,
            taps=taps,
            offset_of=offset_f32 if identity.two_stage else offset_out,
            put=add if identity.two_stage else store,
        )
