"""Stream-K wgrad: how many persistent workgroups a kernel is launched with, and the workspace for what they leave.

All K tiles of all output tiles are shared out evenly, so the number of workgroups is what the GPU holds at once,
whatever the problem; a workgroup leaves at most two parts of an output tile.
"""

# numpy types arithmetic on columns of an unstated width as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from grids.geometry import OTHER_REGISTERS, IntT, ceil_div, larger
from grids.targets import Target

#: Waves of one SIMD beyond which another one hides no more latency.
MOST_WAVES_PER_SIMD = 4
#: Parts that a workgroup may leave, and bytes of a number in one.
PARTS, PART_BYTES = 2, 4


def resident_workgroups(*, accumulators: IntT, waves: IntT, gpu: Target) -> IntT:
    """Workgroups that all compute units hold at once, by their registers; at least one each."""
    fitting = gpu.vgprs // (accumulators + OTHER_REGISTERS)
    per_simd = fitting - larger(fitting - MOST_WAVES_PER_SIMD, 0 * fitting)
    blocks = per_simd * gpu.simds // waves
    return larger(blocks, 0 * blocks + 1) * gpu.cus


def share(*, iterations: int, workgroups: int) -> int:
    """K tiles of one workgroup."""
    return ceil_div(iterations, workgroups)


def workspace_bytes(*, tile_m: IntT, tile_n: IntT, workgroups: IntT) -> IntT:
    """Bytes of the parts of this many workgroups; nothing of it has to be zeroed."""
    return workgroups * (tile_m * tile_n) * (PARTS * PART_BYTES)
