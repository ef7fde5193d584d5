"""Backward weights whose K tiles persistent workgroups share evenly."""

from __future__ import annotations

from aot.family import KernelFamily, Offer
from aot.kernels.wgrad_stream_k import emit_stream_k
from aot.runtime.forecast_wgrad import stream_k_forecast
from aot.runtime.plan_wgrad import stream_k_plan
from aot.verification.edge_case import channel_widths
from aot.verification.edges_wgrad import stream_k_cases
from aot.verification.launch_paths import LaunchPaths

FAMILY = KernelFamily(
    name="stream_k",
    emit=emit_stream_k,
    edge_cases=stream_k_cases,
    widths=channel_widths,
    role=Offer(stream_k_plan, stream_k_forecast, LaunchPaths(told="workgroups")),
)
