"""The limits of a launch: exactly what HIP takes."""

from __future__ import annotations

import pytest

from aot.runtime.launch_limits import check_launch
from aot.runtime.plan_data import Dim3, PlanError

BLOCK = (256, 1, 1)


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), BLOCK),
        ((1, 65535, 65535), BLOCK),
        ((2**24 - 1, 1, 1), BLOCK),
        ((2**22 - 1, 65535, 65535), (1024, 1, 1)),
        ((2**31 - 1, 1, 1), (2, 1, 1)),
    ],
)
def test_the_largest_launches(grid: Dim3, block: Dim3) -> None:
    """A grid at every limit is launched."""
    check_launch("kernel", grid, block)


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((1, 65536, 1), BLOCK, "grid of 1 x 65536 x 1"),
        ((1, 1, 65536), BLOCK, "grid of 1 x 1 x 65536"),
        ((2**31, 1, 1), (1, 1, 1), "grid of 2147483648 x 1 x 1"),
        ((0, 1, 1), BLOCK, "grid of 0 x 1 x 1"),
        ((1, 0, 1), BLOCK, "grid of 1 x 0 x 1"),
        ((2**24, 1, 1), BLOCK, "16777216 x 256 threads along x"),
        ((2**22, 1, 1), (1024, 1, 1), "4194304 x 1024 threads along x"),
    ],
)
def test_the_smallest_that_are_refused(grid: Dim3, block: Dim3, message: str) -> None:
    """One more along any axis is an error of the plan, with the kernel's name and the limit."""
    with pytest.raises(PlanError, match=rf"kernel rocke_1: .*{message}.*; HIP takes"):
        check_launch("rocke_1", grid, block)
