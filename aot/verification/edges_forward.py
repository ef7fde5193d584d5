"""Edge problems of forward kernels.

| name | what it reaches |
|---|---|
| ragged | partial last tiles in M, N and K, more than one tile in M and N; padding and dilation; the general K loop |
| planted-nan, planted-inf | ragged with fewer filters and two specials planted: what is masked must not leak |
| uniform | channels a multiple of tile_k (the lean K loop), an odd count of K tiles, strides that differ |
| grouped | three groups, narrow channels, dilation along one axis |
| even | an even count of K tiles, stride and dilation in both axes, M below one tile |
| taps | more filter taps than the lean loop has validity bits for |
| smallest | one pixel, one tap, the fewest channels and filters that the widths allow |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from aot.verification.edge_case import EdgeCase, image_above, multiple_below, ragged_channels
from cache_schema.problem import ConvProblem
from grids.gemm.records import Forward


def channel_step(identity: Forward) -> int:
    """Channels per group of a forward kernel are a multiple of this."""
    widths = (identity.vector_size_a, identity.vector_size_b, identity.async_chunk_a, identity.async_chunk_b)
    return lcm(*(max(width, 1) for width in widths))


def filter_step(identity: Forward) -> int:
    """Filters per group of a forward kernel are a multiple of this."""
    return max(identity.vector_size_c, 1)


def forward_cases(identity: Forward) -> Iterator[EdgeCase]:
    """Cases of one kernel."""
    narrow, filters = channel_step(identity), filter_step(identity)
    lean = lcm(identity.tile_k, narrow)
    base = ConvProblem("fwd", identity.dtype_a, n=1, c=narrow, h=1, w=1, k=filters, y=1, x=1)

    images, rows, columns = image_above(identity.tile_m)
    over = identity.tile_n + multiple_below(identity.tile_n, filters) % identity.tile_n
    ragged = replace(
        base,
        n=images,
        c=ragged_channels(narrow, identity.tile_k, 2 * identity.tile_k),
        h=rows,
        w=columns,
        k=over,
        y=3,
        x=3,
        pad_h=1,
        pad_w=2,
        dilation_w=2,
    )
    yield EdgeCase("ragged", ragged, "uniform", repeat=True)
    planted = replace(ragged, k=multiple_below(identity.tile_n, filters))
    yield EdgeCase("planted-nan", planted, "nan")
    yield EdgeCase("planted-inf", planted, "inf")

    yield EdgeCase(
        "uniform",
        replace(base, n=2, c=lean, h=9, w=7, k=multiple_below(identity.tile_n, filters), y=3, x=3, stride_h=2, pad_w=1),
        "ints",
    )
    yield EdgeCase(
        "grouped",
        replace(base, n=2, c=9 * narrow, h=4, w=9, k=9 * filters, y=1, x=3, pad_w=2, dilation_w=2, groups=3),
        "ints",
    )
    yield EdgeCase(
        "even",
        replace(
            base, n=1, c=2 * lean, h=8, w=9, k=filters, y=2, x=2, pad_h=1, pad_w=2,
            stride_h=3, stride_w=2, dilation_h=2, dilation_w=3,
        ),
        "uniform",
    )  # fmt: skip
    yield EdgeCase("taps", replace(base, n=1, c=narrow, h=5, w=8, y=5, x=7, pad_h=2, pad_w=2), "onehot")
    yield EdgeCase("smallest", base, "ints")
