"""Sub-GEMMs of dgrad against the definition of the gradient."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from grids.probe import probe
from grids.tilde import AxisSlice, must_zero_dx, sub_gemms


def definition(size: int, out: int, taps: int, stride: int, pad: int, dilation: int) -> Counter[tuple[int, int, int]]:
    """(input row, dY row, tap) of every product that the gradient of one axis sums."""
    rows = ((ho * stride - pad + tap * dilation, ho, tap) for ho in range(out) for tap in range(taps))
    return Counter(row for row in rows if 0 <= row[0] < size)


def by_slices(slices: list[AxisSlice], size: int, out: int) -> tuple[Counter[tuple[int, int, int]], Counter[int]]:
    """The same from the slices, and how often each input row is written."""
    products: Counter[tuple[int, int, int]] = Counter()
    written: Counter[int] = Counter()
    for part in slices:
        for h in range(part.size):
            row = h * part.stride + part.origin
            if not 0 <= row < size:
                continue
            written[row] += 1
            for i in range(part.taps):
                dy = h + part.begin + i * part.dy_step
                if 0 <= dy < out:
                    products[row, dy, part.offset + i * part.step] += 1
    return products, written


def axis_problem(size: int, taps: int, stride: int, pad: int, dilation: int) -> ConvProblem:
    """A problem with one column: only the h axis does anything."""
    axis = {"h": size, "y": taps, "stride_h": stride, "pad_h": pad, "dilation_h": dilation}
    return ConvProblem("dgrad", "bf16", n=1, c=8, w=1, k=8, x=1, **axis)


def axis_problems() -> list[ConvProblem]:
    """Problems that vary on the h axis alone: strides and dilations up to 4, filters and pads up to 7."""
    rng, found = random.Random(7), []
    for stride, dilation, taps, pad in product(range(1, 5), range(1, 5), range(1, 8), range(8)):
        for size in rng.sample(range(1, 24), 2):
            try:
                found.append(axis_problem(size, taps, stride, pad, dilation))
            except ProblemError:
                continue
    assert len(found) > 1000
    return found


def test_slices_are_the_definition() -> None:
    """The products of all slices of an axis are those of the definition, none missing, none twice, none invented."""
    for p in axis_problems():
        slices = [part.h for part in sub_gemms(p)]
        products, written = by_slices(slices, p.h, p.ho)
        assert products == definition(p.h, p.ho, p.y, p.stride_h, p.pad_h, p.dilation_h), p
        assert max(written.values(), default=1) == 1, p


def test_must_zero_dx_is_exact() -> None:
    """dX must be zeroed exactly when some pixel is written by no sub-GEMM."""
    seen = set()
    for p in axis_problems():
        _, written = by_slices([part.h for part in sub_gemms(p)], p.h, p.ho)
        assert must_zero_dx(p) == (len(written) < p.h), p
        seen.add(must_zero_dx(p))
        if p.stride_h == 1 or (p.dilation_h == 1 and p.y >= p.stride_h):
            assert not must_zero_dx(p), p
    assert seen == {True, False}


def test_both_axes_combine() -> None:
    """In two dimensions the sub-GEMMs are the pairs of slices, h outside, with the extents of their product."""
    p = ConvProblem("dgrad", "bf16", n=3, c=32, h=14, w=11, k=48, y=3, x=2, stride_h=2, stride_w=3, pad_h=1, groups=2)
    parts = sub_gemms(p)
    assert [(part.h.offset, part.w.offset) for part in parts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for part in parts:
        assert (part.gemm_m, part.gemm_n) == (3 * part.h.size * part.w.size, 16)
        assert part.gemm_k == part.h.taps * part.w.taps * 24
        assert part.tiles(16, 16) == -(-part.gemm_m // 16)
    assert sum(part.h.taps * part.w.taps for part in parts) == 6


def test_strided_pointwise_leaves_gaps() -> None:
    """A 1x1 filter at stride 2 on 14x14 writes 49 pixels and leaves 147 to the zero-fill."""
    p = ConvProblem("dgrad", "bf16", n=1, c=8, h=14, w=14, k=8, y=1, x=1, stride_h=2, stride_w=2)
    (part,) = sub_gemms(p)
    assert part.gemm_m == 49
    assert must_zero_dx(p)


def test_probe_counts() -> None:
    """The probe has 1, 4, 1 and 1 sub-GEMMs at stride x dilation 1x1, 2x1, 1x2 and 2x2."""
    grid = ((1, 1), (2, 1), (1, 2), (2, 2))
    assert [len(sub_gemms(probe("dgrad", "bf16", stride=s, dilation=d))) for s, d in grid] == [1, 4, 1, 1]


def test_stride_one_is_one_gemm() -> None:
    """At stride 1 the single sub-GEMM has the extents of the plain problem and its folded values."""
    p = ConvProblem("dgrad", "bf16", n=2, c=8, h=9, w=7, k=8, y=5, x=3, pad_h=2, pad_w=1, dilation_h=2)
    (part,) = sub_gemms(p)
    assert part.h == AxisSlice(step=1, offset=0, taps=5, begin=2, size=9, dy_step=-2, stride=1, origin=0)
    assert part.w == AxisSlice(step=1, offset=0, taps=3, begin=1, size=7, dy_step=-1, stride=1, origin=0)
    assert (part.gemm_m, part.gemm_k) == (2 * 9 * 7, 5 * 3 * 8)
