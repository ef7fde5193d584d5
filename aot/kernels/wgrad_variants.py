"""Backward-weights kernels of one loop: operands staged in registers, or brought straight to LDS."""

from __future__ import annotations

from aot.kernels.source import KernelSource
from aot.kernels.wgrad import emit_wgrad
from aot.kernels.wgrad_direct import emit_direct_wgrad
from grids.gemm.records import Wgrad


def emit_either_wgrad(identity: Wgrad, flavor: str) -> KernelSource:
    """The kernel of an identity whose workgroups each have their own slice of the reduction."""
    return (emit_direct_wgrad if identity.async_dma else emit_wgrad)(identity, flavor)
