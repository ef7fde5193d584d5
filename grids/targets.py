"""The GPUs that kernels are built for, read from targets.yaml.

A target is data only: limits that rules compare with, and the instructions that builders may use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import yaml

from cache_schema.errors import UnknownValueError


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU, as targets.yaml explains. `async_dwords` is per lane, widest first."""

    arch: str
    elf_machine: int
    wave_size: int
    simds: int
    waves_per_simd: int
    workgroups_per_cu: int
    lds_bytes: int
    lds_granule: int
    max_threads: int
    vgprs: int
    ordinary_vgprs: int
    agprs: int
    vgpr_granule: int
    sgprs: int
    sgpr_granule: int
    multiply_adds_per_clk: int
    cus: int
    xcds: int
    atoms: Mapping[str, Mapping[int, tuple[int, ...]]]
    async_dwords: tuple[int, ...]
    transpose_read: bool

    def atom_k(self, dtype: str, edge: int) -> int:
        """Longest reduction of the square matrix instructions of this edge; 0 when there is none."""
        return max(self.atoms.get(dtype, {}).get(edge, (0,)))


@cache
def targets() -> Mapping[str, Target]:
    """Every known target by architecture name."""
    document = yaml.safe_load(files("grids").joinpath("targets.yaml").read_text(encoding="utf-8"))
    return MappingProxyType({arch: _target(arch, record) for arch, record in document.items()})


def target(arch: str) -> Target:
    """The target of this architecture name; `UnknownValueError` when kernels cannot be built for it."""
    try:
        return targets()[arch]
    except KeyError:
        raise UnknownValueError("architecture", arch, targets()) from None


def _target(arch: str, record: Mapping[str, Any]) -> Target:
    atoms = {
        dtype: MappingProxyType({int(edge): tuple(lengths) for edge, lengths in by_edge.items()})
        for dtype, by_edge in record["atoms"].items()
    }
    return Target(
        **{
            **record,
            "arch": arch,
            "atoms": MappingProxyType(atoms),
            "async_dwords": tuple(record["async_dwords"]),
        }
    )
