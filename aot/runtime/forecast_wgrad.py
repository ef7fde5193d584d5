"""Forecasts of backward-weights kernels.

A kernel that splits its reduction has its workgroups multiplied and its K tiles divided by the number of slices, which
is near that of `grids.split_k.automatic_degree` and limited alike; it pays for what is zeroed, for atomics, and for a
second launch where there is one. Stream-K workgroups are as many as are resident, share the K tiles of all output tiles
evenly, and pay for the parts that they leave.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.runtime.accuracy import Demand, Floats
from aot.runtime.forecast import (
    Deal,
    Forecast,
    accumulators,
    commutes,
    dealt,
    k_tiles,
    loop_clk,
    output_tiles,
    passes_clk,
    reduction,
    resident,
    summed_ulps,
    whole_reduction,
)
from aot.runtime.plan_options import AUTOMATIC_DEGREE
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids import stream_k
from grids.geometry import gemm_extents
from grids.split_k import (
    FULL_WAVES_PER_CU,
    MIN_TILES_PER_LONG_SLICE,
    UNGROUPED_BLOCKS_PER_CU,
    two_stage_workspace_bytes,
)
from grids.targets import Target

#: What an atomic takes of the time of as many stores.
ATOMIC_STORES = 4


def direct_forecast(table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int) -> Forecast:
    """One slice, stored directly."""
    del demand, degree
    deal = dealt(table, problem, unit, output_tiles(table, problem))
    return whole_reduction(table, problem, loop_clk(table, unit, deal))


def atomic_forecast(table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int) -> Forecast:
    """Slices are added to dW in 16 bits, which is zeroed before."""
    tiles = output_tiles(table, problem)
    slices = _slices(table, problem, unit, tiles, demand.atomic_slices, degree)
    clk = _split_clk(table, problem, unit, tiles, slices) + passes_clk(unit, problem.w_bytes, launches=1)
    error = summed_ulps(problem, _slice_terms(table, problem, slices), rounded_sums=slices)
    return Forecast(clk, error, commutes(slices), slices)


def two_stage_forecast(
    table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int
) -> Forecast:
    """Slices are added to f32 replicas, which are zeroed before and read again by the second step."""
    tiles = output_tiles(table, problem, np.maximum(table.wide("group_merge"), 1))
    replicas = table.wide("ws_replicas")
    slices = _slices(table, problem, unit, tiles, demand.replica_slices(replicas), degree)
    moved = 2 * two_stage_workspace_bytes(problem, 1) * replicas
    clk = _split_clk(table, problem, unit, tiles, slices) + passes_clk(unit, moved, launches=2)
    error = summed_ulps(problem, _slice_terms(table, problem, slices), partial_sums=slices + replicas)
    return Forecast(clk, error, commutes(slices, replicas), slices)


def stream_k_forecast(
    table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int
) -> Forecast:
    """Workgroups fill the GPU; each leaves two parts of output tiles to the second step."""
    del demand, degree
    tiles, room = output_tiles(table, problem), resident(table, unit, problem.direction)
    each = np.ceil(np.maximum(tiles * k_tiles(table, problem) / (unit.cus * room), 1))
    whole_gpu = np.full(len(table), unit.cus, dtype=np.int64)
    parts = stream_k.workspace_bytes(tile_m=table.wide("tile_m"), tile_n=table.wide("tile_n"), workgroups=whole_gpu)
    clk = loop_clk(table, unit, Deal(room, room, each)) + passes_clk(unit, 2 * parts, launches=1)
    whole = np.ceil(reduction(problem) / table.wide("tile_k"))
    share = _share(table, problem, unit, tiles)
    terms = np.ceil(np.minimum(whole, share)) * table.wide("tile_k")
    error = summed_ulps(problem, terms, partial_sums=np.where(share < whole, whole / share + 2, 0))
    count = len(table)
    return Forecast(clk, error, np.ones(count, dtype=np.bool_), np.ones(count))


def _split_clk(table: IdentityTable, problem: ConvProblem, unit: Target, tiles: Floats, slices: Floats) -> Floats:
    stores = np.where(slices > 1, ATOMIC_STORES, 1)
    return loop_clk(table, unit, dealt(table, problem, unit, tiles, slices), stores=stores)


def _slice_terms(table: IdentityTable, problem: ConvProblem, slices: Floats) -> Floats:
    """Terms of one slice, in whole K tiles."""
    tile_k = table.wide("tile_k")
    terms: Floats = np.ceil(np.ceil(reduction(problem) / tile_k) / slices) * tile_k
    return terms


def _slices(table: IdentityTable, problem: ConvProblem, unit: Target, tiles: Floats, most: Any, degree: int) -> Floats:
    """Slices of the reduction, `degree` of them where it is given."""
    if degree != AUTOMATIC_DEGREE:
        return np.full(len(table), float(max(degree, 1)))
    length = np.ceil(gemm_extents(problem).k / table.wide("tile_k"))
    full = np.maximum(FULL_WAVES_PER_CU // (table.wide("warp_m") * table.wide("warp_n")), 1) * unit.cus
    long = np.minimum(full // tiles, length // MIN_TILES_PER_LONG_SLICE)
    wanted = np.maximum(UNGROUPED_BLOCKS_PER_CU * unit.cus // tiles, long)
    wanted = np.minimum(np.maximum(wanted, 2), np.maximum(length, 1))
    slices: Floats = np.minimum(wanted, most)
    return slices


def _share(table: IdentityTable, problem: ConvProblem, unit: Target, tiles: Floats) -> Floats:
    """K tiles of one stream-K workgroup."""
    waves = table.wide("warp_m") * table.wide("warp_n")
    workgroups = stream_k.resident_workgroups(accumulators=accumulators(table, unit), waves=waves, gpu=unit)
    iterations = tiles * np.ceil(gemm_extents(problem).k / table.wide("tile_k"))
    share: Floats = np.maximum(np.ceil(iterations / workgroups), 1)
    return share
