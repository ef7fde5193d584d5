"""What an edge problem is, and the extents that make one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aot.runtime.plan_options import AUTOMATIC_DEGREE
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from grids.gemm.records import Gemm


@dataclass(frozen=True, slots=True)
class EdgeCase:
    """A problem, the kind of its operands, and how to run it.

    A case that repeats is run twice, with another order of waves and workgroups. `degree` is the number of slices for
    kernels that are told one, or of workgroups for stream-K kernels, -1 for the automatic one.
    """

    name: str
    problem: ConvProblem
    inputs: str
    repeat: bool = False
    degree: int = AUTOMATIC_DEGREE
    launch: tuple[tuple[str, Any], ...] = ()


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


def ragged_channels(step: int, tile: int, least: int) -> int:
    """Channels with which nine taps fill more than `least` elements and end inside a tile, unless `step` forbids it."""
    first = least // (9 * step) + 1
    return next((step * count for count in range(first, first + tile) if 9 * step * count % tile), step * first)


def channel_widths(identity: Gemm) -> tuple[int, ...]:
    """What runs of channels must be multiples of for a GEMM kernel: all widths together, then each operand's."""
    widths = identity.vector_size_a, identity.vector_size_b, identity.vector_size_c
    return (sum(widths) + identity.async_chunk_a + identity.async_chunk_b, *widths)


def no_widths(identity: Identity) -> tuple[int, ...]:
    """A kernel for any numbers of channels."""
    del identity
    return ()
