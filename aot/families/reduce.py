"""Second step of two-stage backward weights: folds f32 replicas into dW."""

from __future__ import annotations

from aot.family import Helper, KernelFamily
from aot.kernels.wgrad_reduce import emit_reduce
from aot.verification.edge_case import no_widths
from aot.verification.run_second_step import run_reduce, second_step_cases

FAMILY = KernelFamily(
    name="reduce",
    emit=emit_reduce,
    edge_cases=second_step_cases,
    widths=no_widths,
    role=Helper(run_reduce),
)
