"""Launch plans of backward-weights kernels: degrees, what has to be zero first, workspaces, the second stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aot.kernels.wgrad_arguments import fix_up_values, reduce_values, stream_k_values, wgrad_values
from aot.runtime.accuracy import BY_DEFAULT, COMMUTING_SLICES, Demand
from aot.runtime.plan_data import Buffer, Fill, Plan, PlanError
from aot.runtime.plan_parts import POINTERS, KernelEntry, bind_launch, tensor_buffers
from cache_schema.errors import RequestError
from cache_schema.identity import Identity
from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from grids import split_k, stream_k
from grids.enumerate import fix_up_identity, reduce_identity
from grids.geometry import MAX_GRID, accumulators_per_lane, ceil_div, gemm_extents, launch_grid, reduce_grid
from grids.targets import Target, target

#: A split degree of this much stands for the automatic one.
AUTOMATIC_DEGREE = -1
WORKSPACE = "workspace"


class SplitDegreeError(RequestError):
    """A split degree at which a kernel cannot be launched."""


@dataclass(frozen=True, slots=True)
class WgradOptions:
    """How to plan backward weights.

    `split_k` is the number of slices of the reduction, -1 for `grids.split_k.automatic_degree` as far as the `demand`
    for accuracy allows; a number that is given is taken, and the plan says what it makes of the numbers.
    `workspace_limit` in bytes excludes kernels that need more. `workgroups` is for stream-K kernels, None for as many
    as the GPU holds at once. `helper` finds the kernel of a second stage in the cache.
    """

    split_k: int = AUTOMATIC_DEGREE
    workspace_limit: int | None = None
    workgroups: int | None = None
    helper: Callable[[Identity], KernelEntry | None] | None = None
    demand: Demand = BY_DEFAULT


AUTOMATIC = WgradOptions()


def wgrad_plan(entry: KernelEntry, problem: ConvProblem, options: WgradOptions) -> Plan:
    """The plan of a kernel that serves the problem.

    Raises `SplitDegreeError` for a degree that cannot be launched, and `PlanError` when the second stage is missing.
    """
    identity = entry.identity
    if identity.stream_k:
        return _stream_k(entry, problem, options)
    degree = slices(identity, problem, options)
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
        return Plan(identity.arch, problem, buffers, (launch,), summed_terms=extents.k)
    filled = split_k.filled_slices(gemm_k=extents.k, tile_k=identity.tile_k, degree=degree)
    return Plan(
        identity.arch,
        problem,
        buffers,
        (Fill(names[2]), launch),
        summed_terms=_slice_terms(identity, extents.k, degree),
        rounded_sums=filled,
        added_to=(names[2],),
        deterministic=filled <= COMMUTING_SLICES,
    )


def _slice_terms(identity: Identity, gemm_k: int, degree: int) -> int:
    return min(gemm_k, split_k.slice_extent(gemm_k=gemm_k, tile_k=identity.tile_k, degree=degree))


def slices(identity: Identity, problem: ConvProblem, options: WgradOptions) -> int:
    """The degree to launch at; a wanted one is taken as it is, though slices without a K tile then add nothing."""
    wanted = options.split_k
    if wanted == AUTOMATIC_DEGREE:
        demand = options.demand
        most = demand.replica_slices(identity.ws_replicas) if identity.two_stage else demand.atomic_slices
        return split_k.automatic_degree(identity, problem, target(identity.arch), most)
    if wanted < 1:
        raise SplitDegreeError(f"split degree {wanted}: it is {AUTOMATIC_DEGREE} for the automatic one, or at least 1")
    if identity.split_k == 1 and wanted > 1:
        raise SplitDegreeError(f"split degree {wanted}: kernel {encode(identity)} does not split its reduction")
    groups = problem.groups // identity.group_merge
    if groups * wanted > MAX_GRID:
        raise SplitDegreeError(f"split degree {wanted}: {groups} groups times it exceed grid z of {MAX_GRID}")
    return wanted


def _stream_k(entry: KernelEntry, problem: ConvProblem, options: WgradOptions) -> Plan:
    """As many workgroups as the GPU holds at once; a second kernel adds up what they leave of shared output tiles."""
    identity, gpu = entry.identity, target(entry.identity.arch)
    if options.split_k not in (AUTOMATIC_DEGREE, 1):
        raise SplitDegreeError(f"split degree {options.split_k}: kernel {encode(identity)} is stream-K")
    extents = gemm_extents(problem)
    tiles = ceil_div(extents.m, identity.tile_m) * ceil_div(extents.n, identity.tile_n) * problem.groups
    iterations = tiles * ceil_div(extents.k, identity.tile_k)
    share = stream_k.share(iterations=iterations, workgroups=options.workgroups or resident_workgroups(identity, gpu))
    workgroups = ceil_div(iterations, share)
    buffers = tensor_buffers(problem)
    first, second, result = (buffer.name for buffer in buffers)
    values = stream_k_values(identity, problem, share)
    shape = (workgroups, stream_k.PARTS, identity.tile_m, identity.tile_n)
    nbytes = stream_k.workspace_bytes(tile_m=identity.tile_m, tile_n=identity.tile_n, workgroups=workgroups)
    workspace = Buffer(WORKSPACE, "workspace", "fp32", shape, nbytes)
    pointers = {**dict(zip(POINTERS, (first, second, result), strict=True)), "W": WORKSPACE}
    gemm = bind_launch(entry, (workgroups, 1, 1), pointers, values)
    if share % values["k_tiles"] == 0:
        # No output tile is shared.
        return Plan(identity.arch, problem, (*buffers, workspace), (gemm,), summed_terms=extents.k)
    fix_up = _second_step(fix_up_identity(identity.arch, identity.dtype_d), entry, options)
    grid = reduce_grid(elements=problem.groups * extents.m * extents.n)
    fold = bind_launch(fix_up, grid, {"ws": WORKSPACE, "dw": result}, fix_up_values(identity, problem, share))
    parts = values["k_tiles"] // share + 2
    terms = min(extents.k, share * identity.tile_k)
    return Plan(identity.arch, problem, (*buffers, workspace), (gemm, fold), summed_terms=terms, partial_sums=parts)


def resident_workgroups(identity: Identity, gpu: Target) -> int:
    """Workgroups of a stream-K kernel that the GPU holds at once."""
    accumulators = accumulators_per_lane(
        tile_m=identity.tile_m,
        tile_n=identity.tile_n,
        warp_m=identity.warp_m,
        warp_n=identity.warp_n,
        wave_size=identity.wave_size,
    )
    return stream_k.resident_workgroups(accumulators=accumulators, waves=identity.warp_m * identity.warp_n, gpu=gpu)


def _second_step(wanted: Identity, entry: KernelEntry, options: WgradOptions) -> KernelEntry:
    found = options.helper(wanted) if options.helper else None
    if found is None:
        raise PlanError(f"kernel {encode(entry.identity)} has a second step that the cache lacks: {encode(wanted)}")
    return found


def _two_stage(
    entry: KernelEntry, problem: ConvProblem, options: WgradOptions, degree: int, bind_grid: tuple[int, int, int]
) -> Plan:
    """Zero the replicas, add the slices into them, fold them into dW.

    Slices that commute in each replica give equal bits; one more makes the order of the atomics visible.
    """
    identity = entry.identity
    buffers = tensor_buffers(problem)
    first, second, result = (buffer.name for buffer in buffers)
    reduce = _second_step(reduce_identity(identity.arch, identity.dtype_d, identity.ws_replicas), entry, options)
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
        summed_terms=_slice_terms(identity, extents.k, degree),
        partial_sums=degree + identity.ws_replicas,
        added_to=(WORKSPACE,),
        deterministic=degree <= COMMUTING_SLICES * identity.ws_replicas,
    )
