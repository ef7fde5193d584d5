"""Launch plans of backward-weights kernels: degrees, what has to be zero first, workspaces, the second stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aot.kernels.wgrad_arguments import reduce_values, wgrad_values
from aot.runtime.plan_data import Buffer, Fill, Plan, PlanError
from aot.runtime.plan_parts import POINTERS, KernelEntry, bind_launch, tensor_buffers
from cache_schema.errors import RequestError
from cache_schema.identity import Identity
from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from grids import split_k
from grids.enumerate import reduce_identity
from grids.geometry import MAX_GRID, gemm_extents, launch_grid, reduce_grid
from grids.targets import target

#: A split degree of this much stands for the automatic one.
AUTOMATIC_DEGREE = -1
WORKSPACE = "workspace"


class SplitDegreeError(RequestError):
    """A split degree at which a kernel cannot be launched."""


@dataclass(frozen=True, slots=True)
class WgradOptions:
    """How to plan backward weights.

    `split_k` is the number of slices of the reduction, -1 for `grids.split_k.automatic_degree`. `workspace_limit` in
    bytes excludes kernels that need more. `helper` finds the kernel of a second stage in the cache.
    """

    split_k: int = AUTOMATIC_DEGREE
    workspace_limit: int | None = None
    helper: Callable[[Identity], KernelEntry | None] | None = None


AUTOMATIC = WgradOptions()


def wgrad_plan(entry: KernelEntry, problem: ConvProblem, options: WgradOptions) -> Plan:
    """The plan of a kernel that serves the problem.

    Raises `SplitDegreeError` for a degree that cannot be launched, and `PlanError` when the second stage is missing.
    """
    identity = entry.identity
    degree = slices(identity, problem, options.split_k)
    extents, merge = gemm_extents(problem), identity.group_merge
    grid = launch_grid(
        gemm_m=extents.m * merge,
        gemm_n=extents.n * merge,
        tile_m=identity.tile_m,
        tile_n=identity.tile_n,
        groups=problem.groups // merge,
        slices=degree,
    )
    buffers = tensor_buffers(problem)
    names = [buffer.name for buffer in buffers]
    values = wgrad_values(identity, problem, degree)
    if identity.two_stage:
        return _two_stage(entry, problem, options, degree, bind_grid=grid)
    launch = bind_launch(entry, grid, dict(zip(POINTERS, names, strict=True)), values)
    if identity.split_k == 1:
        return Plan(identity.arch, problem, buffers, (launch,))
    # Two roundings of two slices commute; a third slice makes the order of the atomics visible.
    return Plan(
        identity.arch,
        problem,
        buffers,
        (Fill(names[2]), launch),
        rounded_sums=degree,
        deterministic=degree <= 2,
    )


def slices(identity: Identity, problem: ConvProblem, wanted: int) -> int:
    """The degree to launch at; a wanted one is taken as it is, though slices without a K tile then add nothing."""
    if wanted == AUTOMATIC_DEGREE:
        return split_k.automatic_degree(identity, problem, target(identity.arch))
    if wanted < 1:
        raise SplitDegreeError(f"split degree {wanted}: it is {AUTOMATIC_DEGREE} for the automatic one, or at least 1")
    if identity.split_k == 1 and wanted > 1:
        raise SplitDegreeError(f"split degree {wanted}: kernel {encode(identity)} does not split its reduction")
    groups = problem.groups // identity.group_merge
    if groups * wanted > MAX_GRID:
        raise SplitDegreeError(f"split degree {wanted}: {groups} groups times it exceed grid z of {MAX_GRID}")
    return wanted


def _two_stage(
    entry: KernelEntry, problem: ConvProblem, options: WgradOptions, degree: int, bind_grid: tuple[int, int, int]
) -> Plan:
    """Zero the replicas, add the slices into them, fold them into dW.

    Up to two slices per replica commute; a third makes the order of the atomics visible.
    """
    identity = entry.identity
    buffers = tensor_buffers(problem)
    first, second, result = (buffer.name for buffer in buffers)
    wanted = reduce_identity(identity.arch, identity.dtype_d, identity.ws_replicas)
    reduce = options.helper(wanted) if options.helper else None
    if reduce is None:
        raise PlanError(f"kernel {encode(identity)} has a second stage that the cache lacks: {encode(wanted)}")
    extents = gemm_extents(problem)
    nbytes = split_k.two_stage_workspace_bytes(problem, identity.ws_replicas)
    shape = (problem.groups, identity.ws_replicas, extents.m, extents.n)
    workspace = Buffer(WORKSPACE, "workspace", "fp32", shape, nbytes)
    values = wgrad_values(identity, problem, degree)
    gemm = bind_launch(entry, bind_grid, dict(zip(POINTERS, (first, second, WORKSPACE), strict=True)), values)
    grid = reduce_grid(elements=problem.groups * extents.m * extents.n)
    fold = bind_launch(reduce, grid, {"ws": WORKSPACE, "dw": result}, reduce_values(problem))
    return Plan(
        identity.arch,
        problem,
        (*buffers, workspace),
        (Fill(WORKSPACE), gemm, fold),
        partial_sums=degree + identity.ws_replicas,
        deterministic=degree <= 2 * identity.ws_replicas,
    )
