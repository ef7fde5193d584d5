"""Backward weights in one slice, stored directly."""

from __future__ import annotations

from aot.family import KernelFamily, Offer
from aot.kernels.wgrad_variants import emit_either_wgrad
from aot.runtime.forecast_wgrad import direct_forecast
from aot.runtime.plan_wgrad import direct_plan
from aot.verification.edge_case import channel_widths
from aot.verification.edges_wgrad import direct_cases
from aot.verification.launch_paths import LaunchPaths

FAMILY = KernelFamily(
    name="nonsplit",
    emit=emit_either_wgrad,
    edge_cases=direct_cases,
    widths=channel_widths,
    role=Offer(direct_plan, direct_forecast, LaunchPaths()),
)
