"""Convolution in float64 by its definition: what a kernel has to compute, and how large the terms of each sum were.

    y[n, ho, wo, k] = sum over (i, j, c) of x[n, ho*sh - ph + i*dh, wo*sw - pw + j*dw, c] * w[k, i, j, c]

dx and dw are the two adjoints of the same relation. Only positions inside the image are terms: padding contributes
nothing, so a NaN or an infinity reaches exactly the results whose window holds it. Every tap (i, j) of the filter is
one matrix product over strided slices; nothing is shared with the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aot.runtime.float16 import Bits, Reals, quantum_exponent, widen
from cache_schema.problem import ConvProblem

#: Names of the two operands and of the result, in the order of the kernel arguments.
TENSORS = {"fwd": ("x", "w", "y"), "wgrad": ("dy", "x", "dw"), "dgrad": ("dy", "w", "dx")}

#: Significant bits of f32: integers up to 2**24 and their sums below that are exact.
F32_BITS = 24


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
    left, right = widen(a, problem.dtype), widen(b, problem.dtype)
    exponents = quantum_exponent(a, problem.dtype), quantum_exponent(b, problem.dtype)
    quantum = None if exponents[0] is None or exponents[1] is None else exponents[0] + exponents[1]
    convolve = {"fwd": _forward, "wgrad": _weight_gradient, "dgrad": _data_gradient}[problem.direction]
    # Infinities and NaNs are data here.
    with np.errstate(all="ignore"):
        value = convolve(problem, left, right)
        terms = reduction_length(problem)
        most = terms * np.abs(left).max(initial=0.0) * np.abs(right).max(initial=0.0)
        if quantum is None or most <= 2.0 ** (sum_bits + quantum):
            magnitude: Reals = np.broadcast_to(np.float64(most), value.shape)
        else:
            magnitude = convolve(problem, np.abs(left), np.abs(right))
    return Reference(value, magnitude, terms, quantum, _overhang_nan(problem, left, right))


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


def _by_group(pixels: Reals, groups: int) -> Reals:
    """[n, h, w, channels] as [group, pixel, channel of the group]."""
    return np.moveaxis(pixels.reshape(-1, groups, pixels.shape[-1] // groups), 1, 0)


def _weights(problem: ConvProblem, w: Reals, tap: _Tap) -> Reals:
    """[group, filter of the group, channel] of one tap."""
    return w[:, tap.i, tap.j, :].reshape(problem.groups, problem.kpg, problem.cpg)


def _forward(problem: ConvProblem, x: Reals, w: Reals) -> Reals:
    y = np.zeros(problem.y_shape)
    for tap in _taps(problem):
        seen = x[:, tap.in_rows, tap.in_cols, :]
        if seen.size:
            product = _by_group(seen, problem.groups) @ np.swapaxes(_weights(problem, w, tap), 1, 2)
            y[:, tap.out_rows, tap.out_cols, :] += np.moveaxis(product, 0, 1).reshape(*seen.shape[:3], problem.k)
    return y


def _data_gradient(problem: ConvProblem, dy: Reals, w: Reals) -> Reals:
    dx = np.zeros(problem.x_shape)
    for tap in _taps(problem):
        seen = dy[:, tap.out_rows, tap.out_cols, :]
        if seen.size:
            product = _by_group(seen, problem.groups) @ _weights(problem, w, tap)
            dx[:, tap.in_rows, tap.in_cols, :] += np.moveaxis(product, 0, 1).reshape(*seen.shape[:3], problem.c)
    return dx


def _weight_gradient(problem: ConvProblem, dy: Reals, x: Reals) -> Reals:
    dw = np.zeros(problem.w_shape)
    for tap in _taps(problem):
        seen = x[:, tap.in_rows, tap.in_cols, :]
        if seen.size:
            gradient = _by_group(dy[:, tap.out_rows, tap.out_cols, :], problem.groups)
            product = np.swapaxes(gradient, 1, 2) @ _by_group(seen, problem.groups)
            dw[:, tap.i, tap.j, :] += product.reshape(problem.k, problem.cpg)
    return dw


def _overhang_nan(problem: ConvProblem, a: Reals, b: Reals) -> npt.NDArray[np.bool_]:
    """Results for which the operand that padding does not mask is not finite where the other one is padding."""
    marked = np.zeros(tensor_shape(problem, TENSORS[problem.direction][2]), dtype=np.bool_)
    loose = a if problem.direction == "wgrad" else b
    if np.isfinite(loose).all():
        return marked
    for tap in _taps(problem):
        if problem.direction == "wgrad":
            outside = np.ones((problem.ho, problem.wo), dtype=np.bool_)
            outside[tap.out_rows, tap.out_cols] = False
            wild = np.logical_not(np.isfinite(a[:, outside, :])).reshape(-1, problem.k).any(axis=0)
            marked[:, tap.i, tap.j, :] |= wild.reshape(problem.k, 1)
            continue
        wild_weights = ~np.isfinite(_weights(problem, b, tap))
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
