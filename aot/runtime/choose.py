"""Which of the kernels that serve a problem to take when nobody has measured them.

An estimate of the clocks that the busiest compute unit spends, from the tile alone:

    workgroups  = tiles of M x tiles of N x groups, dealt evenly over the compute units
    K tiles     = reduction length / tile_k, rounded up
    matrix clk  = tile_m tile_n tile_k / (multiply-adds per clk of the SIMDs that have a wave)
    memory clk  = 16 per wave-wide load; a load moves the kernel's vector width per lane
    workgroup   = K tiles x (matrix + memory clk) + the stores of the tile, likewise + a fixed start

Where the loop is double-buffered the smaller of matrix and memory counts for a quarter, being mostly hidden. Tiles that
hang over the problem's edge cost like full ones, so waste is part of the estimate; so are idle compute units and narrow
vectors. A reduction whose channels are no multiple of tile_k needs the general K loop, whose address arithmetic counts
as half a load more per load. It ranks, it does not predict. Equal estimates are ordered by identity digest, so the
choice is the same everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.geometry import gemm_extents
from grids.targets import target

#: Dense 16-bit multiply-adds per clk of one SIMD (CDNA3 and CDNA4: 8192 and 16384 in the 32 clk of a 32x32 atom).
MULTIPLY_ADDS_PER_CLK = {"gfx942": 256, "gfx950": 512}
LANES = 64
SIMDS_PER_CU = 4
CLK_PER_WAVE_ACCESS = 16
START_CLK = 2000
HIDDEN_SHARE = 0.25
GENERAL_LOOP_LOADS = 1.5

Floats = npt.NDArray[np.float64]


def estimated_clk(table: IdentityTable, problem: ConvProblem, arch: str) -> Floats:
    """The estimate of the module's head for every row; rows are taken to serve the problem."""
    extents, unit = gemm_extents(problem), target(arch)
    tile_m, tile_n, tile_k = (table.wide(name).astype(np.float64) for name in ("tile_m", "tile_n", "tile_k"))
    waves = (table.wide("warp_m") * table.wide("warp_n")).astype(np.float64)
    merge = np.maximum(table.wide("group_merge"), 1)
    tiles = np.ceil(extents.m * merge / tile_m) * np.ceil(extents.n * merge / tile_n) * (problem.groups / merge)
    per_cu = np.ceil(tiles / unit.cus)
    steps = np.maximum(np.ceil(extents.k / tile_k), 1)
    busy_simds = np.minimum(SIMDS_PER_CU, waves * per_cu)
    matrix = tile_m * tile_n * tile_k / (MULTIPLY_ADDS_PER_CLK[arch] * busy_simds)
    accesses = tile_m * tile_k / _width(table, "a") + tile_n * tile_k / _width(table, "b")
    channels = problem.kpg if problem.direction == "dgrad" else problem.cpg
    general = (channels % table.wide("tile_k") != 0) & (problem.direction != "wgrad")
    memory = accesses / LANES * CLK_PER_WAVE_ACCESS * np.where(general, GENERAL_LOOP_LOADS, 1.0)
    overlapped = table.columns["async_dma"] | table.columns["unroll_k"]
    smaller = np.minimum(matrix, memory)
    step = np.maximum(matrix, memory) + smaller * np.where(overlapped, HIDDEN_SHARE, 1.0)
    store = tile_m * tile_n / _width(table, "c") / LANES * CLK_PER_WAVE_ACCESS
    clk: Floats = per_cu * (steps * step + store + START_CLK)
    return clk


def _width(table: IdentityTable, operand: str) -> npt.NDArray[Any]:
    """Elements per lane and access: the vector width, or the chunk where loads go straight to LDS; unset is 1."""
    width = table.wide(f"vector_size_{operand}")
    if operand != "c":
        width = np.maximum(width, table.wide(f"async_chunk_{operand}"))
    return np.maximum(width, 1)


def ranked(
    table: IdentityTable, digests: npt.NDArray[np.uint8], problem: ConvProblem, arch: str
) -> npt.NDArray[np.int64]:
    """Row numbers from best to worst estimate; `digests` has one row of bytes per identity."""
    clk = np.round(estimated_clk(table, problem, arch), 3)
    by_digest = np.lexsort(digests.T[::-1])
    order: npt.NDArray[np.int64] = by_digest[np.argsort(clk[by_digest], kind="stable")]
    return order
