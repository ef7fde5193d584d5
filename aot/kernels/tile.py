"""The constants of one implicit-GEMM kernel, worked out once from its identity."""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.intrinsics import Atom, atom
from aot.ir.types import ELEMENTS, Type
from grids import geometry
from grids.gemm.records import Gemm


@dataclass(frozen=True, slots=True)
class Tile:
    """Workgroup tile in elements, waves along m and n, threads of a workgroup, matrix instruction and data types."""

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    threads: int
    atom: Atom
    elem: Type  # of A and B in memory
    out: Type  # of D in memory; a workspace is f32

    @classmethod
    def of(cls, identity: Gemm) -> Tile:
        """The tile of an implicit-GEMM identity."""
        return cls(
            m=identity.tile_m,
            n=identity.tile_n,
            k=identity.tile_k,
            warp_m=identity.warp_m,
            warp_n=identity.warp_n,
            threads=geometry.block_threads(
                warp_m=identity.warp_m, warp_n=identity.warp_n, wave_size=identity.wave_size
            ),
            atom=atom(ELEMENTS[identity.dtype_a], identity.warp_tile_m, identity.warp_tile_k),
            elem=ELEMENTS[identity.dtype_a],
            out=ELEMENTS[identity.dtype_d],
        )

    @property
    def fragments_m(self) -> int:
        """Fragments of one wave along m."""
        return geometry.fragments(tile=self.m, warps=self.warp_m, edge=self.atom.edge)

    @property
    def fragments_n(self) -> int:
        """Fragments of one wave along n."""
        return geometry.fragments(tile=self.n, warps=self.warp_n, edge=self.atom.edge)

    @property
    def steps(self) -> int:
        """Matrix instructions along k."""
        return self.k // self.atom.k
