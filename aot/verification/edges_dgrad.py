"""Edge problems of backward-data kernels. M runs over pixels of dX, N over input channels, K over taps and filters.

| name | what it reaches |
|---|---|
| ragged | partial last tiles in M, N and K, more than one tile in M and N; padding; the general K loop |
| planted-nan, planted-inf | the same with fewer channels and two specials planted in dY |
| uniform | filters a multiple of tile_k (the lean K loop), an odd count of K tiles |
| grouped | three groups, few filters |
| taps | more filter taps than the lean loop has validity bits for |
| smallest | one pixel, one tap, the fewest channels and filters that the widths allow |
| strided | stride 2 over odd extents: four sub-GEMMs of 4, 2, 2 and 1 taps |
| dilated | stride and dilation in both axes, sharing no factor along one: lattices without a tap |
| holes | a filter smaller than the stride: most pixels are written by nobody and must be zero |

The last three are for kernels that take any stride; those for stride 1 alone get `dense` instead: 5x5 over an image
that is smaller than the filter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from aot.verification.edge_case import EdgeCase, image_above, multiple_below, ragged_channels
from cache_schema.problem import ConvProblem
from grids.gemm.records import Dgrad


def dense_cases(identity: Dgrad) -> Iterator[EdgeCase]:
    """Cases of a kernel for stride 1."""
    base, lean = _base(identity)
    yield from _common(identity, base, lean)
    yield EdgeCase("dense", replace(base, h=3, w=4, k=2 * lean, y=5, x=5, pad_h=2, pad_w=3), "uniform")


def strided_cases(identity: Dgrad) -> Iterator[EdgeCase]:
    """Cases of a kernel for any stride."""
    base, lean = _base(identity)
    yield from _common(identity, base, lean)
    strided = replace(base, n=2, h=7, w=9, k=_ragged_filters(identity, base), y=3, x=3, pad_h=1, pad_w=1)
    yield EdgeCase("strided", replace(strided, stride_h=2, stride_w=2), "uniform")
    dilated = replace(base, h=13, w=12, k=lean, y=2, x=3, pad_h=1, pad_w=4, stride_h=4, stride_w=3)
    yield EdgeCase("dilated", replace(dilated, dilation_h=2, dilation_w=2), "ints")
    yield EdgeCase("holes", replace(base, n=2, h=7, w=6, k=lean, y=1, x=2, stride_h=3, stride_w=4), "ints")


def _base(identity: Dgrad) -> tuple[ConvProblem, int]:
    """The smallest problem, and the fewest filters with which K tiles lie inside one tap."""
    filters = max(identity.vector_size_a, 1)
    channels = lcm(max(identity.vector_size_b, 1), max(identity.vector_size_c, 1))
    base = ConvProblem("dgrad", identity.dtype_a, n=1, c=channels, h=1, w=1, k=filters, y=1, x=1)
    return base, lcm(identity.tile_k, filters)


def _ragged_filters(identity: Dgrad, base: ConvProblem) -> int:
    return ragged_channels(base.k, identity.tile_k, 2 * identity.tile_k)


def _common(identity: Dgrad, base: ConvProblem, lean: int) -> Iterator[EdgeCase]:
    filters, channels = base.k, base.c
    images, rows, columns = image_above(identity.tile_m)
    over = identity.tile_n + multiple_below(identity.tile_n, channels) % identity.tile_n
    ragged = replace(base, n=images, h=rows, w=columns, c=over, y=3, x=3, pad_h=1, pad_w=1)
    ragged = replace(ragged, k=_ragged_filters(identity, base))
    yield EdgeCase("ragged", ragged, "uniform", repeat=True)
    planted = replace(ragged, c=multiple_below(identity.tile_n, channels))
    yield EdgeCase("planted-nan", planted, "nan")
    yield EdgeCase("planted-inf", planted, "inf")
    narrow = multiple_below(identity.tile_n, channels)
    yield EdgeCase("uniform", replace(base, n=2, k=lean, h=5, w=7, c=narrow, y=3, x=3, pad_w=1), "ints")
    # At least two channels per group: one is depthwise, which these kernels do not do.
    grouped = replace(base, n=2, c=9 * max(channels, 2), k=9 * filters, h=4, w=9, y=1, x=3, pad_w=2, groups=3)
    yield EdgeCase("grouped", grouped, "ints")
    yield EdgeCase("taps", replace(base, h=5, w=8, y=5, x=7, pad_h=2, pad_w=2), "onehot")
    yield EdgeCase("smallest", base, "ints")
