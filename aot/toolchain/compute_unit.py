"""Which workgroups never start on any compute unit.

A workgroup runs on one compute unit, its waves shared out over the SIMDs (LLVM's "User Guide for AMDGPU Backend").
"""

from __future__ import annotations

from grids.targets import target


def why_it_never_starts(arch: str, threads: int, vgprs: int, lds_bytes: int) -> str:
    """What of a workgroup no compute unit holds, in one line with figures; empty if it fits.

    `vgprs` are the vector registers that a wave has allocated, accumulators included.
    """
    gpu = target(arch)
    waves = -(-threads // gpu.wave_size)
    resident = min(gpu.waves_per_simd, gpu.vgprs // max(1, vgprs))
    if threads > gpu.max_threads:
        return f"block of {threads} threads; a workgroup has at most {gpu.max_threads}"
    if waves > gpu.simds * resident:
        return (
            f"{waves} waves of {vgprs} vector registers; the {gpu.simds} SIMDs of a compute unit have {gpu.vgprs} "
            f"each, which holds {gpu.simds * resident} such waves"
        )
    if lds_bytes > gpu.lds_bytes:
        return f"{lds_bytes} bytes of LDS; {arch} has {gpu.lds_bytes}"
    return ""
