"""From a problem and a kernel to a launch plan.

A kernel is described by what a cache records of it. Nothing is refused late: a plan that is returned can be launched.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from aot.kernels.dgrad_table import records_of, table_words, total_tiles
from aot.kernels.values import argument_values
from aot.runtime.plan_data import Buffer, Fill, Plan, PlanError, Step
from aot.runtime.plan_parts import POINTERS, KernelEntry, bind_launch, tensor_buffers
from aot.runtime.plan_wgrad import AUTOMATIC, WgradOptions, wgrad_plan
from aot.runtime.reference import TENSORS, reduction_length, tensor_shape
from cache_schema.errors import RequestError
from cache_schema.identity import IMPLICIT_GEMM, Identity
from cache_schema.label import encode
from cache_schema.problem import DIRECTIONS, ConvProblem
from cache_schema.table import IdentityTable
from grids.geometry import dgrad_grid, gemm_extents, launch_grid
from grids.reasons import explain
from grids.rules import evaluate
from grids.serving import SERVING_REASONS, serves
from grids.tilde import must_zero_dx


class NotServedError(RequestError):
    """A kernel was asked to run a problem that it would compute wrongly; `reason` is the code of the serving rule."""

    def __init__(self, identity: Identity, problem: ConvProblem, reason: str) -> None:
        self.identity, self.problem, self.reason = identity, problem, reason
        super().__init__(f"kernel {encode(identity)} does not serve the problem: {reason}: {explain(reason)}")


def needs_no_kernel(problem: ConvProblem) -> bool:
    """True when the reduction or the result is empty: an empty result is left alone, any other is zero."""
    first, second, result = TENSORS[problem.direction]
    return any(prod(tensor_shape(problem, name)) == 0 for name in (first, second, result))


def empty_plan(arch: str, problem: ConvProblem) -> Plan:
    """The plan of a problem that `needs_no_kernel`: a single fill step, or no step where the result is empty too."""
    buffers = tensor_buffers(problem)
    steps: tuple[Step, ...] = (Fill(buffers[2].name),) if buffers[2].nbytes else ()
    return Plan(arch, problem, buffers, steps)


def make_plan(entry: KernelEntry, problem: ConvProblem, options: WgradOptions = AUTOMATIC) -> Plan:
    """The plan that runs a problem on one kernel; `options` are for backward weights.

    Raises `NotServedError` when the kernel does not serve the problem, and `PlanError` for a family without plans.
    Of an identity from elsewhere `require_buildable` comes first.
    """
    identity = entry.identity
    if needs_no_kernel(problem):
        return empty_plan(identity.arch, problem)
    mask, codes = serves(_one_row(identity), problem, options.workspace_limit)
    if not mask[0]:
        raise NotServedError(identity, problem, SERVING_REASONS[int(codes[0])])
    family = identity.algorithm, identity.direction
    if family == (IMPLICIT_GEMM, "wgrad"):
        return wgrad_plan(entry, problem, options)
    if family not in _PLANS:
        raise PlanError(f"there are no launch plans for {identity.algorithm} {identity.direction} kernels")
    return _PLANS[family](entry, problem)


@lru_cache(maxsize=64)
def _one_row(identity: Identity) -> IdentityTable:
    return IdentityTable.from_identities([identity])


def require_buildable(identity: Identity) -> None:
    """PlanError for an identity that no kernel of the grid has: plans rely on what its rules promise.

    Those without a tile serve no problem, and are not for here.
    """
    if identity.direction not in DIRECTIONS:
        return
    with np.errstate(all="ignore"):  # of atoms of no size, which a rule refuses
        reason = evaluate(_one_row(identity)).reason(0)
    if reason:
        raise PlanError(f"no kernel can be {encode(identity)}: {reason}: {explain(reason)}")


def _forward(entry: KernelEntry, problem: ConvProblem) -> Plan:
    identity, extents = entry.identity, gemm_extents(problem)
    grid = launch_grid(
        gemm_m=extents.m,
        gemm_n=extents.n,
        tile_m=identity.tile_m,
        tile_n=identity.tile_n,
        groups=problem.groups,
        slices=1,
    )
    buffers = tensor_buffers(problem)
    pointers = {pointer: buffer.name for pointer, buffer in zip(POINTERS, buffers, strict=True)}
    launch = bind_launch(entry, grid, pointers, argument_values(identity, problem))
    return Plan(identity.arch, problem, buffers, (launch,), summed_terms=extents.k)


def _dgrad(entry: KernelEntry, problem: ConvProblem) -> Plan:
    """All sub-GEMMs in one launch.

    dX is filled first where it has pixels that none of them writes, whose gradient is zero.
    """
    identity = entry.identity
    found = records_of(identity, problem)
    buffers = tensor_buffers(problem)
    fills: tuple[Step, ...] = (Fill(buffers[2].name),) if must_zero_dx(problem) else ()
    if not found:
        return Plan(identity.arch, problem, buffers, fills)
    words = table_words(found, problem.kpg)
    table = Buffer("sub_gemms", "table", "int32", (len(words),), 4 * len(words), words)
    pointers = {pointer: buffer.name for pointer, buffer in zip(POINTERS, buffers, strict=True)}
    pointers["sub_gemm_buf"] = table.name
    grid = dgrad_grid(total_tiles=total_tiles(found), groups=problem.groups)
    launch = bind_launch(entry, grid, pointers, argument_values(identity, problem))
    steps = (*fills, launch)
    return Plan(identity.arch, problem, (*buffers, table), steps, summed_terms=reduction_length(problem))


_PLANS = {(IMPLICIT_GEMM, "fwd"): _forward, (IMPLICIT_GEMM, "dgrad"): _dgrad}
