"""Forward: one GEMM over all output pixels."""

from __future__ import annotations

from aot.family import KernelFamily, Offer
from aot.kernels.forward import emit_forward
from aot.runtime.plan_forward import forward_forecast, forward_plan
from aot.verification.edge_case import channel_widths
from aot.verification.edges_forward import forward_cases
from aot.verification.launch_paths import LaunchPaths

FAMILY = KernelFamily(
    name="implicit_gemm",
    emit=emit_forward,
    edge_cases=forward_cases,
    widths=channel_widths,
    role=Offer(forward_plan, forward_forecast, LaunchPaths()),
)
