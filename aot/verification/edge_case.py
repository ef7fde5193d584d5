"""What an edge problem is, and the extents that make one."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.problem import ConvProblem


@dataclass(frozen=True, slots=True)
class EdgeCase:
    """A problem, the kind of its operands, and whether a second run has to give the same bits."""

    name: str
    problem: ConvProblem
    inputs: str
    repeat: bool = False


def image_above(pixels: int) -> tuple[int, int, int]:
    """Images, rows and columns of an output with a little more than `pixels` pixels, rows and columns unequal."""
    rows = max(2, int((pixels / 2) ** 0.5) - 1)
    columns = max(3, pixels // (2 * rows) + 1)
    if rows == columns:
        columns += 1
    return 2, rows, columns


def multiple_below(extent: int, step: int) -> int:
    """A multiple of `step` below `extent` where there is one, else `step`."""
    return max(step, (extent - 1) // step * step)


def ragged_channels(step: int, tile_k: int) -> int:
    """Channels with which nine taps fill more than two K tiles and end inside one, unless `step` forbids that."""
    least = (2 * tile_k) // (9 * step) + 1
    return next((step * count for count in range(least, least + tile_k) if 9 * step * count % tile_k), step * least)
