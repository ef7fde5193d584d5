"""The records of implicit-GEMM kernels: what all of them have, and what each direction adds.

Tiles, widths and chunks are in elements; warps are waves of the workgroup. What one family leaves open and its
relatives fix is a constant of the relatives, so that shared builder parts may ask any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import Identity, axis, constant
from grids.targets import target

PIPELINES = ("mem", "compv3", "compv4")
EPILOGUES = ("default", "cshuffle")
#: What a split kernel records: any degree above one, chosen at launch.
RUNTIME_SPLIT = 2
#: Lattices that the search of a tilde kernel can tell apart: one record per lane.
MAX_SUB_GEMMS = 64


@dataclass(frozen=True, slots=True)
class Gemm(Identity):
    """An implicit GEMM on the matrix unit. The defaults of tile, waves and atom are no kernel: all name theirs."""

    tile_m: int = axis("tile", 0, "rows of the output tile of a workgroup", least=1)
    tile_n: int = axis("tile", 0, "columns of the output tile", least=1)
    tile_k: int = axis("tile", 0, "reduction elements of one K tile", least=1)
    warp_m: int = axis("warps", 0, "waves along m", least=1, most=64)
    warp_n: int = axis("warps", 0, "waves along n", least=1, most=64)
    warp_tile_m: int = axis("atom", 0, "rows of the matrix instruction", least=1)
    warp_tile_n: int = axis("atom", 0, "columns of the matrix instruction", least=1)
    warp_tile_k: int = axis("atom", 0, "reduction of the matrix instruction", least=1)
    pipeline: str = axis("pipe", "mem", "schedule of the K loop", words=PIPELINES)
    epilogue: str = axis("epi", "default", "stores from registers, or through LDS", words=EPILOGUES)
    vector_size_a: int = axis("vec", 0, "elements of one load of A; 0 where loads go straight to LDS", most=8)
    vector_size_b: int = axis("vec", 0, "elements of one load of B", most=8)
    vector_size_c: int = axis("vec", 0, "elements of one store", most=8)
    async_dma: bool = constant(False)
    unroll_k: bool = constant(False)
    async_chunk_a: int = constant(0)
    async_chunk_b: int = constant(0)
    lds_k_outer: bool = constant(False)
    split_k: int = constant(1)
    two_stage: bool = constant(False)
    ws_replicas: int = constant(0)
    stream_k: bool = constant(False)
    group_merge: int = constant(1)
    prefetch_addr: bool = constant(False)
    uniform_k_decode: bool = constant(False)

    @property
    def wave_size(self) -> int:
        """Lanes of a wave."""
        return target(self.arch).wave_size

    @property
    def threads(self) -> int:
        """Threads of the workgroup."""
        return self.warp_m * self.warp_n * self.wave_size


@dataclass(frozen=True, slots=True)
class Forward(Gemm):
    """Forward convolution: one GEMM over all output pixels."""

    direction = "fwd"

    async_dma: bool = axis("async", False, "loads go straight to LDS")
    unroll_k: bool = axis("unroll", False, "two-fold, double-buffered K loop")
    async_chunk_a: int = axis("chunk", 0, "elements per lane of one direct-to-LDS load of A")
    async_chunk_b: int = axis("chunk", 0, "elements per lane of one direct-to-LDS load of B")


@dataclass(frozen=True, slots=True)
class Dgrad(Gemm):
    """Backward data: one sub-GEMM per lattice of input pixels."""

    direction = "dgrad"

    lds_k_outer: bool = axis("kouter", False, "rows of the LDS tile of B run along its free axis")
    uniform_k_decode: bool = axis("ukd", False, "a second K loop with the filter tap as scalar state")
    #: Whether the one record of stride 1 and dilation 1 is folded into the code.
    folded: bool = constant(False)


@dataclass(frozen=True, slots=True)
class Wgrad(Gemm):
    """Backward weights: the pixels are reduced."""

    direction = "wgrad"

    async_dma: bool = axis("async", False, "loads go straight to LDS")
    unroll_k: bool = axis("unroll", False, "two-fold, double-buffered K loop")
    async_chunk_a: int = axis("chunk", 0, "elements per lane of one direct-to-LDS load of A")
    async_chunk_b: int = axis("chunk", 0, "elements per lane of one direct-to-LDS load of B")
    lds_k_outer: bool = axis("kouter", False, "rows of the LDS tiles run along their free axis")
    prefetch_addr: bool = axis("pfa", False, "addresses of the next K tile are made under the loads of this one")
