"""How many waves of a kernel a compute unit holds at once, from what the code object asks for.

CDNA3 and CDNA4: four SIMDs of at most eight waves; a unified file of 512 vector registers per lane and SIMD, handed out
in eights; 800 scalar registers per SIMD, handed out in sixteens; LDS handed out in blocks; at most sixteen workgroups
of more than one wave. (AMD CDNA3 and CDNA4 ISA manuals, and LLVM's AMDGPU resource model for gfx942 and gfx950.)
"""

from __future__ import annotations

from dataclasses import dataclass

SIMDS_PER_CU = 4
MAX_WAVES_PER_SIMD = 8
VECTOR_REGISTERS = 512
VECTOR_GRANULE = 8
SCALAR_REGISTERS = 800
SCALAR_GRANULE = 16
MAX_WORKGROUPS_PER_CU = 16
#: Bytes of LDS per compute unit and of the block it is handed out in.
LDS = {"gfx942": (64 * 1024, 512), "gfx950": (160 * 1024, 1280)}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Waves per SIMD, and which resource ends it: `waves`, `vector registers`, `scalar registers`, `lds`."""

    waves_per_simd: int
    workgroups_per_cu: int
    limit: str


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def occupancy(arch: str, *, vgprs: int, sgprs: int, lds_bytes: int, block_size: int) -> Occupancy:
    """Occupancy of a kernel of `block_size` threads in waves of 64.

    Registers are those that the code uses, rounded up here to what hardware allocates. `vgprs` counts ordinary and
    accumulation registers together, as code objects do; `lds_bytes` is per workgroup, static and dynamic. A kernel that
    no compute unit can hold has occupancy 0.
    """
    waves_per_block = -(-block_size // 64)
    lds_total, lds_granule = LDS[arch]
    per_simd = {
        "waves": MAX_WAVES_PER_SIMD,
        "vector registers": VECTOR_REGISTERS // max(_round_up(vgprs, VECTOR_GRANULE), VECTOR_GRANULE),
        "scalar registers": SCALAR_REGISTERS // max(_round_up(sgprs, SCALAR_GRANULE), SCALAR_GRANULE),
    }
    by_waves = min(per_simd.values()) * SIMDS_PER_CU // waves_per_block
    if waves_per_block > 1:
        by_waves = min(by_waves, MAX_WORKGROUPS_PER_CU)
    by_lds = lds_total // _round_up(lds_bytes, lds_granule) if lds_bytes else by_waves
    workgroups = min(by_waves, by_lds)
    limit = "lds" if by_lds < by_waves else min(per_simd, key=lambda name: per_simd[name])
    return Occupancy(-(-workgroups * waves_per_block // SIMDS_PER_CU), workgroups, limit)
