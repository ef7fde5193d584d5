"""Launch plans of backward-weights kernels: degrees, what has to be zero first, workspaces, the second stage."""

from __future__ import annotations

from collections.abc import Sequence

from aot.kernels.wgrad_arguments import fix_up_values, reduce_values, stream_k_values, wgrad_values
from aot.runtime.accuracy import COMMUTING_SLICES
from aot.runtime.plan_data import Buffer, Fill, Launch, Plan, PlanError
from aot.runtime.plan_options import AUTOMATIC_DEGREE, PlanOptions
from aot.runtime.plan_parts import POINTERS, KernelEntry, bind_launch, tensor_buffers
from cache_schema.errors import RequestError
from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from grids import split_k, stream_k
from grids.families import family_of
from grids.gemm.records import Wgrad
from grids.geometry import MAX_GRID, accumulators_per_lane, ceil_div, gemm_extents, launch_grid, reduce_grid
from grids.targets import Target, target

WORKSPACE = "workspace"


class SplitDegreeError(RequestError):
    """A split degree at which a kernel cannot be launched."""


def direct_plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions) -> Plan:
    """One slice of the reduction, stored to dW; `SplitDegreeError` for more."""
    identity: Wgrad = entry.identity
    if _given_degree(identity, problem, options) not in (None, 1):
        raise SplitDegreeError(
            f"split degree {options.split_k}: kernel {encode(identity)} does not split its reduction"
        )
    buffers = tensor_buffers(problem)
    names = [buffer.name for buffer in buffers]
    launch = _gemm(entry, problem, names, degree=1)
    return Plan(identity.arch, problem, buffers, (launch,), summed_terms=gemm_extents(problem).k)


def atomic_plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions) -> Plan:
    """Zero dW and add the slices to it; `SplitDegreeError` for a degree that cannot be launched."""
    identity: Wgrad = entry.identity
    degree = _slices(identity, problem, options, options.demand.atomic_slices)
    buffers, length = tensor_buffers(problem), gemm_extents(problem).k
    names = [buffer.name for buffer in buffers]
    launch = _gemm(entry, problem, names, degree)
    filled = split_k.filled_slices(gemm_k=length, tile_k=identity.tile_k, degree=degree)
    return Plan(
        identity.arch,
        problem,
        buffers,
        (Fill(names[2]), launch),
        summed_terms=_slice_terms(identity, length, degree),
        rounded_sums=filled,
        added_to=(names[2],),
        deterministic=filled <= COMMUTING_SLICES,
    )


def two_stage_plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions) -> Plan:
    """Zero the replicas, add the slices into them, fold them into dW.

    Slices that commute in each replica give equal bits; one more makes the order of the atomics visible. Raises
    `SplitDegreeError` for a degree that cannot be launched, and `PlanError` when the second stage is missing.
    """
    identity: Wgrad = entry.identity
    degree = _slices(identity, problem, options, options.demand.replica_slices(identity.ws_replicas))
    buffers = tensor_buffers(problem)
    first, second, result = (buffer.name for buffer in buffers)
    (reduce,) = _second_steps(entry, options)
    extents = gemm_extents(problem)
    nbytes = split_k.two_stage_workspace_bytes(problem, identity.ws_replicas)
    shape = (problem.groups, identity.ws_replicas, extents.m, extents.n)
    workspace = Buffer(WORKSPACE, "workspace", "fp32", shape, nbytes)
    gemm = _gemm(entry, problem, (first, second, WORKSPACE), degree)
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


def stream_k_plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions) -> Plan:
    """As many workgroups as the GPU holds at once; a second kernel adds up what they leave of shared output tiles.

    Raises `SplitDegreeError` for a number of slices, and `PlanError` when the second kernel is missing.
    """
    identity: Wgrad = entry.identity
    gpu = target(identity.arch)
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
    (fix_up,) = _second_steps(entry, options)
    grid = reduce_grid(elements=problem.groups * extents.m * extents.n)
    tile = identity.tile_m, identity.tile_n, identity.tile_k
    fold = bind_launch(fix_up, grid, {"ws": WORKSPACE, "dw": result}, fix_up_values(tile, problem, share))
    parts = values["k_tiles"] // share + 2
    terms = min(extents.k, share * identity.tile_k)
    return Plan(identity.arch, problem, (*buffers, workspace), (gemm, fold), summed_terms=terms, partial_sums=parts)


def resident_workgroups(identity: Wgrad, gpu: Target) -> int:
    """Workgroups of a stream-K kernel that the GPU holds at once."""
    accumulators = accumulators_per_lane(
        tile_m=identity.tile_m,
        tile_n=identity.tile_n,
        warp_m=identity.warp_m,
        warp_n=identity.warp_n,
        wave_size=identity.wave_size,
    )
    return stream_k.resident_workgroups(accumulators=accumulators, waves=identity.warp_m * identity.warp_n, gpu=gpu)


def _gemm(entry: KernelEntry, problem: ConvProblem, names: Sequence[str], degree: int) -> Launch:
    """The launch of a kernel whose workgroups each have a slice of their own; `names` are those of its buffers."""
    identity: Wgrad = entry.identity
    extents, merge = gemm_extents(problem), identity.group_merge
    grid = launch_grid(
        gemm_m=extents.m * merge,
        gemm_n=extents.n * merge,
        tile_m=identity.tile_m,
        tile_n=identity.tile_n,
        groups=problem.groups // merge,
        slices=degree,
    )
    pointers = dict(zip(POINTERS, names, strict=True))
    return bind_launch(entry, grid, pointers, wgrad_values(identity, problem, degree))


def _slice_terms(identity: Wgrad, gemm_k: int, degree: int) -> int:
    return min(gemm_k, split_k.slice_extent(gemm_k=gemm_k, tile_k=identity.tile_k, degree=degree))


def _slices(identity: Wgrad, problem: ConvProblem, options: PlanOptions, most: int) -> int:
    """The degree to launch at; a wanted one is taken as it is, though slices without a K tile then add nothing."""
    given = _given_degree(identity, problem, options)
    return given or split_k.automatic_degree(identity, problem, target(identity.arch), most)


def _given_degree(identity: Wgrad, problem: ConvProblem, options: PlanOptions) -> int | None:
    """The degree that is asked for, None for the automatic one."""
    wanted = options.split_k
    if wanted == AUTOMATIC_DEGREE:
        return None
    if wanted < 1:
        raise SplitDegreeError(f"split degree {wanted}: it is {AUTOMATIC_DEGREE} for the automatic one, or at least 1")
    groups = problem.groups // identity.group_merge
    if groups * wanted > MAX_GRID:
        raise SplitDegreeError(f"split degree {wanted}: {groups} groups times it exceed grid z of {MAX_GRID}")
    return wanted


def _second_steps(entry: KernelEntry, options: PlanOptions) -> list[KernelEntry]:
    """The other kernels that the plan of a kernel launches."""
    found = []
    for wanted in family_of(entry.identity).steps(entry.identity):
        helper = options.helper(wanted) if options.helper else None
        if helper is None:
            raise PlanError(f"kernel {encode(entry.identity)} has a second step that the cache lacks: {encode(wanted)}")
        found.append(helper)
    return found
