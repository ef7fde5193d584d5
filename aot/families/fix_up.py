"""Second step of stream-K backward weights: adds up what workgroups leave of shared output tiles."""

from __future__ import annotations

from aot.family import Helper, KernelFamily
from aot.kernels.wgrad_fix_up import emit_fix_up
from aot.verification.edge_case import no_widths
from aot.verification.run_second_step import run_fix_up, second_step_cases

FAMILY = KernelFamily(
    name="fix_up",
    emit=emit_fix_up,
    edge_cases=second_step_cases,
    widths=no_widths,
    role=Helper(run_fix_up),
)
