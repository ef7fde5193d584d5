"""Small problems that reach the edges of one kernel: a handful per identity, each for a reason.

| name | what it reaches |
|---|---|
| ragged | partial last tiles in M, N and K, more than one tile in M and N; padding; the general K loop |
| planted-nan, planted-inf | ragged with fewer filters and two specials planted: what is masked must not leak |
| uniform | channels a multiple of tile_k (the lean K loop), an odd count of K tiles, strides that differ |
| grouped | three groups, narrow channels, dilation along one axis |
| even | an even count of K tiles, stride and dilation in both axes, M below one tile |
| taps | more filter taps than the lean loop has validity bits for |
| smallest | one pixel, one tap, the fewest channels and filters that the widths allow |

Extents are the least that do it, since a release runs this for every kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import lcm

from aot.runtime.plan_data import PlanError
from cache_schema.identity import IMPLICIT_GEMM, Identity
from cache_schema.problem import ConvProblem


@dataclass(frozen=True, slots=True)
class EdgeCase:
    """A problem, the kind of its operands, and whether a second run has to give the same bits."""

    name: str
    problem: ConvProblem
    inputs: str
    repeat: bool = False


def edge_cases(identity: Identity) -> tuple[EdgeCase, ...]:
    """The cases of one kernel; `PlanError` for a family that has none yet."""
    key = (identity.algorithm, identity.direction)
    if key not in _CASES:
        raise PlanError(f"there are no verification problems for {identity.algorithm} {identity.direction} kernels")
    return tuple(_CASES[key](identity))


def channel_step(identity: Identity) -> int:
    """Channels per group of a forward kernel are a multiple of this."""
    widths = (identity.vector_size_a, identity.vector_size_b, identity.async_chunk_a, identity.async_chunk_b)
    return lcm(*(max(width, 1) for width in widths))


def filter_step(identity: Identity) -> int:
    """Filters per group of a forward kernel are a multiple of this."""
    return max(identity.vector_size_c, 1)


def _image(pixels: int) -> tuple[int, int, int]:
    """Images, rows and columns of an output with a little more than `pixels` pixels, rows and columns unequal."""
    rows = max(2, int((pixels / 2) ** 0.5) - 1)
    columns = max(3, pixels // (2 * rows) + 1)
    if rows == columns:
        columns += 1
    return 2, rows, columns


def _below(extent: int, step: int) -> int:
    """A multiple of `step` below `extent` where there is one, else `step`."""
    return max(step, (extent - 1) // step * step)


def _ragged_channels(step: int, tile_k: int) -> int:
    """Channels with which nine taps fill more than two K tiles and end inside one, unless `step` forbids that."""
    least = (2 * tile_k) // (9 * step) + 1
    return next((step * count for count in range(least, least + tile_k) if 9 * step * count % tile_k), step * least)


def _forward(identity: Identity) -> Iterator[EdgeCase]:
    narrow, filters = channel_step(identity), filter_step(identity)
    lean = lcm(identity.tile_k, narrow)
    base = ConvProblem("fwd", identity.dtype_a, n=1, c=narrow, h=1, w=1, k=filters, y=1, x=1)

    images, rows, columns = _image(identity.tile_m)
    over = identity.tile_n + _below(identity.tile_n, filters) % identity.tile_n
    ragged = replace(
        base,
        n=images,
        c=_ragged_channels(narrow, identity.tile_k),
        h=rows,
        w=columns,
        k=over,
        y=3,
        x=3,
        pad_h=1,
        pad_w=1,
    )
    yield EdgeCase("ragged", ragged, "uniform", repeat=True)
    planted = replace(ragged, k=_below(identity.tile_n, filters))
    yield EdgeCase("planted-nan", planted, "nan")
    yield EdgeCase("planted-inf", planted, "inf")

    yield EdgeCase(
        "uniform",
        replace(base, n=2, c=lean, h=9, w=7, k=_below(identity.tile_n, filters), y=3, x=3, stride_h=2, pad_w=1),
        "ints",
    )
    if identity.grouped:
        yield EdgeCase(
            "grouped",
            replace(base, n=2, c=9 * narrow, h=4, w=9, k=9 * filters, y=1, x=3, pad_w=2, dilation_w=2, groups=3),
            "ints",
        )
    yield EdgeCase(
        "even",
        replace(
            base, n=1, c=2 * lean, h=7, w=9, k=filters, y=2, x=2, pad_h=1, pad_w=2,
            stride_h=3, stride_w=2, dilation_h=2, dilation_w=3,
        ),
        "uniform",
    )  # fmt: skip
    yield EdgeCase("taps", replace(base, n=1, c=narrow, h=5, w=8, y=5, x=7, pad_h=2, pad_w=2), "onehot")
    yield EdgeCase("smallest", base, "ints")


_CASES: dict[tuple[str, str], Callable[[Identity], Iterator[EdgeCase]]] = {(IMPLICIT_GEMM, "fwd"): _forward}
