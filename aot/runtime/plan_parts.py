"""What plans of all families are made of: the tensors of a problem as buffers, kernels with their arguments bound."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any, Protocol

from aot.runtime.launch_limits import check_launch
from aot.runtime.plan_data import BoundArgument, Buffer, Dim3, Launch, PlanError
from aot.runtime.reference import TENSORS, tensor_shape
from cache_schema.arguments import ArgumentList
from cache_schema.label import encode
from cache_schema.problem import ELEM_BYTES, ConvProblem

#: Pointer arguments that every implicit-GEMM kernel has, in the order of `TENSORS`.
POINTERS = ("A", "B", "D")
ROLES = ("input", "input", "output")


class KernelEntry(Protocol):
    """What a cache records of one kernel."""

    @property
    def identity(self) -> Any:
        """The record of its family."""
        ...

    @property
    def digest(self) -> bytes: ...
    @property
    def symbol(self) -> str: ...
    @property
    def blob_digest(self) -> str: ...
    @property
    def block_size(self) -> int: ...
    @property
    def arguments(self) -> ArgumentList: ...


def tensor_buffers(problem: ConvProblem) -> tuple[Buffer, ...]:
    """The two operands and the result."""
    buffers = []
    for name, role in zip(TENSORS[problem.direction], ROLES, strict=True):
        shape = tensor_shape(problem, name)
        buffers.append(Buffer(name, role, problem.dtype, shape, prod(shape) * ELEM_BYTES[problem.dtype]))
    return tuple(buffers)


#: A kernel is planned many times in a row.
_label = lru_cache(maxsize=64)(encode)


def bind_launch(entry: KernelEntry, grid: Dim3, pointers: Mapping[str, str], values: Mapping[str, int]) -> Launch:
    """Bind every argument of a kernel; a missing or surplus name is an error here and not a shifted argument later.

    Raises PlanError for that, and for a grid that HIP does not launch.
    """
    declared = entry.arguments
    given = {*pointers, *values}
    if given != set(declared.names):
        missing, surplus = sorted(set(declared.names) - given), sorted(given - set(declared.names))
        raise PlanError(f"kernel {entry.symbol}: arguments without a value {missing}, values without one {surplus}")
    offsets = declared.offsets
    arguments = tuple(
        BoundArgument(a.name, a.kind, offsets[a.name], a.size, values.get(a.name), pointers.get(a.name))
        for a in declared.arguments
    )
    block = entry.block_size, 1, 1
    check_launch(entry.symbol, grid, block)
    return Launch(
        identity=_label(entry.identity),
        identity_digest=entry.digest.hex(),
        code_object=entry.blob_digest,
        symbol=entry.symbol,
        grid=grid,
        block=block,
        dynamic_lds=0,
        arguments=arguments,
    )
