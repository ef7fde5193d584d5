"""Operands for a problem, made to show a certain kind of fault.

| kind | operands |
|---|---|
| uniform | uniform in (-1, 1) |
| positive | uniform in (0, 1): nothing cancels, the relative error is all that there is |
| ones | all one: the sums that 16 bits hold worst, since all slices of a reduction are alike |
| ints | integers up to 3: every sum is exact in f32, so results must match bit for bit |
| cancel | large terms that cancel along the reduction and leave a small residue; exact in f32, lost in 16-bit parts |
| sparse | few terms, so small that their sums are exact in 16 bits, one in every part of the reduction |
| onehot | one term per result: shows which element was read |
| nan, inf | uniform, with two specials in one channel of x (fwd, wgrad) or dy (dgrad) |
| inf-w | uniform, with one infinite weight (an element of dy for wgrad) |
| overflow | results beyond the range of fp16 |
| subnormal | one operand below the normal numbers, the other small integers: exact in f32 |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aot.runtime.float16 import Bits, Reals, format_of, narrow
from aot.runtime.reference import TENSORS, tensor_shape
from cache_schema.errors import UnknownValueError
from cache_schema.problem import ConvProblem

_Maker = Callable[[ConvProblem, np.random.Generator], tuple[Reals, Reals]]
#: Of the two operands of `TENSORS`: the one that padding masks, and the index of its position in the pair.
_MASKED = {"fwd": 0, "wgrad": 1, "dgrad": 0}
#: Large terms of "cancel": with the residue added still an integer that both formats hold.
_CANCEL_TERM = 128
#: Terms of "sparse" and the largest of them: sums up to 2**8, which bf16 holds.
_SPARSE_TERMS, _SPARSE_LIMIT = 25, 10
#: Powers of two that make sums leave fp16 and stay inside f32.
_OVERFLOW_EXPONENT = {"fp16": 8, "bf16": 30}


def make_inputs(problem: ConvProblem, kind: str, seed: int) -> tuple[Bits, Bits]:
    """The two operands in the order of `TENSORS`, as 16-bit patterns; equal arguments give equal operands."""
    if kind not in KINDS:
        raise UnknownValueError("kind of inputs", kind, KINDS)
    a, b = KINDS[kind](problem, np.random.default_rng(seed))
    return narrow(a, problem.dtype), narrow(b, problem.dtype)


def _shapes(problem: ConvProblem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    first, second, _ = TENSORS[problem.direction]
    return tensor_shape(problem, first), tensor_shape(problem, second)


def _uniform(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    first, second = _shapes(problem)
    return generator.uniform(-1, 1, first), generator.uniform(-1, 1, second)


def _integers(generator: np.random.Generator, shape: tuple[int, ...], limit: int) -> Reals:
    return generator.integers(-limit, limit + 1, shape).astype(np.float64)


def _ints(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    first, second = _shapes(problem)
    return _integers(generator, first, 3), _integers(generator, second, 3)


def _cancel(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    """Both halves of the reduction carry the same large sum with opposite signs.

    The operand that is constant over the reduction axis is small and positive; the other is +-128 and a residue.
    """
    first, second = _shapes(problem)
    small = _integers(generator, first, 1) + 2, _integers(generator, second, 1) + 2
    large = _integers(generator, first, 3), _integers(generator, second, 3)
    if problem.direction == "wgrad":
        # The reduction runs over pixels: images, or rows of the one image.
        gradient, pixels = large[0], small[1]
        axis = 0 if problem.n > 1 else 1
        pixels[...] = pixels.take([0], axis=axis)
        return gradient + _CANCEL_TERM * _signs(gradient.shape, axis), pixels
    # The reduction runs over taps and the channels of one group: channels of x in fwd, filters in dgrad.
    weights, pixels = large[1], small[0]
    channels = problem.cpg if problem.direction == "fwd" else problem.kpg
    grouped = pixels.reshape(*pixels.shape[:3], problem.groups, channels)
    grouped[...] = grouped[..., :1]
    if channels == 1:
        pixels[...] = pixels[:, :, :1]
    if problem.direction == "fwd":
        return pixels, weights + _CANCEL_TERM * _signs(weights.shape, 3 if channels > 1 else 2)
    filters = weights.reshape(problem.groups, channels, *weights.shape[1:])
    signs = _signs(filters.shape, 1 if channels > 1 else 3)
    return pixels, (filters + _CANCEL_TERM * signs).reshape(weights.shape)


def _signs(shape: tuple[int, ...], axis: int) -> Reals:
    """+1 on the first half of an axis, -1 on as many behind it, 0 on what is left of an odd axis."""
    extent = shape[axis]
    line = np.zeros(extent)
    line[: extent // 2] = 1
    line[extent // 2 : extent // 2 * 2] = -1
    along = [1] * len(shape)
    along[axis] = extent
    return np.broadcast_to(line.reshape(along), shape).astype(np.float64)


def _few(terms: int, largest: int) -> _Maker:
    """Results of so many terms at most, one in each equal part of the reduction; terms are integers up to `largest`."""

    def make(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
        first, second = _shapes(problem)
        if problem.direction == "wgrad":
            gradient = np.zeros(first)
            plant(gradient.reshape(1, -1, problem.k), generator)
            return gradient, _integers(generator, second, largest)
        weights = np.zeros(second)
        if problem.direction == "fwd":
            plant(weights.reshape(1, problem.k, -1).swapaxes(1, 2), generator)
        else:
            # Filters and taps per input channel of each group.
            plant(weights.reshape(problem.groups, -1, problem.cpg), generator)
        return _integers(generator, first, largest), weights

    def plant(operand: Reals, generator: np.random.Generator) -> None:
        """Put ones on the middle axis of a view."""
        groups, length, columns = operand.shape
        for part in range(terms if operand.size else 0):
            start, end = part * length // terms, (part + 1) * length // terms
            row = generator.integers(start, max(end, start + 1), (groups, columns))
            operand[np.arange(groups)[:, None], row, np.arange(columns)] = 1

    return make


def _positive(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    first, second = _shapes(problem)
    return generator.uniform(0, 1, first), generator.uniform(0, 1, second)


def _ones(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    del generator
    first, second = _shapes(problem)
    return np.ones(first), np.ones(second)


def _special(value: float) -> _Maker:
    """Specials in the first pixel of the first image and the last pixel of the last, in one channel of the middle."""

    def make(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
        operands = _uniform(problem, generator)
        masked = operands[_MASKED[problem.direction]]
        if masked.size:
            channel = masked.shape[3] // 2
            masked[0, 0, 0, channel] = value
            masked[-1, -1, -1, channel] = -value
        return operands

    return make


def _infinite_weight(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    operands = _uniform(problem, generator)
    weights = operands[1 - _MASKED[problem.direction]]
    if weights.size:
        weights.flat[weights.size // 2] = np.inf
    return operands


def _overflow(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    first, second = _shapes(problem)
    scale = 2.0 ** _OVERFLOW_EXPONENT[problem.dtype]
    return _integers(generator, first, 3) * scale, _integers(generator, second, 3) * scale


def _subnormal(problem: ConvProblem, generator: np.random.Generator) -> tuple[Reals, Reals]:
    layout = format_of(problem.dtype)
    first, second = _shapes(problem)
    tiny = _integers(generator, first, (1 << layout.fraction_bits) - 1)
    return tiny * 2.0 ** (layout.min_normal_exponent - layout.fraction_bits), _integers(generator, second, 3)


KINDS: dict[str, _Maker] = {
    "uniform": _uniform,
    "positive": _positive,
    "ones": _ones,
    "ints": _ints,
    "cancel": _cancel,
    "onehot": _few(1, 127),
    "sparse": _few(_SPARSE_TERMS, _SPARSE_LIMIT),
    "nan": _special(np.nan),
    "inf": _special(np.inf),
    "inf-w": _infinite_weight,
    "overflow": _overflow,
    "subnormal": _subnormal,
}
