"""Parts of output tiles as stream-K workgroups leave them, with made-up numbers, for the kernel that adds them up.

Workgroups have two K tiles each and output tiles five, so every output tile is the work of three workgroups: one that
begins it, one in its middle, and one that ends it. Places that no workgroup writes hold NaN.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from aot.kernels.wgrad_arguments import fix_up_values
from aot.runtime.reference import tensor_shape
from cache_schema.problem import ConvProblem
from grids.stream_k import PARTS

#: Tile of the kernel that is taken to have left the parts; its workgroups' share, and its output tiles' K tiles.
TILE_M, TILE_N, TILE_K, SHARE, K_TILES = 16, 32, 16, 2, 5
#: Parts of every output tile.
PER_TILE = 3

Floats = npt.NDArray[np.float32]


def values(problem: ConvProblem) -> dict[str, int]:
    """Arguments of the adding kernel, for a reduction of K_TILES."""
    launched = replace(problem, n=K_TILES * TILE_K, h=problem.y, w=problem.x)
    return fix_up_values((TILE_M, TILE_N, TILE_K), launched, SHARE)


def places(problem: ConvProblem) -> int:
    """Places of the workspace."""
    return PARTS * -(-_tiles(problem) * K_TILES // SHARE)


def _grid(problem: ConvProblem) -> tuple[int, int]:
    taps = problem.y * problem.x * problem.cpg
    return -(-problem.kpg // TILE_M), -(-taps // TILE_N)


def _tiles(problem: ConvProblem) -> int:
    along_m, along_n = _grid(problem)
    return problem.groups * along_m * along_n


def scattered(parts: Floats, problem: ConvProblem) -> Floats:
    """The workspace, [place, row, column], for numbers [part, element of dW]."""
    shape = tensor_shape(problem, "dw")
    along_m, along_n = _grid(problem)
    columns = shape[1] * shape[2] * shape[3]
    whole = np.full((len(parts), problem.groups, along_m * TILE_M, along_n * TILE_N), np.nan, dtype=np.float32)
    whole[:, :, : problem.kpg, :columns] = parts.reshape(len(parts), problem.groups, problem.kpg, columns)
    tiled = whole.reshape(len(parts), problem.groups, along_m, TILE_M, along_n, TILE_N).swapaxes(3, 4)
    tiled = tiled.reshape(len(parts), -1, TILE_M, TILE_N)
    workspace = np.full((places(problem), TILE_M, TILE_N), np.nan, dtype=np.float32)
    for tile in range(tiled.shape[1]):
        first = tile * K_TILES // SHARE
        workspace[PARTS * first + 1] = tiled[0, tile]
        for part in range(1, len(parts)):
            workspace[PARTS * (first + part)] = tiled[part, tile]
    return workspace
