"""How many waves of a kernel a compute unit holds at once, from what the code object asks for.

A SIMD hands out vector and scalar registers in granules, and a compute unit LDS; workgroups of more than one wave are
limited besides. (AMD CDNA3 and CDNA4 ISA manuals, and LLVM's AMDGPU resource model.)
"""

from __future__ import annotations

from dataclasses import dataclass

from grids.targets import target


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Waves per SIMD, and which resource ends it: `waves`, `vector registers`, `scalar registers`, `lds`."""

    waves_per_simd: int
    workgroups_per_cu: int
    limit: str


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def occupancy(arch: str, *, vgprs: int, sgprs: int, lds_bytes: int, block_size: int) -> Occupancy:
    """Occupancy of a kernel of `block_size` threads.

    Registers are those that the code uses, rounded up here to what hardware allocates. `vgprs` counts ordinary and
    accumulation registers together, as code objects do; `lds_bytes` is per workgroup, static and dynamic. A kernel that
    no compute unit can hold has occupancy 0. Raises UnknownValueError for an architecture that is not known.
    """
    gpu = target(arch)
    waves_per_block = -(-block_size // gpu.wave_size)
    per_simd = {
        "waves": gpu.waves_per_simd,
        "vector registers": gpu.vgprs // max(_round_up(vgprs, gpu.vgpr_granule), gpu.vgpr_granule),
        "scalar registers": gpu.sgprs // max(_round_up(sgprs, gpu.sgpr_granule), gpu.sgpr_granule),
    }
    by_waves = min(per_simd.values()) * gpu.simds // waves_per_block
    if waves_per_block > 1:
        by_waves = min(by_waves, gpu.workgroups_per_cu)
    by_lds = gpu.lds_bytes // _round_up(lds_bytes, gpu.lds_granule) if lds_bytes else by_waves
    workgroups = min(by_waves, by_lds)
    limit = "lds" if by_lds < by_waves else min(per_simd, key=lambda name: per_simd[name])
    return Occupancy(-(-workgroups * waves_per_block // gpu.simds), workgroups, limit)
