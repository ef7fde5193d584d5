"""Edge problems of backward-weights kernels. M runs over filters, N over taps and channels, K over output pixels.

| name | what it reaches |
|---|---|
| ragged | partial last tiles in M, N and K, several tiles in M and N, an odd count in K; padding and dilation |
| planted-nan, planted-inf | the same on one tile of M and N, two specials planted in X |
| strided | an even count of whole K tiles, stride and dilation in both axes, M below one tile |
| grouped | three groups, few filters and channels |
| pointwise | 1x1 in three groups at stride 2, images smaller than a K tile |
| multiplier | one channel per group and several filters, for kernels that load X by elements |
| taps | a large filter over an image that is smaller than it |
| smallest | the fewest channels, filters and pixels that the widths and the slices allow |

Kernels that split the reduction get these at the automatic degree, and then:

| name | what it reaches |
|---|---|
| one-slice | degree 1 |
| slice-per-tile | as many slices as K tiles |
| empty-slices | more slices than K tiles: some have nothing to do and must add nothing |
| many-slices | 16 slices of one tile and a tail |

The last two are exact in 16 bits too where that is what slices are added up in: one wrong term is one wrong result.

Stream-K kernels get the first at as many workgroups as the GPU holds, where each has one K tile, and then:

| name | what it reaches |
|---|---|
| one-workgroup | every tile by the same workgroup, nothing to fix up |
| two-workgroups | the border inside a tile |
| uneven | shares that end inside one tile and begin inside another |

Kernels that merge groups are depthwise only: a filter that fills the tile, as many groups as are merged, three times
as many, stride and dilation, NaN in one group, which may not reach the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import lcm

from aot.verification.edge_case import EdgeCase, image_above, multiple_below, ragged_channels
from cache_schema.problem import ConvProblem
from grids.gemm.records import Wgrad

MANY_SLICES = 16


def direct_cases(identity: Wgrad) -> Iterator[EdgeCase]:
    """Cases of a kernel that does not split its reduction."""
    return _plain(identity, _Shapes.of(identity))


def atomic_cases(identity: Wgrad) -> Iterator[EdgeCase]:
    """Cases of a kernel that adds its slices in 16 bits, in pairs."""
    shapes = _Shapes.of(identity, pairs=2)
    yield from _plain(identity, shapes, smallest_width=identity.tile_k + 1)
    yield from _degrees(shapes.few_tiles, shapes.base, identity.tile_k, "sparse")


def two_stage_cases(identity: Wgrad) -> Iterator[EdgeCase]:
    """Cases of a kernel that adds its slices in f32."""
    shapes = _Shapes.of(identity)
    yield from _plain(identity, shapes, smallest_width=identity.tile_k + 1)
    yield from _degrees(shapes.few_tiles, shapes.base, identity.tile_k, "ints")


def stream_k_cases(identity: Wgrad) -> Iterator[EdgeCase]:
    """Cases of a kernel whose workgroups share the K tiles of all output tiles."""
    shapes = _Shapes.of(identity)
    yield from _plain(identity, shapes)
    yield EdgeCase("one-workgroup", shapes.tall, "ints", degree=1)
    yield EdgeCase("two-workgroups", shapes.planted, "uniform", repeat=True, degree=2)
    yield EdgeCase("uneven", shapes.ragged, "ints", degree=5)


def merged_cases(identity: Wgrad) -> Iterator[EdgeCase]:
    """Cases of a kernel that merges groups and adds its slices in f32."""
    yield from _merged(identity, smallest_width=identity.tile_k + 1)
    several, base = _merged_problems(identity)
    smallest = replace(base, n=1, h=1, w=1, y=1, x=1, pad_h=0, pad_w=0)
    yield from _degrees(several, smallest, identity.tile_k, "ints")


def wgrad_filter_step(identity: Wgrad) -> int:
    """Filters per group of a kernel are a multiple of this."""
    return lcm(max(identity.vector_size_a, 1), max(identity.async_chunk_a, 1))


def wgrad_channel_step(identity: Wgrad, pairs: int = 1) -> int:
    """Channels per group of a kernel are a multiple of this; pairs of 16-bit results are added in whole."""
    widths = (identity.vector_size_b, identity.vector_size_c, identity.async_chunk_b)
    return lcm(pairs, *(max(width, 1) for width in widths))


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Problems that several cases share; `base` is the smallest."""

    base: ConvProblem
    ragged: ConvProblem
    planted: ConvProblem
    tall: ConvProblem
    few_tiles: ConvProblem

    @staticmethod
    def of(identity: Wgrad, pairs: int = 1) -> _Shapes:
        filters, channels, tile_k = wgrad_filter_step(identity), wgrad_channel_step(identity, pairs), identity.tile_k
        base = ConvProblem("wgrad", identity.dtype_a, n=1, c=channels, h=1, w=1, k=filters, y=1, x=1)
        images, rows, columns = image_above(2 * tile_k)
        window = replace(base, n=images, h=rows, w=columns + 2, y=3, x=3, pad_h=1, pad_w=1, dilation_w=2)
        over = identity.tile_m + multiple_below(identity.tile_m, filters) % identity.tile_m
        planted = replace(window, k=multiple_below(identity.tile_m, filters))
        return _Shapes(
            base,
            ragged=replace(window, c=ragged_channels(channels, identity.tile_n, identity.tile_n), k=over),
            planted=planted,
            tall=replace(base, h=13, w=tile_k, k=planted.k, y=2, x=3, pad_h=1, pad_w=2),
            few_tiles=replace(planted, n=1, h=2 * rows, y=1, x=2, pad_h=0, stride_w=1),
        )


def _plain(identity: Wgrad, shapes: _Shapes, smallest_width: int = 1) -> Iterator[EdgeCase]:
    base, tile_k = shapes.base, identity.tile_k
    filters, channels = base.k, base.c
    yield EdgeCase("ragged", shapes.ragged, "uniform", repeat=True)
    yield EdgeCase("planted-nan", shapes.planted, "nan")
    yield EdgeCase("planted-inf", shapes.planted, "inf")
    # 4 x tile_k / 2 output pixels.
    yield EdgeCase("strided", replace(shapes.tall, stride_h=4, stride_w=2, dilation_h=2, dilation_w=2), "ints")
    grouped = replace(base, n=2, c=9 * channels, k=9 * filters, w=9, y=1, x=3, pad_w=2, groups=3)
    yield EdgeCase("grouped", replace(grouped, h=tile_k // 8 + 1), "ints")
    pointwise = replace(base, n=tile_k // 4 + 1, c=3 * channels, k=3 * filters, h=3, w=4, stride_h=2, stride_w=2)
    yield EdgeCase("pointwise", replace(pointwise, groups=3), "uniform")
    if channels == 1:
        multiplier = replace(base, n=2, c=5, k=10 * filters, h=6, w=tile_k // 8 + 5, y=3, x=3, pad_h=1, groups=5)
        yield EdgeCase("multiplier", multiplier, "ints")
    taps = replace(base, h=4, w=tile_k // 4 + 1, y=5, x=7, pad_h=2, pad_w=3)
    yield EdgeCase("taps", taps, "onehot")
    yield EdgeCase("smallest", replace(base, w=smallest_width), "ints")


def _degrees(few_tiles: ConvProblem, base: ConvProblem, tile_k: int, exact: str) -> Iterator[EdgeCase]:
    """What a kernel meets at degrees that are given; `exact` are operands whose sums it rounds nowhere."""
    tiles = -(-few_tiles.n * few_tiles.ho * few_tiles.wo // tile_k)
    yield EdgeCase("one-slice", few_tiles, "uniform", degree=1)
    yield EdgeCase("slice-per-tile", few_tiles, "uniform", repeat=True, degree=tiles)
    yield EdgeCase("empty-slices", few_tiles, exact, degree=2 * tiles + 1)
    long = replace(base, h=MANY_SLICES, w=tile_k + 1)
    yield EdgeCase("many-slices", long, exact, degree=MANY_SLICES)


def _merged_problems(identity: Wgrad) -> tuple[ConvProblem, ConvProblem]:
    """Three times as many groups as are merged, and as many."""
    merge = identity.group_merge
    images, rows, columns = image_above(2 * identity.tile_k)
    base = ConvProblem(
        "wgrad", identity.dtype_a, n=images, c=merge, h=rows, w=columns, k=merge, y=3, x=3, pad_h=1, pad_w=1,
        groups=merge,
    )  # fmt: skip
    return replace(base, c=3 * merge, k=3 * merge, groups=3 * merge), base


def _merged(identity: Wgrad, smallest_width: int) -> Iterator[EdgeCase]:
    merge, tile_k = identity.group_merge, identity.tile_k
    several, base = _merged_problems(identity)
    yield EdgeCase("ragged", several, "uniform", repeat=True)
    yield EdgeCase("planted-nan", several, "nan")
    yield EdgeCase("planted-inf", several, "inf")
    yield EdgeCase("all-merged", base, "ints")
    strided = replace(base, n=3, h=9, w=tile_k // 2 + 3, y=2, x=3, stride_h=2, stride_w=2, dilation_h=2, dilation_w=3)
    yield EdgeCase("strided", strided, "ints")
    taps = identity.tile_n // merge
    row = ConvProblem("wgrad", identity.dtype_a, n=1, c=merge, h=2, w=tile_k + taps, k=merge, y=1, x=taps, groups=merge)
    yield EdgeCase("taps", replace(row, pad_w=2), "onehot")
    smallest = replace(base, n=1, h=1, w=smallest_width, y=1, x=1, pad_h=0, pad_w=0)
    yield EdgeCase("smallest", smallest, "ints")
