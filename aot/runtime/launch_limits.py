"""What `hipModuleLaunchKernel` refuses, as HIP's sources check it before any launch."""

from __future__ import annotations

from aot.runtime.plan_data import Dim3, PlanError
from grids.geometry import MAX_GRID

#: Workgroups along x: HIP compares with the greatest i32.
_MAX_GRID_X = 2**31 - 1
#: Threads along x in the whole grid: a u32 in the dispatch packet.
_MAX_THREADS_X = 2**32 - 1


def check_launch(symbol: str, grid: Dim3, block: Dim3) -> None:
    """Raise PlanError for a grid, in workgroups, or a block, in threads, that HIP does not launch."""
    x, y, z = grid
    if not (0 < x <= _MAX_GRID_X and 0 < y <= MAX_GRID and 0 < z <= MAX_GRID):
        most = f"1 to {_MAX_GRID_X} x {MAX_GRID} x {MAX_GRID}"
        raise PlanError(f"kernel {symbol}: a grid of {x} x {y} x {z} workgroups; HIP takes {most}")
    if x * block[0] > _MAX_THREADS_X:
        raise PlanError(f"kernel {symbol}: {x} x {block[0]} threads along x; HIP takes {_MAX_THREADS_X}")
