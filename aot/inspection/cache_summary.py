"""What a cache holds, as numbers: families, axes, outcomes, sizes, resources. Works on columns only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.inspection.occupancy import occupancy
from cache_schema.cache_check import sealed_sha256
from cache_schema.cache_reader import Cache
from cache_schema.table import IdentityTable, is_constant
from grids.reasons import explanations

#: Upper ends of the bins: the register counts at which one wave less fits, and shares of the LDS.
VGPR_BINS = (64, 72, 80, 96, 128, 168, 256, 512)
LDS_BINS = tuple(kib * 1024 for kib in (0, 8, 16, 24, 32, 48, 64, 96, 128, 160))


@dataclass(frozen=True, slots=True)
class Family:
    """Entries of one family; `axes` has every field that takes more than one value among them."""

    direction: str
    name: str
    entries: int
    kernels: int  #: distinct code objects
    axes: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """Candidates with one outcome, and in words why."""

    kind: str
    reason: str
    count: int
    explanation: str


@dataclass(frozen=True, slots=True)
class CacheSummary:
    """A cache file. Sizes in bytes; histograms map a bin (its upper end, or the value) to a number of kernels."""

    path: str
    arch: str
    dtype: str
    seal: str
    file_bytes: int
    entries: int
    kernels: int
    code_bytes: int
    frame_bytes: int
    index_bytes: int
    blocks: int
    families: tuple[Family, ...]
    outcomes: tuple[OutcomeCount, ...]
    vgprs: dict[int, int]
    lds: dict[int, int]
    occupancy: dict[int, int]
    occupancy_limits: dict[str, int]
    spilling: int
    scratch: int
    provenance: dict[str, Any]

    @property
    def density(self) -> float:
        """Bytes of all distinct code objects per byte of the file."""
        return self.code_bytes / self.file_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "density": round(self.density, 3)}


def summarise(cache: Cache) -> CacheSummary:
    """Read all columns of an open cache; no code object is decoded. Raises CacheError if any byte is damaged."""
    sealed_sha256(cache)
    header, kernels = cache.header, cache.kernels
    resources = {name: np.asarray(kernels[name]) for name in ("vgprs", "sgprs", "lds_bytes", "block_size")}
    waves, limits = _occupancies(cache.arch, resources)
    spilling = (kernels["vgpr_spills"] > 0) | (kernels["sgpr_spills"] > 0)
    return CacheSummary(
        path=str(cache.path),
        arch=cache.arch,
        dtype=cache.dtype,
        seal=cache.seal,
        file_bytes=header.file_bytes,
        entries=len(cache),
        kernels=kernels.rows,
        code_bytes=int(kernels["code_bytes"].sum(dtype=np.int64)),
        frame_bytes=int(cache.blocks["bytes"].sum(dtype=np.int64)),
        index_bytes=header.index_bytes,
        blocks=cache.blocks.rows,
        families=tuple(_families(cache)),
        outcomes=tuple(
            OutcomeCount(kind.name.lower(), reason, count, explanations().get(reason, ""))
            for (kind, reason), count in cache.outcome_counts().items()
        ),
        vgprs=_binned(resources["vgprs"], VGPR_BINS),
        lds=_binned(resources["lds_bytes"], LDS_BINS),
        occupancy=waves,
        occupancy_limits=limits,
        spilling=int(spilling.sum()),
        scratch=int((kernels["scratch_bytes"] > 0).sum()),
        provenance=cache.provenance,
    )


def axes(table: IdentityTable) -> dict[str, dict[str, int]]:
    """Counts per value of every field that has more than one, values in their own order."""
    found = {}
    for name, column in table.columns.items():
        if not len(column) or is_constant(column) or (column == column[0]).all():
            continue
        values, counts = np.unique(column, return_counts=True)
        words: Sequence[object] = table.vocab.get(name, ())
        labels = [str(words[value] if name in table.vocab else value) for value in values.tolist()]
        found[name] = dict(zip(labels, counts.tolist(), strict=True))
    return found


def _families(cache: Cache) -> list[Family]:
    kernel_of = np.asarray(cache.entries["kernel"])
    return [
        Family(schema.direction, schema.family, len(part), len(np.unique(kernel_of[rows])), axes(part))
        for schema, rows, part in cache.table.parts()
    ]


def _binned(values: npt.NDArray[Any], ends: Sequence[int]) -> dict[int, int]:
    """Values per bin, bins named by their upper ends; what is beyond the last counts there."""
    place = np.minimum(np.searchsorted(np.asarray(ends), values), len(ends) - 1)
    return dict(zip(ends, np.bincount(place, minlength=len(ends)).tolist(), strict=True))


def _occupancies(arch: str, resources: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[int, int], dict[str, int]]:
    """Kernels per waves and SIMD, and per limiting resource; each distinct set of resources is computed once."""
    stacked = np.stack([column.astype(np.int64) for column in resources.values()])
    codes, base = np.zeros(stacked.shape[1], dtype=np.int64), 1
    for column in stacked:
        _, ranks = np.unique(column, return_inverse=True)
        codes, base = codes + base * ranks.reshape(-1), base * (int(ranks.max(initial=0)) + 1)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    waves: dict[int, int] = {}
    limits: dict[str, int] = {}
    for kernel, count in zip(first.tolist(), counts.tolist(), strict=True):
        held = occupancy(arch, **dict(zip(resources, stacked[:, kernel].tolist(), strict=True)))
        waves[held.waves_per_simd] = waves.get(held.waves_per_simd, 0) + count
        limits[held.limit] = limits.get(held.limit, 0) + count
    return dict(sorted(waves.items())), dict(sorted(limits.items()))
