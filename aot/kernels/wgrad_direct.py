"""Backward weights with loads that go straight to LDS: both tiles K-outer, packed, in thread order.

A chunk is as wide as a lane's share of one load, so it must not straddle the channels of a group, and LDS has to hold
the rows as global memory does.
"""

from __future__ import annotations

from aot.ir.intrinsics import set_priority
from aot.ir.values import Value
from aot.kernels import mainloop
from aot.kernels.chunks import ChunkMap
from aot.kernels.mainloop import Multiply
from aot.kernels.place import Place
from aot.kernels.source import KernelSource
from aot.kernels.wgrad import WgradKernel
from aot.kernels.wgrad_arguments import wgrad_arguments
from aot.kernels.wgrad_budget import direct_chunks
from aot.kernels.wgrad_streams import PixelChunk, PixelStream, PixelWalk, decoded_column
from grids.gemm.records import Wgrad


def emit_direct_wgrad(identity: Wgrad, flavor: str) -> KernelSource:
    """The kernel of one identity with async_dma."""
    return _DirectWgrad(identity, flavor, wgrad_arguments()).source()


class _DirectWgrad(WgradKernel):
    """Another way to bring tiles to LDS."""

    def _reduced(self, place: Place, first_tile: Value, tiles: Value, phase: Multiply) -> list[Value]:
        """The double-buffered loop of direct loads. Its priorities are its own."""
        b, args, elem_bytes = self.b, self.args, self.tile.elem.bytes
        a_chunks, b_chunks = direct_chunks(self.identity)
        a_at = [a_chunks.position(b, place.thread, number) for number in range(a_chunks.passes)]
        rows, columns, b_entries = self._pixel_places(b_chunks, place)
        first_row = b.add(b.mul(place.group, args["p_kpg"]), place.first_m)
        walk = PixelWalk(
            flavor=self.flavor,
            tile_k=self.tile.k,
            elem_bytes=elem_bytes,
            a_places=tuple((b.add(at.row, at.row_step), b.add(at.col, at.col_step)) for at in a_at),
            b_rows=rows,
            a_start_bytes=b.mul(first_row, elem_bytes),
            b_group_bytes=b.mul(b.mul(place.group, args["p_cpg"]), elem_bytes),
            columns=tuple(decoded_column(b, args, b.add(place.first_n, column), elem_bytes) for column in columns),
            first_k=b.mul(first_tile, self.tile.k),
            prefetches_addresses=self.identity.prefetch_addr,
        )
        a_loader = self._direct_loader(place, a_chunks, list(range(a_chunks.passes)))
        loaders = a_loader, self._direct_loader(place, b_chunks, b_entries)
        buffers = self._buffers(told_apart=True)
        accumulators = mainloop.direct(b, PixelStream(b, args, walk), tiles, loaders, buffers, phase)
        if self.identity.pipeline == "compv4":
            set_priority(b, 1)
        return accumulators

    def _pixel_places(
        self, chunks: ChunkMap, place: Place
    ) -> tuple[tuple[Value, ...], tuple[Value, ...], list[PixelChunk]]:
        """The rows and columns of this thread's chunks of X, and which of them every chunk has."""
        b = self.b
        rows: dict[Value, int] = {}
        columns: dict[Value, int] = {}
        entries: list[PixelChunk] = []
        for number in range(chunks.passes):
            at = chunks.position(b, place.thread, number)
            row = rows.setdefault(b.add(at.row, at.row_step), len(rows))
            column = columns.setdefault(b.add(at.col, at.col_step), len(columns))
            entries.append(PixelChunk(row, column))
        return tuple(rows), tuple(columns), entries
