"""What is said of the plans of many kernels for one problem without making them: time, errors, slices.

The time is an estimate of the clocks that the busiest compute unit spends, from the tile alone:

    workgroups  = tiles of M x tiles of N x groups, dealt evenly over the compute units
    resident    = workgroups that one compute unit holds at once, by its LDS and its registers
    K tiles     = reduction length / tile_k, rounded up
    matrix clk  = multiply-adds of the resident workgroups / what the SIMDs that have a wave do per clk
    memory clk  = 16 per wave-wide access; an access moves the kernel's vector width per lane
    step        = the larger of the two + (the smaller + latency of a load) / resident
    round       = K tiles x step + the stores of the tiles + a fixed start

times the rounds that it takes. Double-buffered loops expose a quarter of the smaller and of the latency. Tiles that
hang over the problem's edge cost like full ones, so waste is part of the estimate; so are idle compute units and narrow
vectors. A reduction whose channels are no multiple of tile_k needs the general K loop, whose address arithmetic counts
as half a load more per load. It ranks, it does not predict. Families put the parts together, and add what is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.runtime.accuracy import COMMUTING_SLICES, Floats, expected_ulps
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.geometry import OTHER_REGISTERS, accumulators_per_lane, gemm_extents, lds_layout
from grids.targets import Target

CLK_PER_WAVE_ACCESS = 16
LATENCY_CLK = 700
START_CLK = 2000
EXPOSED_SHARE = 0.25
#: Of fills and second steps, per compute unit.
BYTES_PER_CLK = 16
GENERAL_LOOP_LOADS = 1.5

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Forecast:
    """One number per kernel: estimated clocks, the expected error in ulps, equal bits in equal runs, and slices.

    The error is that of `aot.runtime.accuracy` for the slices of the reduction that are told here, which is near what a
    plan takes.
    """

    clk: Floats
    expected_ulps: Floats
    deterministic: Mask
    slices: Floats

    def take(self, rows: Ints) -> Forecast:
        """Those of some rows, in their order."""
        return Forecast(self.clk[rows], self.expected_ulps[rows], self.deterministic[rows], self.slices[rows])


#: Of no kernel.
NOTHING = Forecast(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Deal:
    """How work is dealt out: workgroups of one compute unit, those that it has at once, and K tiles of each."""

    per_cu: Any
    resident: Any
    k_tiles: Any


def output_tiles(table: IdentityTable, problem: ConvProblem, merge: Any = 1) -> Floats:
    """Tiles of the result in all groups, `merge` of which share a workgroup."""
    extents = gemm_extents(problem)
    rows = np.ceil(extents.m * merge / table.wide("tile_m"))
    tiles: Floats = rows * np.ceil(extents.n * merge / table.wide("tile_n")) * (problem.groups / merge)
    return tiles


def dealt(table: IdentityTable, problem: ConvProblem, unit: Target, tiles: Floats, slices: Any = 1.0) -> Deal:
    """Every slice of every tile is a workgroup."""
    per_cu = np.maximum(np.ceil(tiles * slices / unit.cus), 1)
    return Deal(per_cu, np.minimum(per_cu, resident(table, unit, problem.direction)), k_tiles(table, problem, slices))


def k_tiles(table: IdentityTable, problem: ConvProblem, slices: Any = 1.0) -> Floats:
    """K tiles of one workgroup; at least one."""
    tiles: Floats = np.maximum(np.ceil(gemm_extents(problem).k / table.wide("tile_k") / slices), 1)
    return tiles


def general_loads(table: IdentityTable, channels: int) -> Floats:
    """What a load counts in the K loop that so many channels need."""
    return np.where(channels % table.wide("tile_k") != 0, GENERAL_LOOP_LOADS, 1.0)


def loop_clk(table: IdentityTable, unit: Target, deal: Deal, loads: Any = 1.0, stores: Any = 1) -> Floats:
    """The estimate of the module's head; `loads` and `stores` are what one of them counts."""
    tile_m, tile_n, tile_k = (table.wide(name).astype(np.float64) for name in ("tile_m", "tile_n", "tile_k"))
    waves = (table.wide("warp_m") * table.wide("warp_n")).astype(np.float64)
    busy_simds = np.minimum(unit.simds, waves * deal.resident)
    matrix = deal.resident * tile_m * tile_n * tile_k / (unit.multiply_adds_per_clk * busy_simds)
    accesses = tile_m * tile_k / _width(table, "a") + tile_n * tile_k / _width(table, "b")
    memory = deal.resident * accesses / unit.wave_size * CLK_PER_WAVE_ACCESS * loads
    overlapped = table.flags("async_dma") | table.flags("unroll_k")
    exposed = np.where(overlapped, EXPOSED_SHARE, 1.0) / deal.resident
    step = np.maximum(matrix, memory) + exposed * (np.minimum(matrix, memory) + LATENCY_CLK)
    store = deal.resident * tile_m * tile_n / _width(table, "c") / unit.wave_size * CLK_PER_WAVE_ACCESS
    clk: Floats = np.ceil(deal.per_cu / deal.resident) * (deal.k_tiles * step + store * stores + START_CLK)
    return clk


def passes_clk(unit: Target, moved_bytes: Any, launches: int) -> Any:
    """Clocks of fills and second steps, which move bytes and are started."""
    return moved_bytes / (unit.cus * BYTES_PER_CLK) + launches * START_CLK


def summed_ulps(problem: ConvProblem, terms: Any, partial_sums: Any = 0, rounded_sums: Any = 1) -> Floats:
    """Expected errors of sums of so many terms; no sum has more terms than the reduction."""
    length = reduction(problem)
    return expected_ulps(
        problem.dtype, terms=np.minimum(terms, length), partial_sums=partial_sums, rounded_sums=rounded_sums
    )


def reduction(problem: ConvProblem) -> int:
    """Terms of one result; at least one."""
    return max(gemm_extents(problem).k, 1)


def whole_reduction(table: IdentityTable, problem: ConvProblem, clk: Floats) -> Forecast:
    """The forecast where one workgroup sums all terms of a result."""
    count = len(table)
    error = summed_ulps(problem, np.full(count, reduction(problem)))
    return Forecast(clk, error, np.ones(count, dtype=np.bool_), np.ones(count))


def commutes(slices: Any, places: Any = 1) -> Mask:
    """Where so many slices, added to this many places by atomics, give equal bits in every order."""
    mask: Mask = slices <= COMMUTING_SLICES * places
    return mask


def resident(table: IdentityTable, unit: Target, direction: str) -> Ints:
    """Workgroups that one compute unit holds; at least one."""
    tile_m, tile_n, warp_m, warp_n = map(table.wide, ("tile_m", "tile_n", "warp_m", "warp_n"))
    lds = lds_layout(
        direction,
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=table.wide("tile_k"),
        cshuffle=table.equals("epilogue", "cshuffle").astype(np.int64),
        async_dma=table.wide("async_dma"),
        unroll_k=table.wide("unroll_k"),
        lds_k_outer=table.wide("lds_k_outer"),
    ).total_bytes
    registers = accumulators(table, unit) + OTHER_REGISTERS
    waves = np.clip(unit.vgprs // registers, 1, unit.waves_per_simd) * unit.simds
    by_registers = waves // (warp_m * warp_n)
    held: Ints = np.maximum(np.minimum(by_registers, unit.lds_bytes // np.maximum(lds, 1)), 1)
    return held


def accumulators(table: IdentityTable, unit: Target) -> Ints:
    """Accumulator registers of a lane."""
    tile_m, tile_n, warp_m, warp_n = map(table.wide, ("tile_m", "tile_n", "warp_m", "warp_n"))
    held: Ints = accumulators_per_lane(
        tile_m=tile_m, tile_n=tile_n, warp_m=warp_m, warp_n=warp_n, wave_size=unit.wave_size
    )
    return held


def _width(table: IdentityTable, operand: str) -> Ints:
    """Elements per lane and access: the vector width, or the chunk where loads go straight to LDS; unset is 1."""
    width = table.wide(f"vector_size_{operand}")
    if operand != "c":
        width = np.maximum(width, table.wide(f"async_chunk_{operand}"))
    return np.maximum(width, 1)
