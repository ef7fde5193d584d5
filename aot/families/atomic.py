"""Backward weights split over K at a run-time degree, summed by atomics."""

from __future__ import annotations

from aot.family import KernelFamily, Offer
from aot.kernels.wgrad_variants import emit_either_wgrad
from aot.runtime.forecast_wgrad import atomic_forecast
from aot.runtime.plan_wgrad import atomic_plan
from aot.verification.edge_case import channel_widths
from aot.verification.edges_wgrad import atomic_cases
from aot.verification.launch_paths import LaunchPaths

FAMILY = KernelFamily(
    name="atomic",
    emit=emit_either_wgrad,
    edge_cases=atomic_cases,
    widths=channel_widths,
    role=Offer(atomic_plan, atomic_forecast, LaunchPaths(told="split_k", atomic=True)),
)
