"""The half that builds, plans and checks, out of parts of the forward kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aot import families
from aot.family import KernelFamily, Offer
from aot.kernels.forward import emit_forward
from aot.kernels.forward_values import forward_values
from aot.kernels.source import KernelSource
from aot.runtime.accuracy import Demand
from aot.runtime.forecast import Forecast, whole_reduction
from aot.runtime.plan_data import Plan
from aot.runtime.plan_options import PlanOptions
from aot.runtime.plan_parts import POINTERS, KernelEntry, bind_launch, tensor_buffers
from aot.verification.edge_case import EdgeCase
from aot.verification.edges_forward import forward_cases
from aot.verification.launch_paths import LaunchPaths
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids import families as grid_families
from grids.families.implicit_gemm import ImplicitGemm
from grids.geometry import gemm_extents, launch_grid
from grids.targets import Target, target
from tests.toy_family.grid import FAMILY, WIDTH, Toy


def _gemm(toy: Toy) -> ImplicitGemm:
    """The forward kernel that a toy is."""
    return ImplicitGemm(
        toy.arch, toy.dtype_a, toy.dtype_b, toy.dtype_d, tile_m=toy.edge, tile_n=toy.edge, tile_k=32, warp_m=1,
        warp_n=1, warp_tile_m=16, warp_tile_n=16, warp_tile_k=target(toy.arch).atom_k(toy.dtype_a, 16),
        pipeline="compv3" if toy.eager else "mem", vector_size_a=WIDTH, vector_size_b=WIDTH, vector_size_c=1,
    )  # fmt: skip


def _emit(toy: Toy, flavor: str) -> KernelSource:
    return emit_forward(_gemm(toy), flavor)


def _edge_cases(toy: Toy) -> Iterator[EdgeCase]:
    return (case for case in forward_cases(_gemm(toy)) if case.problem.groups == 1)


def _plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions) -> Plan:
    del options
    toy: Toy = entry.identity
    extents, buffers = gemm_extents(problem), tensor_buffers(problem)
    grid = launch_grid(
        gemm_m=extents.m, gemm_n=extents.n, tile_m=toy.edge, tile_n=toy.edge, groups=problem.groups, slices=1
    )
    pointers = {pointer: buffer.name for pointer, buffer in zip(POINTERS, buffers, strict=True)}
    launch = bind_launch(entry, grid, pointers, forward_values(_gemm(toy), problem))
    return Plan(toy.arch, problem, buffers, (launch,), summed_terms=extents.k)


def _forecast(table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int) -> Forecast:
    del demand, degree
    return whole_reduction(table, problem, problem.flops / unit.cus / np.square(table.wide("edge")))


def _widths(toy: Toy) -> tuple[int, ...]:
    del toy
    return (WIDTH,)


KERNELS = KernelFamily(
    name="toy",
    emit=_emit,
    edge_cases=_edge_cases,
    widths=_widths,
    role=Offer(_plan, _forecast, LaunchPaths()),
)


def register() -> None:
    """In a worker, which lives no longer than what it is needed for."""
    grid_families.add(FAMILY)
    families.add(KERNELS)
