"""What the plans of many kernels for one problem would promise, without making them.

The slices of a split reduction are near those of `grids.split_k.automatic_degree` and limited alike; the errors are
those of `aot.runtime.accuracy` for these slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aot.runtime.accuracy import COMMUTING_SLICES, Demand, Floats, expected_ulps
from aot.runtime.plan_wgrad import AUTOMATIC_DEGREE
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids import stream_k
from grids.geometry import accumulators_per_lane, gemm_extents
from grids.split_k import FULL_WAVES_PER_CU, MIN_TILES_PER_LONG_SLICE, UNGROUPED_BLOCKS_PER_CU
from grids.targets import Target, target

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Promise:
    """Per kernel: the expected error of its plan in ulps, equal bits in equal runs, and whether it may be chosen."""

    expected: Floats
    deterministic: Mask
    admitted: Mask


def promised(table: IdentityTable, problem: ConvProblem, arch: str, demand: Demand, degree: int) -> Promise:
    """One answer per row; rows are taken to serve the problem."""
    slices = slices_of(table, problem, target(arch), demand, degree)
    length, tile_k = max(gemm_extents(problem).k, 1), table.wide("tile_k")
    two_stage = table.columns["two_stage"].astype(np.bool_)
    rounded = np.where(two_stage, 1, slices)
    if problem.direction == "dgrad":
        rounded = table.wide("split_k")
    k_tiles = np.ceil(length / tile_k)
    share = np.where(table.columns["stream_k"].astype(np.bool_), _share(table, problem, arch), k_tiles)
    terms = np.minimum(np.ceil(np.minimum(k_tiles / slices, share)) * tile_k, length)
    replicas = table.wide("ws_replicas")
    parts = np.where(two_stage, slices + replicas, np.where(share < k_tiles, k_tiles / share + 2, 0))
    expected = expected_ulps(problem.dtype, terms=terms, partial_sums=parts, rounded_sums=rounded)
    deterministic: Mask = np.where(two_stage, slices <= COMMUTING_SLICES * replicas, rounded <= COMMUTING_SLICES)
    return Promise(expected, deterministic, demand.admits(expected, deterministic))


def output_tiles(table: IdentityTable, problem: ConvProblem) -> Floats:
    """Tiles of the result in all groups."""
    extents, merge = gemm_extents(problem), np.maximum(table.wide("group_merge"), 1)
    rows = np.ceil(extents.m * merge / table.wide("tile_m"))
    tiles: Floats = rows * np.ceil(extents.n * merge / table.wide("tile_n")) * (problem.groups / merge)
    return tiles


def slices_of(table: IdentityTable, problem: ConvProblem, unit: Target, demand: Demand, degree: int) -> Floats:
    """Slices of the reduction, `degree` of them where it is given; 1 where it is not split."""
    split = (table.wide("split_k") > 1) & (problem.direction == "wgrad")
    if degree != AUTOMATIC_DEGREE:
        return np.where(split, float(max(degree, 1)), 1.0)
    tiles = output_tiles(table, problem)
    k_tiles = np.ceil(gemm_extents(problem).k / table.wide("tile_k"))
    full = np.maximum(FULL_WAVES_PER_CU // (table.wide("warp_m") * table.wide("warp_n")), 1) * unit.cus
    long = np.minimum(full // tiles, k_tiles // MIN_TILES_PER_LONG_SLICE)
    wanted = np.maximum(UNGROUPED_BLOCKS_PER_CU * unit.cus // tiles, long)
    wanted = np.minimum(np.maximum(wanted, 2), np.maximum(k_tiles, 1))
    two_stage = table.columns["two_stage"].astype(np.bool_)
    most = np.where(two_stage, demand.replica_slices(table.wide("ws_replicas")), demand.atomic_slices)
    return np.where(split, np.minimum(wanted, most), 1.0)


def _share(table: IdentityTable, problem: ConvProblem, arch: str) -> Floats:
    """K tiles of one stream-K workgroup."""
    unit = target(arch)
    accumulators = accumulators_per_lane(
        tile_m=table.wide("tile_m"),
        tile_n=table.wide("tile_n"),
        warp_m=table.wide("warp_m"),
        warp_n=table.wide("warp_n"),
        wave_size=unit.wave_size,
    )
    waves = table.wide("warp_m") * table.wide("warp_n")
    workgroups = stream_k.resident_workgroups(accumulators=accumulators, waves=waves, gpu=unit)
    iterations = output_tiles(table, problem) * np.ceil(gemm_extents(problem).k / table.wide("tile_k"))
    share: Floats = np.maximum(np.ceil(iterations / workgroups), 1)
    return share
