"""Which of the kernels that serve a problem to take when nobody has measured them.

An estimate of the clocks that the busiest compute unit spends, from the tile alone:

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
as half a load more per load. A kernel that splits its reduction has its workgroups multiplied and its K tiles divided
by the number of slices, as `aot.runtime.promise` has it; it pays for what is zeroed, for atomics, and for a second
launch where there is one. Stream-K workgroups are as many as are resident, and pay for the parts that they leave. It
ranks, it does not predict. Equal estimates are ordered by identity digest, so the choice is the same everywhere.

Kernels whose plans are not accurate enough for the demand come last, whatever their estimate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aot.runtime.accuracy import BY_DEFAULT, Demand
from aot.runtime.plan_wgrad import AUTOMATIC_DEGREE
from aot.runtime.promise import output_tiles, promised, slices_of
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.geometry import OTHER_REGISTERS, accumulators_per_lane, gemm_extents, lds_layout
from grids.targets import Target, target

CLK_PER_WAVE_ACCESS = 16
LATENCY_CLK = 700
START_CLK = 2000
EXPOSED_SHARE = 0.25
#: What an atomic takes of the time of as many stores.
ATOMIC_STORES = 4
#: Of fills and reductions, per compute unit.
BYTES_PER_CLK = 16
GENERAL_LOOP_LOADS = 1.5

Floats = npt.NDArray[np.float64]


def estimated_clk(
    table: IdentityTable,
    problem: ConvProblem,
    arch: str,
    demand: Demand = BY_DEFAULT,
    degree: int = AUTOMATIC_DEGREE,
) -> Floats:
    """The estimate of the module's head for every row; rows are taken to serve the problem."""
    extents, unit = gemm_extents(problem), target(arch)
    tile_m, tile_n, tile_k, waves = (
        column.astype(np.float64)
        for column in (*map(table.wide, ("tile_m", "tile_n", "tile_k")), table.wide("warp_m") * table.wide("warp_n"))
    )
    tiles = output_tiles(table, problem)
    slices = slices_of(table, problem, unit, demand, degree)
    per_cu = np.maximum(np.ceil(tiles * slices / unit.cus), 1)
    streams = table.columns["stream_k"].astype(np.bool_)
    room = _resident(table, unit, problem.direction)
    resident = np.minimum(per_cu, room)
    steps = np.maximum(np.ceil(extents.k / tile_k / slices), 1)
    # Stream-K shares the K tiles of all output tiles evenly.
    per_cu = np.where(streams, room, per_cu)
    resident = np.where(streams, room, resident)
    steps = np.where(streams, np.ceil(np.maximum(tiles * steps / (unit.cus * room), 1)), steps)
    busy_simds = np.minimum(unit.simds, waves * resident)
    matrix = resident * tile_m * tile_n * tile_k / (unit.multiply_adds_per_clk * busy_simds)
    accesses = tile_m * tile_k / _width(table, "a") + tile_n * tile_k / _width(table, "b")
    channels = problem.kpg if problem.direction == "dgrad" else problem.cpg
    general = (channels % table.wide("tile_k") != 0) & (problem.direction != "wgrad")
    memory = resident * accesses / unit.wave_size * CLK_PER_WAVE_ACCESS * np.where(general, GENERAL_LOOP_LOADS, 1.0)
    overlapped = table.columns["async_dma"] | table.columns["unroll_k"]
    exposed = np.where(overlapped, EXPOSED_SHARE, 1.0) / resident
    step = np.maximum(matrix, memory) + exposed * (np.minimum(matrix, memory) + LATENCY_CLK)
    store = resident * tile_m * tile_n / _width(table, "c") / unit.wave_size * CLK_PER_WAVE_ACCESS
    atomics = np.where(slices > 1, ATOMIC_STORES, 1)
    clk: Floats = np.ceil(per_cu / resident) * (steps * step + store * atomics + START_CLK)
    return clk + _around(table, problem, unit) if problem.direction == "wgrad" else clk


def _around(table: IdentityTable, problem: ConvProblem, unit: Target) -> Floats:
    """Clocks of what is done beside the kernel of a backward-weights plan: fills, and a second step."""
    split, two_stage = table.wide("split_k") > 1, table.columns["two_stage"].astype(np.bool_)
    streams = table.columns["stream_k"].astype(np.bool_)
    replicas = 4 * problem.k * problem.y * problem.x * problem.cpg * table.wide("ws_replicas")
    parts = 8 * table.wide("tile_m") * table.wide("tile_n") * unit.cus
    moved = np.where(two_stage, 2 * replicas, np.where(split, problem.w_bytes, np.where(streams, 2 * parts, 0)))
    launches = 2 * two_stage + (split & ~two_stage) + streams
    clks: Floats = moved / (unit.cus * BYTES_PER_CLK) + launches * START_CLK
    return clks


def ranked(
    table: IdentityTable,
    digests: npt.NDArray[np.uint8],
    problem: ConvProblem,
    arch: str,
    demand: Demand = BY_DEFAULT,
    degree: int = AUTOMATIC_DEGREE,
) -> npt.NDArray[np.int64]:
    """Row numbers from best to worst; `digests` has one row of bytes per identity."""
    clk = np.round(estimated_clk(table, problem, arch, demand, degree), 3)
    promise = promised(table, problem, arch, demand, degree)
    words = np.pad(digests, ((0, 0), (0, -digests.shape[1] % 8))).view(">u8")
    order: npt.NDArray[np.int64] = np.lexsort((*words.T[::-1], clk, ~promise.admitted))
    return order


def _width(table: IdentityTable, operand: str) -> npt.NDArray[Any]:
    """Elements per lane and access: the vector width, or the chunk where loads go straight to LDS; unset is 1."""
    width = table.wide(f"vector_size_{operand}")
    if operand != "c":
        width = np.maximum(width, table.wide(f"async_chunk_{operand}"))
    return np.maximum(width, 1)


def _resident(table: IdentityTable, unit: Target, direction: str) -> npt.NDArray[np.int64]:
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
        no_alias=table.wide("cshuffle_no_alias"),
    ).total_bytes
    accumulators = accumulators_per_lane(
        tile_m=tile_m, tile_n=tile_n, warp_m=warp_m, warp_n=warp_n, wave_size=unit.wave_size
    )
    registers = accumulators + OTHER_REGISTERS
    waves = np.clip(unit.vgprs // registers, 1, unit.waves_per_simd) * unit.simds
    by_registers = waves // (warp_m * warp_n)
    held: npt.NDArray[np.int64] = np.maximum(np.minimum(by_registers, unit.lds_bytes // np.maximum(lds, 1)), 1)
    return held
