"""Launch plans of backward-data kernels: all sub-GEMMs in one launch, and what has to be zero before it."""

from __future__ import annotations

from aot.kernels.dgrad_arguments import dgrad_values
from aot.kernels.dgrad_table import records_of, table_words, total_tiles
from aot.runtime.accuracy import Demand
from aot.runtime.forecast import Forecast, dealt, general_loads, loop_clk, output_tiles, whole_reduction
from aot.runtime.plan_data import Buffer, Fill, Plan, Step
from aot.runtime.plan_options import PlanOptions
from aot.runtime.plan_parts import POINTERS, KernelEntry, bind_launch, tensor_buffers
from aot.runtime.reference import reduction_length
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.geometry import dgrad_grid
from grids.targets import Target
from grids.tilde import must_zero_dx


def dgrad_plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions) -> Plan:
    """The plan of a kernel that serves the problem.

    dX is filled first where it has pixels that no sub-GEMM writes, whose gradient is zero.
    """
    del options
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
    launch = bind_launch(entry, grid, pointers, dgrad_values(identity, problem))
    steps = (*fills, launch)
    return Plan(identity.arch, problem, (*buffers, table), steps, summed_terms=reduction_length(problem))


def dgrad_forecast(table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int) -> Forecast:
    """Filters are what decides between the two K loops."""
    del demand, degree
    deal = dealt(table, problem, unit, output_tiles(table, problem))
    clk = loop_clk(table, unit, deal, loads=general_loads(table, problem.kpg))
    return whole_reduction(table, problem, clk)
