"""What one compute unit of CDNA3 and CDNA4 holds, and so which workgroups never start on any.

Source: LLVM's "User Guide for AMDGPU Backend" and AMD's CDNA3 and CDNA4 instruction set manuals: a workgroup runs on
one compute unit of 4 SIMDs; a SIMD has 512 vector registers per lane (architectural ones and accumulators together,
allocated in granules of 8) and room for 8 waves.
"""

from __future__ import annotations

SIMDS = 4
WAVES_PER_SIMD = 8
VECTOR_REGISTERS = 512
LANES = 64
MAX_THREADS = 1024
LDS_BYTES = {"gfx942": 65536, "gfx950": 163840}


def why_it_never_starts(arch: str, threads: int, vgprs: int, lds_bytes: int) -> str:
    """What of a workgroup no compute unit holds, in one line with figures; empty if it fits.

    `vgprs` are the vector registers that a wave has allocated, accumulators included.
    """
    waves = -(-threads // LANES)
    resident = min(WAVES_PER_SIMD, VECTOR_REGISTERS // max(1, vgprs))
    if threads > MAX_THREADS:
        return f"block of {threads} threads; a workgroup has at most {MAX_THREADS}"
    if waves > SIMDS * resident:
        return (
            f"{waves} waves of {vgprs} vector registers; the {SIMDS} SIMDs of a compute unit have {VECTOR_REGISTERS} "
            f"each, which holds {SIMDS * resident} such waves"
        )
    if lds_bytes > LDS_BYTES[arch]:
        return f"{lds_bytes} bytes of LDS; {arch} has {LDS_BYTES[arch]}"
    return ""
