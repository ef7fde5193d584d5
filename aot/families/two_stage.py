"""Backward weights split over K into f32 replicas, which a second kernel folds."""

from __future__ import annotations

from aot.family import KernelFamily, Offer
from aot.kernels.wgrad_variants import emit_either_wgrad
from aot.runtime.forecast_wgrad import two_stage_forecast
from aot.runtime.plan_wgrad import two_stage_plan
from aot.verification.edge_case import channel_widths
from aot.verification.edges_wgrad import two_stage_cases
from aot.verification.launch_paths import LaunchPaths

FAMILY = KernelFamily(
    name="two_stage",
    emit=emit_either_wgrad,
    edge_cases=two_stage_cases,
    widths=channel_widths,
    role=Offer(two_stage_plan, two_stage_forecast, LaunchPaths(told="split_k", two_stage=True)),
)
