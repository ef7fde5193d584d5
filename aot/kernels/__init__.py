"""Kernel builders: one module per family, and the small objects that families share."""

from __future__ import annotations

from aot.kernels.emit import builders, emit
from aot.kernels.source import KernelSource

__all__ = ["KernelSource", "builders", "emit"]
