"""What the rules of implicit-GEMM families derive from their rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cache_schema.problem import ELEM_BYTES
from grids import geometry
from grids.rule import Column, Mask, Rows


class GemmRows(Rows):
    """Rows of one implicit-GEMM family."""

    @cached_property
    def cshuffle(self) -> Mask:
        return self.text("epilogue", "cshuffle")

    @cached_property
    def is_async(self) -> Mask:
        mask: Mask = self.async_dma == 1
        return mask

    @cached_property
    def atomic(self) -> Mask:
        """Split-K slices added straight into the result."""
        mask: Mask = (self.split_k > 1) & (self.two_stage == 0)
        return mask

    @cached_property
    def threads(self) -> Column:
        """Threads of a workgroup."""
        return geometry.block_threads(warp_m=self.warp_m, warp_n=self.warp_n, wave_size=self.target.wave_size)

    @cached_property
    def accumulators(self) -> Column:
        return geometry.accumulators_per_lane(
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            warp_m=self.warp_m,
            warp_n=self.warp_n,
            wave_size=self.target.wave_size,
        )

    @cached_property
    def tiles_divide(self) -> Mask:
        """Whole matrix instructions fill the share of every wave, and the K tile."""
        mask: Mask = (
            (self.tile_m % (self.warp_m * self.warp_tile_m) == 0)
            & (self.tile_n % (self.warp_n * self.warp_tile_n) == 0)
            & (self.tile_k % self.warp_tile_k == 0)
        )
        return mask

    @cached_property
    def atom_exists(self) -> Mask:
        """The target has this matrix instruction for one dtype throughout."""
        exists: Mask = np.zeros((1,), dtype=np.bool_)
        for edge, lengths in self.target.atoms.get(self.dtype, {}).items():
            for length in lengths:
                exists = exists | ((self.warp_tile_m == edge) & (self.warp_tile_k == length))
        one_dtype = self.text("dtype_b", self.dtype) & self.text("dtype_d", self.dtype)
        mask: Mask = exists & (self.warp_tile_m == self.warp_tile_n) & one_dtype
        return mask

    @cached_property
    def tile_exists(self) -> Mask:
        """The tile divides, the workgroup is not too large, and the target has the matrix instruction."""
        mask: Mask = self.tiles_divide & (self.threads <= self.target.max_threads) & self.atom_exists
        return mask

    @cached_property
    def shifts(self) -> Mask:
        """Tile extents, waves and widths are powers of two: loaders and index maps divide by them with shifts."""
        mask: Mask = np.ones(1, dtype=np.bool_)
        tile, waves = (self.tile_m, self.tile_n, self.tile_k), (self.warp_m, self.warp_n)
        for column in (*tile, *waves, self.vector_size_a, self.vector_size_b, self.vector_size_c):
            mask = mask & (column & (column - 1) == 0)
        return mask

    def chunk_fits(self, chunk: Column, *, rows: Column, cols: Column) -> Mask:
        """Direct-to-LDS loads of so many elements a lane exist and share a tile out evenly; else there is no chunk."""
        elements = [4 * dwords // ELEM_BYTES[self.dtype] for dwords in self.target.async_dwords]
        vec = np.maximum(chunk, 1)
        evenly = geometry.loads_evenly(rows=rows, cols=cols, threads=self.threads, vec=vec) & (cols % vec == 0)
        mask: Mask = np.where(self.is_async, np.isin(chunk, elements) & evenly, chunk == 0)
        return mask

    @cached_property
    def lds(self) -> geometry.LdsLayout[Column]:
        return geometry.lds_layout(
            self.schema.direction,
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            tile_k=self.tile_k,
            cshuffle=self.cshuffle,
            async_dma=self.async_dma,
            unroll_k=self.unroll_k,
            lds_k_outer=self.lds_k_outer,
            elem_bytes=ELEM_BYTES[self.dtype],
            store_bytes=ELEM_BYTES[self.dtype],
        )

    def loads_evenly(self, tile_free: Column, vec: Column) -> Mask:
        """Vectors of this width share a tile of tile_free x tile_k out to the threads without a rest."""
        mask: Mask = geometry.loads_evenly(rows=tile_free, cols=self.tile_k, threads=self.threads, vec=vec)
        return mask

    def stores_evenly(self, vec: Column) -> Mask:
        """Vectors of this width share the output tile out to the threads without a rest."""
        mask: Mask = geometry.stores_evenly(tile_m=self.tile_m, tile_n=self.tile_n, threads=self.threads, vec=vec)
        return mask
