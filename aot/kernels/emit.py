"""From an identity to kernel source."""

from __future__ import annotations

from aot.kernels.dgrad import emit_dgrad
from aot.kernels.forward import emit_forward
from aot.kernels.source import KernelSource
from aot.kernels.wgrad import emit_wgrad
from aot.kernels.wgrad_direct import emit_direct_wgrad
from aot.kernels.wgrad_fix_up import emit_fix_up
from aot.kernels.wgrad_reduce import emit_reduce
from aot.kernels.wgrad_stream_k import emit_stream_k
from cache_schema.errors import UnknownValueError
from cache_schema.identity import IMPLICIT_GEMM, REDUCE, Identity


def _emit_wgrad(identity: Identity, flavor: str) -> KernelSource:
    if identity.stream_k:
        return emit_stream_k(identity, flavor)
    return (emit_direct_wgrad if identity.async_dma else emit_wgrad)(identity, flavor)


def _emit_second_step(identity: Identity, flavor: str) -> KernelSource:
    return (emit_fix_up if identity.stream_k else emit_reduce)(identity, flavor)


_BUILDERS = {
    ("fwd", IMPLICIT_GEMM): emit_forward,
    ("dgrad", IMPLICIT_GEMM): emit_dgrad,
    ("wgrad", IMPLICIT_GEMM): _emit_wgrad,
    ("wgrad", REDUCE): _emit_second_step,
}


def builders() -> frozenset[tuple[str, str]]:
    """The (direction, algorithm) pairs that can be emitted."""
    return frozenset(_BUILDERS)


def emit(identity: Identity, flavor: str) -> KernelSource:
    """Source of the kernel of this identity in this IR flavor."""
    family = identity.direction, identity.algorithm
    if family not in _BUILDERS:
        raise UnknownValueError("kernel family", "/".join(family), map("/".join, _BUILDERS))
    return _BUILDERS[family](identity, flavor)
