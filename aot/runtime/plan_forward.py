"""Launch plans of forward kernels: one launch."""

from __future__ import annotations

from aot.kernels.forward_values import forward_values
from aot.runtime.accuracy import Demand
from aot.runtime.forecast import Forecast, dealt, general_loads, loop_clk, output_tiles, whole_reduction
from aot.runtime.plan_data import Plan
from aot.runtime.plan_options import PlanOptions
from aot.runtime.plan_parts import POINTERS, KernelEntry, bind_launch, tensor_buffers
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.geometry import gemm_extents, launch_grid
from grids.targets import Target


def forward_plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions) -> Plan:
    """The plan of a kernel that serves the problem."""
    del options
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
    launch = bind_launch(entry, grid, pointers, forward_values(identity, problem))
    return Plan(identity.arch, problem, buffers, (launch,), summed_terms=extents.k)


def forward_forecast(table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int) -> Forecast:
    """Channels of the input are what decides between the two K loops."""
    del demand, degree
    deal = dealt(table, problem, unit, output_tiles(table, problem))
    clk = loop_clk(table, unit, deal, loads=general_loads(table, problem.cpg))
    return whole_reduction(table, problem, clk)
