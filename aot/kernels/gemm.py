"""What the builders of implicit-GEMM kernels do alike, whatever convolution they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from aot.ir import module
from aot.ir.builder import Builder
from aot.ir.flavor import flavor as flavor_named
from aot.ir.intrinsics import keep_in_agprs, set_priority
from aot.ir.lds import LdsPool, Segment
from aot.ir.values import Value
from aot.kernels import mainloop
from aot.kernels.chunks import ChunkMap
from aot.kernels.fragments import FragmentReader, Fragments
from aot.kernels.k_outer_fragments import KOuterFragments
from aot.kernels.loaders import DirectLoader
from aot.kernels.mainloop import Buffers, Loads, Multiply
from aot.kernels.place import Place
from aot.kernels.results import Shuffle
from aot.kernels.rowsets import RowSet
from aot.kernels.source import CODEGEN_OPTIONS, KernelSource
from aot.kernels.streams import A, B, E, TileWalk
from aot.kernels.swizzle import Swizzle
from aot.kernels.tile import Tile
from cache_schema.arguments import ArgumentList
from grids import geometry
from grids.gemm.records import Gemm
from grids.geometry import LdsLayout


class Choices(Protocol):
    """What every register budget decides."""

    @property
    def accumulates_in_agprs(self) -> bool:
        """Whether accumulators live in accumulation registers, else in ordinary ones."""
        ...

    @property
    def prefetches(self) -> bool:
        """Whether registers hold the next K tile while this one is multiplied."""
        ...


ChoicesT = TypeVar("ChoicesT", bound=Choices)


def operand_bytes(layout: LdsLayout[int]) -> int:
    """LDS of the operand tiles, all buffers."""
    return layout.buffers * (layout.a_bytes + layout.b_bytes)


class GemmKernel(Generic[ChoicesT]):
    """A kernel whose text is being written: its shapes, decisions, LDS, arguments and instructions so far."""

    def __init__(self, identity: Gemm, flavor: str, arguments: ArgumentList, budget: ChoicesT, lds_bytes: int) -> None:
        self.identity, self.flavor = identity, flavor_named(flavor)
        self.tile = Tile.of(identity)
        self.layout = geometry.lds_of_identity(identity)
        self.budget, self.pool = budget, LdsPool(lds_bytes)
        self.arguments = arguments
        self.b = Builder()
        self.args: Mapping[str, Value] = module.KernelArguments(self.b, arguments)

    def _rendered(self, pointer_tags: Mapping[str, str], workgroup_axes: str = "xyz") -> KernelSource:
        """What has been built; tags and axes as `module.render` takes them."""
        return KernelSource(
            ir=module.render(
                self.b,
                self.pool,
                self.arguments,
                threads=self.tile.threads,
                workgroup_axes=workgroup_axes,
                pointer_tags=pointer_tags,
                # Without accumulation registers, matrix instructions take ordinary ones.
                attributes={} if self.budget.accumulates_in_agprs else dict(self.flavor.no_agprs),
            ),
            arguments=self.arguments,
            block_size=self.tile.threads,
            lds_bytes=self.pool.size,
            codegen_options=CODEGEN_OPTIONS,
        )

    def _buffers(self, *, told_apart: bool = False) -> list[Buffers]:
        """The operand tiles in LDS, A and B of every buffer; tiles told apart may be in flight at the same time."""
        layout, segments = self.layout, []
        for number in range(layout.buffers):
            start = number * (layout.a_bytes + layout.b_bytes)
            segments.append(self.pool.segment(start, layout.a_bytes))
            segments.append(self.pool.segment(start + layout.a_bytes, layout.b_bytes))
        if told_apart:
            segments = self.pool.disjoint(self.b, segments)
        return [Buffers(a, b) for a, b in zip(segments[::2], segments[1::2], strict=True)]

    def _a_fragments(self, place: Place, *, k_outer: bool = False, swizzle: Swizzle | None = None) -> Fragments:
        """The fragments of A of this wave, in a tile with rows along k, or along m if it is K-outer."""
        return self._fragments(
            place, place.wave_m, self.tile.fragments_m, self.layout.a_row_elems, k_outer=k_outer, swizzle=swizzle
        )

    def _b_fragments(self, place: Place, *, k_outer: bool = False, swizzle: Swizzle | None = None) -> Fragments:
        """The fragments of B of this wave, in a tile with rows along k, or along n if it is K-outer."""
        return self._fragments(
            place, place.wave_n, self.tile.fragments_n, self.layout.b_row_elems, k_outer=k_outer, swizzle=swizzle
        )

    def _fragments(
        self, place: Place, first: Value, count: int, row_elems: int, *, k_outer: bool, swizzle: Swizzle | None
    ) -> Fragments:
        b, tile = self.b, self.tile
        if k_outer:
            return KOuterFragments.prepare(b, tile.atom, place.lane, first_col=first, count=count, row_elems=row_elems)
        return FragmentReader.prepare(
            b, tile.atom, place.lane, first_row=first, count=count, row_elems=row_elems, tile_k=tile.k, swizzle=swizzle
        )

    def _direct_loader(
        self, place: Place, chunks: ChunkMap, rows: list[E] | RowSet[E], batch: int | None = None
    ) -> DirectLoader[E]:
        """Loads of one operand that go straight to LDS; the chunks of a wave stand next to each other."""
        wave_bytes = self.b.mul(place.wave, self.identity.wave_size * chunks.chunk_bytes)
        return DirectLoader(chunks, wave_bytes, rows, batch)

    @contextmanager
    def _priority(self) -> Iterator[None]:
        """compv4 runs its K loop at raised priority."""
        raised = self.identity.pipeline == "compv4"
        if raised:
            set_priority(self.b, 1)
        yield
        if raised:
            set_priority(self.b, 0)

    def _staged_loop(
        self, stream: TileWalk[A, B], tiles: Value, loads: Loads[A, B], buffers: list[Buffers], phase: Multiply
    ) -> list[Value]:
        """The K loop of this pipeline for loads that pass through registers."""
        prefetches = self.identity.pipeline != "mem" and self.budget.prefetches
        if self.identity.unroll_k:
            return mainloop.double_buffer(self.b, stream, tiles, loads, buffers, phase, store_late=prefetches)
        schedule = mainloop.prefetched if prefetches else mainloop.single_buffer
        return schedule(self.b, stream, tiles, loads, buffers[0], phase)

    def _pinned(self, accumulators: list[Value]) -> list[Value]:
        """The accumulators, kept where the matrix instructions want them."""
        if not self.budget.accumulates_in_agprs:
            return accumulators
        return [keep_in_agprs(self.b, value) for value in accumulators]

    @property
    def _store_width(self) -> int:
        """Columns that a thread of a shuffled epilogue writes at once: as the identity says and the tile allows."""
        tile = self.tile
        return geometry.store_vector(
            tile_m=tile.m,
            tile_n=tile.n,
            threads=tile.threads,
            request=self.identity.vector_size_c,
            elem_bytes=tile.out.bytes,
        )

    def _shuffle(self, vec: int) -> Shuffle:
        """The staging tile of the shuffled epilogues."""
        layout = self.layout
        return Shuffle(vec, Segment(layout.c_offset, layout.c_bytes), overlays=layout.c_offset == 0)
