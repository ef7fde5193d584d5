"""The sub-GEMMs of a backward-data convolution.

At stride s and dilation d, the input pixels that one filter tap touches form lattices; taps that share a lattice form
one matrix product. Per axis there are `s / gcd(s, d)` lattices ("tilde"), and a sub-GEMM is one lattice per axis.
Sub-GEMMs write disjoint pixels, and pixels on no lattice have gradient zero and are written by none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from cache_schema.problem import ConvProblem
from grids.geometry import ceil_div


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """One lattice along one image axis, in pixels and taps of that axis.

    Taps are `offset + i * step` for i in [0, taps). Output rows covered are [begin, begin + size) of the lattice;
    lattice row h and tap number i read dY row `h + i * dy_step`; lattice row `begin + h` is input row
    `h * stride + origin`, which may lie outside the image.
    """

    step: int
    offset: int
    taps: int
    begin: int
    size: int
    dy_step: int
    stride: int
    origin: int


@dataclass(frozen=True, slots=True)
class SubGemm:
    """One matrix product of one group: (N * h.size * w.size) x cpg over h.taps * w.taps * kpg."""

    h: AxisSlice
    w: AxisSlice
    gemm_m: int
    gemm_n: int
    gemm_k: int

    def tiles(self, tile_m: int, tile_n: int) -> int:
        """Output tiles of one group."""
        return ceil_div(self.gemm_m, tile_m) * ceil_div(self.gemm_n, tile_n)


def sub_gemms(problem: ConvProblem) -> tuple[SubGemm, ...]:
    """The sub-GEMMs of dX in record order: lattices of h outside, of w inside; empty ones are left out."""
    rows, cols = (_axis_slices(*axis) for axis in _axes(problem))
    return tuple(
        SubGemm(
            h=h,
            w=w,
            gemm_m=problem.n * h.size * w.size,
            gemm_n=problem.cpg,
            gemm_k=h.taps * w.taps * problem.kpg,
        )
        for h in rows
        for w in cols
    )


def sub_gemm_count(problem: ConvProblem) -> int:
    """How many `sub_gemms` gives, without making them: a long stride has as many as it has taps."""
    count = 1
    for axis in _axes(problem):
        (begin, end), (_, _, taps, stride, _, dilation) = _range(*axis), axis
        count *= min(_lattices(stride, dilation), taps) if end > begin else 0
    return count


def most_rows(problem: ConvProblem) -> int:
    """Rows of the longest sub-GEMM: all cover the same range of their lattices."""
    (begin_h, end_h), (begin_w, end_w) = (_range(*axis) for axis in _axes(problem))
    return problem.n * max(0, end_h - begin_h) * max(0, end_w - begin_w)


def must_zero_dx(problem: ConvProblem) -> bool:
    """Whether dX has pixels that no sub-GEMM writes, so that a launch plan must zero it first.

    Never at stride 1, nor at dilation 1 with a filter no smaller than the stride. Sub-GEMMs are disjoint, so counting
    the rows and columns that they write is enough.
    """
    rows, cols = (_axis_slices(*axis) for axis in _axes(problem))
    written = [sum(_inside(part, extent) for part in parts) for parts, extent in ((rows, problem.h), (cols, problem.w))]
    return written != [problem.h, problem.w]


def _inside(part: AxisSlice, extent: int) -> int:
    """Lattice rows of a slice that are rows of the image."""
    first = max(0, ceil_div(-part.origin, part.stride))
    last = min(part.size - 1, (extent - 1 - part.origin) // part.stride)
    return max(0, last - first + 1)


def _axis_slices(size: int, out: int, filter_: int, stride: int, pad: int, dilation: int) -> tuple[AxisSlice, ...]:
    axis = size, out, filter_, stride, pad, dilation
    (begin, end), lattices = _range(*axis), _lattices(stride, dilation)
    return tuple(
        AxisSlice(
            step=lattices,
            offset=offset,
            taps=ceil_div(filter_ - offset, lattices),
            begin=begin,
            size=end - begin,
            dy_step=-(dilation // gcd(stride, dilation)),
            stride=stride,
            origin=dilation * offset + stride * begin - pad,
        )
        for offset in range(min(lattices, filter_))
        if end > begin
    )


def _axes(problem: ConvProblem) -> tuple[tuple[int, int, int, int, int, int], ...]:
    p = problem
    return (
        (p.h, p.ho, p.y, p.stride_h, p.pad_h, p.dilation_h),
        (p.w, p.wo, p.x, p.stride_w, p.pad_w, p.dilation_w),
    )


def _lattices(stride: int, dilation: int) -> int:
    return stride // gcd(stride, dilation)


def _range(size: int, out: int, filter_: int, stride: int, pad: int, dilation: int) -> tuple[int, int]:
    """Rows that every lattice covers: the first, and the one behind the last."""
    lattices = _lattices(stride, dilation)
    extent = out + (ceil_div(dilation * (filter_ - 1), stride) if filter_ > 1 else 0)
    return max(0, pad - dilation * (lattices - 1)) // stride, min(extent, ceil_div(pad + size - 1, stride) + 1)
