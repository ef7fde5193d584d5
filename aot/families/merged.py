"""Depthwise backward weights: several groups per workgroup, in two stages."""

from __future__ import annotations

from aot.family import KernelFamily, Offer
from aot.kernels.wgrad_variants import emit_either_wgrad
from aot.runtime.forecast_wgrad import two_stage_forecast
from aot.runtime.plan_wgrad import two_stage_plan
from aot.verification.edge_case import channel_widths
from aot.verification.edges_wgrad import merged_cases
from aot.verification.launch_paths import LaunchPaths

FAMILY = KernelFamily(
    name="merged",
    emit=emit_either_wgrad,
    edge_cases=merged_cases,
    widths=channel_widths,
    role=Offer(two_stage_plan, two_stage_forecast, LaunchPaths(told="split_k", two_stage=True)),
)
