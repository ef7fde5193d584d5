"""Convolution in float64 by its definition: what a kernel has to compute, and how large the terms of each sum were.

    y[n, ho, wo, k] = sum over (i, j, c) of x[n, ho*sh - ph + i*dh, wo*sw - pw + j*dw, c] * w[k, i, j, c]

dx and dw are the two adjoints of the same relation. Only positions inside the image are terms: padding contributes
nothing, so a NaN or an infinity reaches exactly the results whose window holds it. Every tap (i, j) of the filter is
one matrix product over strided slices; nothing is shared with the kernels. Large operands are taken in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aot.runtime.float16 import Bits, Reals, is_finite, largest, quantum_exponent, widen
from cache_schema.problem import ConvProblem

#: Names of the two operands and of the result, in the order of the kernel arguments.
TENSORS = {"fwd": ("x", "w", "y"), "wgrad": ("dy", "x", "dw"), "dgrad": ("dy", "w", "dx")}

#: Significant bits of f32: integers up to 2**24 and their sums below that are exact.
F32_BITS = 24

#: Elements of an operand that are widened at a time; 32 MB, far beyond the caches and far below any memory.
PIECE_ELEMENTS = 1 << 22

#: How terms are looked at: as they are, or without their signs.
_View = Callable[[Bits, str], Reals]


@dataclass(frozen=True, slots=True)
class Reference:
    """Exact results up to float64 rounding.

    `magnitude` is the sum of the absolute terms of each result, or one upper bound for all where that is small enough
    for sums to be exact; `terms` the most terms that any result has, `quantum` an exponent e such that every term
    is a multiple of 2**e (None: all terms are zero). `overhang_nan` marks results for which an infinite or NaN weight
    meets the padding: a kernel that multiplies it by a padded zero gives NaN there, the definition does not; both are
    right. A pixel that no window reaches through a tap, for a stride, does not meet that tap's weights at all.
    """

    value: Reals
    magnitude: Reals
    terms: int
    quantum: int | None
    overhang_nan: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Tap:
    """One filter position: the output rows and columns that see the image through it, and the pixels they see."""

    i: int
    j: int
    out_rows: slice
    out_cols: slice
    in_rows: slice
    in_cols: slice


def tensor_shape(problem: ConvProblem, name: str) -> tuple[int, int, int, int]:
    """Shape of a tensor by its name: x, w, y or a gradient of one of them."""
    return {"x": problem.x_shape, "w": problem.w_shape, "y": problem.y_shape}[name.removeprefix("d")]


def reduction_length(problem: ConvProblem) -> int:
    """Terms of one result, padding included."""
    return {
        "fwd": problem.y * problem.x * problem.cpg,
        "wgrad": problem.n * problem.ho * problem.wo,
        "dgrad": problem.y * problem.x * problem.kpg,
    }[problem.direction]


def reference(problem: ConvProblem, a: Bits, b: Bits, sum_bits: int = F32_BITS) -> Reference:
    """The result of a problem for operands given as 16-bit patterns, in the order of `TENSORS`.

    `sum_bits` are the significant bits in which sums are made, which decide whether one upper bound of the magnitude
    shows them to be exact.
    """
    exponents = quantum_exponent(a, problem.dtype), quantum_exponent(b, problem.dtype)
    quantum = None if exponents[0] is None or exponents[1] is None else exponents[0] + exponents[1]
    convolve = {"fwd": _forward, "wgrad": _weight_gradient, "dgrad": _data_gradient}[problem.direction]
    # Infinities and NaNs are data here.
    with np.errstate(all="ignore"):
        value = convolve(problem, a, b, widen)
        terms = reduction_length(problem)
        most = terms * largest(a, problem.dtype) * largest(b, problem.dtype)
        if quantum is None or most <= 2.0 ** (sum_bits + quantum):
            magnitude: Reals = np.broadcast_to(np.float64(most), value.shape)
        else:
            magnitude = convolve(problem, a, b, _absolute)
    return Reference(value, magnitude, terms, quantum, _overhang_nan(problem, a, b))


def _absolute(bits: Bits, dtype: str) -> Reals:
    return widen(bits & np.uint16(0x7FFF), dtype)


def _span(extent: int, outputs: int, *, tap: int, stride: int, pad: int) -> tuple[slice, slice]:
    """Outputs along one axis whose tap (offset `tap`) is inside an image of `extent`, and the pixels it falls on."""
    first = max(0, -(-(pad - tap) // stride))
    last = min(outputs - 1, (extent - 1 + pad - tap) // stride)
    count = max(0, last - first + 1)
    start = first * stride - pad + tap
    if count == 0:
        return slice(0, 0), slice(0, 0)
    return slice(first, first + count), slice(start, start + (count - 1) * stride + 1, stride)


def _reached(stride: int, pad: int, tap: int) -> slice:
    """Pixels along one axis that a tap meets at some window, be it one of the output or beyond it."""
    return slice((tap - pad) % stride, None, stride)


def _taps(problem: ConvProblem) -> Iterator[_Tap]:
    for i in range(problem.y):
        out_rows, in_rows = _span(
            problem.h, problem.ho, tap=i * problem.dilation_h, stride=problem.stride_h, pad=problem.pad_h
        )
        for j in range(problem.x):
            out_cols, in_cols = _span(
                problem.w, problem.wo, tap=j * problem.dilation_w, stride=problem.stride_w, pad=problem.pad_w
            )
            yield _Tap(i, j, out_rows, out_cols, in_rows, in_cols)


def _pieces(problem: ConvProblem, tap: _Tap) -> Iterator[tuple[slice, _Tap]]:
    """Images, and the part of a tap's outputs, that together meet `PIECE_ELEMENTS` of any tensor, or one pixel."""
    channels = max(problem.c, problem.k)
    rows, cols = (part.stop - part.start for part in (tap.out_rows, tap.out_cols))
    if not rows * cols:
        return
    col_step = max(1, min(cols, PIECE_ELEMENTS // channels))
    row_step = max(1, min(rows, PIECE_ELEMENTS // (channels * col_step)))
    whole = row_step == rows and col_step == cols
    image_step = max(1, PIECE_ELEMENTS // (channels * rows * cols)) if whole else 1
    for image in range(0, problem.n, image_step):
        for row in range(0, rows, row_step):
            for col in range(0, cols, col_step):
                part = _Tap(
                    tap.i,
                    tap.j,
                    _cut(tap.out_rows, row, row_step),
                    _cut(tap.out_cols, col, col_step),
                    _cut(tap.in_rows, row, row_step),
                    _cut(tap.in_cols, col, col_step),
                )
                yield slice(image, min(image + image_step, problem.n)), part


def _cut(part: slice, first: int, count: int) -> slice:
    """Some of the positions of a slice that has a start and an end."""
    step = part.step or 1
    return slice(part.start + first * step, min(part.stop, part.start + (first + count - 1) * step + 1), part.step)


def _by_group(pixels: Reals, groups: int) -> Reals:
    """[n, h, w, channels] as [group, pixel, channel of the group]."""
    return np.moveaxis(pixels.reshape(-1, groups, pixels.shape[-1] // groups), 1, 0)


def _weights(problem: ConvProblem, w: Bits, tap: _Tap) -> Bits:
    """[group, filter of the group, channel] of one tap."""
    return w[:, tap.i, tap.j, :].reshape(problem.groups, problem.kpg, problem.cpg)


def _forward(problem: ConvProblem, x: Bits, w: Bits, view: _View) -> Reals:
    y = np.zeros(problem.y_shape)
    for tap in _taps(problem):
        weights = np.swapaxes(view(_weights(problem, w, tap), problem.dtype), 1, 2)
        for images, part in _pieces(problem, tap):
            seen = view(x[images, part.in_rows, part.in_cols, :], problem.dtype)
            product = _by_group(seen, problem.groups) @ weights
            shape = *seen.shape[:3], problem.k
            y[images, part.out_rows, part.out_cols, :] += np.moveaxis(product, 0, 1).reshape(shape)
    return y


def _data_gradient(problem: ConvProblem, dy: Bits, w: Bits, view: _View) -> Reals:
    dx = np.zeros(problem.x_shape)
    for tap in _taps(problem):
        weights = view(_weights(problem, w, tap), problem.dtype)
        for images, part in _pieces(problem, tap):
            seen = view(dy[images, part.out_rows, part.out_cols, :], problem.dtype)
            product = _by_group(seen, problem.groups) @ weights
            shape = *seen.shape[:3], problem.c
            dx[images, part.in_rows, part.in_cols, :] += np.moveaxis(product, 0, 1).reshape(shape)
    return dx


def _weight_gradient(problem: ConvProblem, dy: Bits, x: Bits, view: _View) -> Reals:
    dw = np.zeros(problem.w_shape)
    for tap in _taps(problem):
        for images, part in _pieces(problem, tap):
            seen = view(x[images, part.in_rows, part.in_cols, :], problem.dtype)
            gradient = view(dy[images, part.out_rows, part.out_cols, :], problem.dtype)
            product = np.swapaxes(_by_group(gradient, problem.groups), 1, 2) @ _by_group(seen, problem.groups)
            dw[:, tap.i, tap.j, :] += product.reshape(problem.k, problem.cpg)
    return dw


def _overhang_nan(problem: ConvProblem, a: Bits, b: Bits) -> npt.NDArray[np.bool_]:
    """Results for which the operand that padding does not mask is not finite where the other one is padding."""
    marked = np.zeros(tensor_shape(problem, TENSORS[problem.direction][2]), dtype=np.bool_)
    loose = a if problem.direction == "wgrad" else b
    if np.isfinite(largest(loose, problem.dtype)):
        return marked
    for tap in _taps(problem):
        if problem.direction == "wgrad":
            outside = np.ones((problem.ho, problem.wo), dtype=np.bool_)
            outside[tap.out_rows, tap.out_cols] = False
            wild = np.logical_not(is_finite(a[:, outside, :], problem.dtype)).reshape(-1, problem.k).any(axis=0)
            marked[:, tap.i, tap.j, :] |= wild.reshape(problem.k, 1)
            continue
        wild_weights = ~is_finite(_weights(problem, b, tap), problem.dtype)
        if problem.direction == "fwd":
            outside = np.ones((problem.ho, problem.wo), dtype=np.bool_)
            outside[tap.out_rows, tap.out_cols] = False
            marked |= outside[None, :, :, None] & wild_weights.any(axis=2).reshape(-1)
        else:
            # A pixel between those that a stride reaches meets the tap at no output, padded or not.
            outside = np.zeros((problem.h, problem.w), dtype=np.bool_)
            rows = _reached(problem.stride_h, problem.pad_h, tap.i * problem.dilation_h)
            cols = _reached(problem.stride_w, problem.pad_w, tap.j * problem.dilation_w)
            outside[rows, cols] = True
            outside[tap.in_rows, tap.in_cols] = False
            marked |= outside[None, :, :, None] & wild_weights.any(axis=1).reshape(-1)
    return marked
