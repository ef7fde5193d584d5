"""Backward data at any stride and dilation: one sub-GEMM per pixel lattice."""

from __future__ import annotations

from aot.family import KernelFamily, Offer
from aot.kernels.dgrad import emit_dgrad
from aot.runtime.plan_dgrad import dgrad_forecast, dgrad_plan
from aot.verification.edge_case import channel_widths
from aot.verification.edges_dgrad import strided_cases
from aot.verification.launch_paths import LaunchPaths

FAMILY = KernelFamily(
    name="tilde",
    emit=emit_dgrad,
    edge_cases=strided_cases,
    widths=channel_widths,
    role=Offer(
        dgrad_plan,
        dgrad_forecast,
        LaunchPaths(),
        gives_up=frozenset({"S_depthwise_dgrad"}),
    ),
)
