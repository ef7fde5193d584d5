"""Made-up families, so that nothing here depends on what the catalogue has."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import CAPABILITY, INT_RANGE, Identity, axis, constant, register

_MOST = INT_RANGE[1]


@dataclass(frozen=True, slots=True)
class Alpha(Identity):
    """With fields of all kinds, and of a tag of several."""

    family, direction = "alpha", "fwd"

    tile_m: int = axis("tile", 0, "rows")
    tile_n: int = axis("tile", 0, "columns")
    warp_m: int = axis("warps", 1, "waves")
    pipeline: str = axis("pipe", "mem", "schedule")
    vector_size_a: int = axis("vec", 0, "elements")
    unroll_k: bool = axis("unroll", False, "two-fold")
    deep: bool = axis("deep", True, "set as a rule")
    cpg: int = axis("cpg", 0, "channels", role=CAPABILITY, most=_MOST)
    split_k: int = constant(1)
    epilogue: str = constant("default")


@dataclass(frozen=True, slots=True)
class Beta(Identity):
    """With fields that mean the same as those of `Alpha`, others, and what that one fixes."""

    family, direction = "beta", "wgrad"

    pipeline: str = axis("pipe", "late", "schedule")
    unroll_k: bool = axis("unroll", True, "two-fold")
    split_k: int = axis("sk", 2, "slices", least=INT_RANGE[0], most=_MOST)
    epilogue: str = axis("epi", "cshuffle", "stores")
    tile_m: int = constant(32)


@dataclass(frozen=True, slots=True)
class Bare(Identity):
    """Without any field of its own."""

    family, direction = "bare", "wgrad"


RECORDS = (Alpha, Beta, Bare)
for _record in RECORDS:
    register(_record)
