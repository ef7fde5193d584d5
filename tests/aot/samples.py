"""A few forward identities for tests that need some kernels and not particular ones."""

from __future__ import annotations

from grids.families.fix_up import FixUp
from grids.families.implicit_gemm import ImplicitGemm
from grids.families.reduce import Reduce


def forward(arch: str = "gfx950", dtype: str = "bf16", **fields: int | str | bool) -> ImplicitGemm:
    """A forward identity: 64x64x32, two by two waves, 16x16 atoms, widths of 4, unless said otherwise."""
    usual: dict[str, int | str | bool] = {
        "tile_m": 64, "tile_n": 64, "tile_k": 32, "warp_m": 2, "warp_n": 2, "warp_tile_m": 16, "warp_tile_n": 16,
        "warp_tile_k": 32 if arch == "gfx950" else 16, "vector_size_a": 4, "vector_size_b": 4, "vector_size_c": 1,
    }  # fmt: skip
    return ImplicitGemm(arch, dtype, dtype, dtype, **{**usual, **fields})  # type: ignore[arg-type]


def reduce_identity(arch: str, dtype: str, replicas: int) -> Reduce:
    """The second step of two-stage kernels with this dW."""
    return Reduce(arch, dtype, dtype, dtype, ws_replicas=replicas)


def fix_up_identity(arch: str, dtype: str) -> FixUp:
    """The second step of stream-K kernels with this dW."""
    return FixUp(arch, dtype, dtype, dtype)


def sample_identities(arch: str = "gfx950") -> list[ImplicitGemm]:
    """A handful that differ in tile, pipeline, epilogue and widths."""
    return [
        forward(arch),
        forward(arch, pipeline="compv3", epilogue="cshuffle", vector_size_a=8, vector_size_b=8, vector_size_c=8),
        forward(arch, tile_m=32, tile_n=32, vector_size_a=1, vector_size_b=1),
        forward(arch, tile_m=128, tile_k=64, vector_size_a=8, vector_size_b=8, epilogue="cshuffle", vector_size_c=4),
        forward(arch, unroll_k=True, vector_size_a=2, vector_size_b=2),
    ]


def rejected_identities(arch: str = "gfx950", dtype: str = "bf16") -> list[ImplicitGemm]:
    """Candidates that stand in the ledger of the small cache."""
    return [forward(arch, dtype, vector_size_c=2), forward(arch, dtype, tile_m=256, tile_n=256, warp_m=1, warp_n=1)]


#: One wave each, quick to emulate.
QUICK = forward(tile_m=16, tile_n=16, warp_m=1, warp_n=1, vector_size_a=8, vector_size_b=8)
SHUFFLED = forward(tile_m=32, tile_n=16, warp_m=1, warp_n=1, epilogue="cshuffle", vector_size_c=4)
#: Loads of width 8 under a name that promises width 2.
LIAR = forward(tile_m=16, tile_n=16, warp_m=1, warp_n=1, vector_size_a=2, vector_size_b=2)
