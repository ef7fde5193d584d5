"""The forward convolution as an implicit GEMM: D[m, n] = sum over k of A[m, k] * B[n, k].

m is an output pixel (n, ho, wo), n an output channel of the group, k = (y, x, c) a filter tap and input channel. A is
the input seen through the filter, B the weights, which lie along k as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from aot.ir import module
from aot.ir.builder import Builder
from aot.ir.control import if_else
from aot.ir.flavor import Flavor
from aot.ir.flavor import flavor as flavor_named
from aot.ir.intrinsics import (
    OUT_OF_BOUNDS,
    buffer_resource,
    is_one,
    keep_in_agprs,
    readfirstlane,
    set_priority,
    workgroup_id,
    workitem_id_x,
)
from aot.ir.lds import LdsPool
from aot.ir.values import Value, constant
from aot.kernels import mainloop
from aot.kernels.arguments import forward_arguments
from aot.kernels.chunks import ChunkMap
from aot.kernels.epilogue import Output, store_direct, store_shuffled
from aot.kernels.fragments import ELEM_BYTES, FragmentReader, Lane
from aot.kernels.loaders import DirectLoader, RegisterLoader
from aot.kernels.mainloop import Buffers, Loads, Multiply
from aot.kernels.rows import image_rows
from aot.kernels.source import KernelSource
from aot.kernels.streams import GeneralStream, Operands, Stream, UniformStream
from aot.kernels.swizzle import Swizzle, swizzle
from aot.kernels.tile import Tile
from cache_schema.identity import Identity
from grids import geometry


#: Accumulators of a lane that leave room in 256 ordinary registers for everything else.
MAX_VGPR_ACCUMULATORS = 128
#: Loop strength reduction adds address registers to loops that need none. Breaking accumulator phis into scalars makes
#: the register allocator copy them every round.
CODEGEN_OPTIONS = ("-disable-lsr", "-amdgpu-codegenprepare-break-large-phis=false")


def emit_forward(identity: Identity, flavor: str) -> KernelSource:
    """The kernel of one forward identity. No problem extent enters: the text depends on identity and flavor only."""
    return _Forward(identity, flavor_named(flavor)).source()


class _Forward:
    """The pieces of one kernel on their way from index maps to epilogue."""

    def __init__(self, identity: Identity, flavor: Flavor) -> None:
        self.identity, self.flavor = identity, flavor
        self.tile = Tile.of(identity)
        self.layout = geometry.lds_of_identity(identity)
        self.arguments = forward_arguments()
        self.args: Mapping[str, Value] = module.parameters(self.arguments)
        self.b = Builder()

    def source(self) -> KernelSource:
        """Index maps, prologue, K loop, epilogue."""
        b, tile, args, identity = self.b, self.tile, self.args, self.identity
        pool = LdsPool(self.layout.total_bytes)

        thread = workitem_id_x(b, tile.threads)
        wave = readfirstlane(b, b.udiv_pow2(thread, identity.wave_size)) if tile.threads > identity.wave_size else None
        lane = Lane.of(b, b.urem_pow2(thread, identity.wave_size), tile.atom.edge)
        wave_m, wave_n = self._wave_place(wave)
        first_m = b.mul(workgroup_id(b, "y"), tile.m)
        first_n = b.mul(workgroup_id(b, "x"), tile.n)
        group = workgroup_id(b, "z")

        a_chunks, b_chunks, turn = self._chunks()
        operands = self._operands(thread, first_m, first_n, group, a_chunks, b_chunks, turn)
        phase = self._multiply(lane, wave_m, wave_n, turn)
        buffers = self._buffers(pool)
        if identity.pipeline == "compv4":
            set_priority(b, 1)

        def loop(kind: type[UniformStream] | type[GeneralStream]) -> list[Value]:
            stream = kind(b, args, operands)
            return self._pinned(self._loop(stream, buffers, phase, a_chunks, b_chunks, thread, wave))

        accumulators = if_else(
            b, is_one(b, args["uniform_taps"]), partial(loop, UniformStream), partial(loop, GeneralStream)
        )
        accumulators = self._pinned(accumulators)
        if identity.pipeline == "compv4":
            set_priority(b, 0)
        self._store(accumulators, pool, thread, lane, wave_m, wave_n, first_m, first_n, group)
        return KernelSource(
            ir=module.render(
                b,
                self.flavor,
                pool,
                self.arguments,
                threads=tile.threads,
                pointer_tags={"A": "readonly", "B": "readonly", "D": "writeonly"},
                attributes=self._attributes(),
            ),
            arguments=self.arguments,
            block_size=tile.threads,
            lds_bytes=pool.size,
            codegen_options=CODEGEN_OPTIONS,
        )

    # --- index maps --------------------------------------------------------------------------------------------------

    def _wave_place(self, wave: Value | None) -> tuple[Value, Value]:
        """First row and column of the wave in the tile; n is fastest over waves."""
        b, tile = self.b, self.tile
        number = constant(0) if wave is None else wave
        along_m, along_n = b.udiv_pow2(number, tile.warp_n), b.urem_pow2(number, tile.warp_n)
        return b.mul(along_m, tile.m // tile.warp_m), b.mul(along_n, tile.n // tile.warp_n)

    def _chunks(self) -> tuple[ChunkMap, ChunkMap, Swizzle | None]:
        """How threads share out the operand tiles, and the swizzle of packed tiles."""
        identity, tile = self.identity, self.tile
        if not identity.async_dma:
            widths = identity.vector_size_a, identity.vector_size_b
        else:
            widths = identity.async_chunk_a, identity.async_chunk_b
        a = ChunkMap(tile.m, tile.k, tile.threads, widths[0])
        b = ChunkMap(tile.n, tile.k, tile.threads, widths[1])
        if not identity.async_dma:
            return a, b, None
        period = min(a.rows_per_pass, b.rows_per_pass, tile.atom.edge)
        return a, b, swizzle(cols=tile.k, granule=tile.atom.operand.lanes, row_period=period)

    def _operands(
        self,
        thread: Value,
        first_m: Value,
        first_n: Value,
        group: Value,
        a_chunks: ChunkMap,
        b_chunks: ChunkMap,
        turn: Swizzle | None,
    ) -> Operands:
        """Rows and columns of this thread's chunks; a swizzled tile fetches each granule from where it belongs."""
        b, args = self.b, self.args
        a_at = [a_chunks.position(b, thread, number) for number in range(a_chunks.passes)]
        b_at = [b_chunks.position(b, thread, number) for number in range(b_chunks.passes)]
        a_col, b_col = a_at[0].col, b_at[0].col
        if turn is not None:
            a_col = turn.column(b, a_col, turn.bits_of_row(b, a_at[0].row))
            b_col = turn.column(b, b_col, turn.bits_of_row(b, b_at[0].row))
        rows = image_rows(b, args, [b.add(b.add(first_m, at.row), at.row_step) for at in a_at])
        row_bytes = b.mul(args["p_K_gemm"], ELEM_BYTES)
        lane_start = b.add(b.mul(b_at[0].row, row_bytes), b.mul(b_col, ELEM_BYTES))
        weights = []
        for at in b_at:
            inside = b.icmp("slt", b.add(b.add(first_n, at.row), at.row_step), args["p_kpg"])
            weights.append(b.select(inside, b.add(lane_start, b.mul(row_bytes, at.row_step)), OUT_OF_BOUNDS))
        return Operands(
            flavor=self.flavor,
            tile_k=self.tile.k,
            rows=rows,
            a_col=a_col,
            a_group_bytes=b.mul(b.mul(group, args["p_cpg"]), ELEM_BYTES),
            b_chunks=weights,
            b_col=b_col,
            b_start_bytes=b.mul(b.add(b.mul(group, args["p_kpg"]), first_n), row_bytes),
        )

    def _multiply(self, lane: Lane, wave_m: Value, wave_n: Value, turn: Swizzle | None) -> Multiply:
        """The matrix phase: results are transposed for the shuffled epilogue."""
        tile, layout = self.tile, self.layout
        prepare = partial(FragmentReader.prepare, self.b, tile.atom, lane, tile_k=tile.k, swizzle=turn)
        return Multiply(
            tile=tile,
            a=prepare(first_row=wave_m, count=tile.fragments_m, row_elems=layout.a_row_elems),
            b=prepare(first_row=wave_n, count=tile.fragments_n, row_elems=layout.b_row_elems),
            transposed=self.identity.epilogue == "cshuffle",
            hints=self.identity.pipeline in ("compv3", "compv4"),
        )

    def _buffers(self, pool: LdsPool) -> list[Buffers]:
        """The operand tiles in LDS."""
        layout = self.layout
        pair = layout.a_bytes + layout.b_bytes
        segments = []
        for index in range(layout.buffers):
            segments.append(pool.segment(index * pair, layout.a_bytes))
            segments.append(pool.segment(index * pair + layout.a_bytes, layout.b_bytes))
        if self.identity.async_dma:
            segments = pool.disjoint(self.b, segments)
        return [Buffers(a, b) for a, b in zip(segments[::2], segments[1::2], strict=True)]

    # --- loop and epilogue -------------------------------------------------------------------------------------------

    def _loop(
        self,
        stream: Stream,
        buffers: list[Buffers],
        phase: Multiply,
        a_chunks: ChunkMap,
        b_chunks: ChunkMap,
        thread: Value,
        wave: Value | None,
    ) -> list[Value]:
        """The K loop of this pipeline."""
        b, identity, layout, tiles = self.b, self.identity, self.layout, self.args["k_tiles"]
        if identity.async_dma:
            number = constant(0) if wave is None else wave
            loaders = (
                DirectLoader.prepare(b, a_chunks, number, identity.wave_size),
                DirectLoader.prepare(b, b_chunks, number, identity.wave_size),
            )
            return mainloop.direct(b, stream, tiles, loaders, buffers, phase)
        loads = Loads(
            RegisterLoader.prepare(b, a_chunks, thread, layout.a_row_elems),
            RegisterLoader.prepare(b, b_chunks, thread, layout.b_row_elems),
        )
        if identity.unroll_k:
            late = identity.pipeline != "mem"
            return mainloop.double_buffer(b, stream, tiles, loads, buffers, phase, store_late=late)
        schedule = mainloop.single_buffer if identity.pipeline == "mem" else mainloop.prefetched
        return schedule(b, stream, tiles, loads, buffers[0], phase)

    def _store(
        self,
        accumulators: list[Value],
        pool: LdsPool,
        thread: Value,
        lane: Lane,
        wave_m: Value,
        wave_n: Value,
        first_m: Value,
        first_n: Value,
        group: Value,
    ) -> None:
        """The epilogue of this identity."""
        b, tile, args, identity, layout = self.b, self.tile, self.args, self.identity, self.layout
        output = Output(
            resource=buffer_resource(b, self.flavor, args["D"], args["D_bytes"]),
            first_row=first_m,
            first_col=first_n,
            group_bytes=b.mul(b.mul(group, args["p_kpg"]), ELEM_BYTES),
            args=args,
        )
        if identity.epilogue == "default":
            store_direct(b, tile, accumulators, lane, wave_m, wave_n, output)
            return
        staging = pool.segment(layout.c_offset, layout.c_bytes)
        store_shuffled(
            b, tile, accumulators, lane, wave_m, wave_n, thread, identity.vector_size_c,
            staging, layout.c_offset == 0, output,
        )  # fmt: skip

    @property
    def _accumulates_in_agprs(self) -> bool:
        """Whether the accumulators fill half of the register file and more; else they live in ordinary registers."""
        lanes = self.tile.atom.accumulator.lanes * self.tile.fragments_m * self.tile.fragments_n
        return lanes > MAX_VGPR_ACCUMULATORS

    def _pinned(self, accumulators: list[Value]) -> list[Value]:
        """The accumulators, kept where the matrix instructions want them."""
        if not self._accumulates_in_agprs:
            return accumulators
        return [keep_in_agprs(self.b, value) for value in accumulators]

    def _attributes(self) -> dict[str, str]:
        """Code generation hints: without accumulation registers, matrix instructions take ordinary ones."""
        return {} if self._accumulates_in_agprs else dict(self.flavor.no_agprs)
