"""How far a right kernel may be from the exact result, derived, and the comparison with it.

A result is a sum of n products of 16-bit numbers, accumulated in f32 in an order nobody promises, then rounded once to
16 bits.

1. A product of two fp16 or two bf16 numbers has at most 22 significant bits and is exact in f32, unless it falls below
   2**-126, where it may lose at most 2**-150.
2. Each of at most n additions (the first addend is an exact zero) and of `parts` more, where partial sums of split
   reductions are added up, rounds to nearest in f32: relative error u = 2**-24. By Higham (Accuracy and Stability of
   Numerical Algorithms, 4.2), for every order: |s - exact| <= gamma * sum |terms|, gamma = m u / (1 - m u),
   m = n + parts.
3. If every term is a multiple of q = 2**quantum and sum |terms| <= 2**24 q, every partial sum in every order is a
   multiple of q that f32 holds: there is no error at all.
4. Rounding to 16 bits is monotonic, so the result lies between round(exact - A) and round(exact + A), with A from
   steps 1 to 3. This is the test; it is exact where A is 0, and it covers subnormals and overflow to infinity.

5. Where `slices` partial sums are added up in 16 bits, by atomics, each is rounded once and so is every addition but
   the first, to zero. With v half a unit in the last place of 1 and s half a subnormal step, rounding the partial sums
   makes them wrong by v in all; the additions, in every order, by (slices - 1) v of what they add up (Jeannerod and
   Rump, Improved error bounds for inner products in floating-point arithmetic, 2013), and each by no more than its
   addend. So the result is off by at most growth * (sum |terms| + A) + 2 * slices * s more, where growth is
   v + (1 + v) * min((slices - 1) v, 1); by nothing if step 3 holds for 16 bits, and by anything if a partial sum may
   leave the format. What is off by more than `MOST_WRONG` of sum |terms| is wrong, whatever the order: a sum that
   stagnates at half its value obeys the arithmetic, and is no result.

The reference itself is a float64 sum; its own error, gamma of step 2 with u = 2**-53, is part of A. Where the reference
is NaN the kernel must say NaN, where it is infinite the same infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.runtime.float16 import Bits, Reals, format_of, half_step, narrow, widen
from aot.runtime.reference import F32_BITS, Reference

_U32 = 2.0**-24
_U64 = 2.0**-53
_F32_MAX = (2 - 2.0**-23) * 2.0**127
_PRODUCT_LOSS = 2.0**-150
#: The share of sum |terms| that no right result may be off by, however many slices were added up in 16 bits. Half of
#: the least that a stagnating sum loses, and the worst case of 64 slices in bf16.
MOST_WRONG = 0.25


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one result tensor.

    `worst_error` is the largest |result - exact| over finite results, `bound` the largest that was allowed. `worst_use`
    is the largest share of A that a result shows to have been used up before it was rounded: what its distance
    exceeds half a unit in its last place by, over A. The first wrong element is named by its index, with what it is and
    the least and greatest right value.
    """

    elements: int
    wrong: int
    exact_elements: int  #: elements for which only one value is right
    worst_error: float
    worst_use: float
    bound: float
    first_wrong: tuple[int, ...] | None
    got: float | None
    least: float | None
    greatest: float | None

    @property
    def right(self) -> bool:
        """Whether every element is right."""
        return self.wrong == 0

    def to_json(self) -> dict[str, Any]:
        """Plain data; non-finite numbers as strings."""
        record: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name in ("got", "least", "greatest", "worst_error", "worst_use", "bound"):
            if record[name] is not None and not np.isfinite(record[name]):
                record[name] = str(record[name])
        record["first_wrong"] = None if self.first_wrong is None else list(self.first_wrong)
        return record


def accumulation_error(reference: Reference, parts: int = 0) -> Reals:
    """A of the module's head for every element; infinite where a partial sum may leave f32."""
    additions = reference.terms + parts
    if additions * _U32 >= 0.5:
        raise ValueError(f"{additions} additions leave no correct digit in f32")
    with np.errstate(all="ignore"):
        gamma = additions * _U32 / (1 - additions * _U32) + additions * _U64 / (1 - additions * _U64)
        error = gamma * reference.magnitude
        if reference.quantum is None:
            return np.zeros_like(error)
        if reference.quantum < -149:
            error = error + reference.terms * _PRODUCT_LOSS
        else:
            error = np.where(reference.magnitude <= 2.0 ** (F32_BITS + reference.quantum), 0.0, error)
        return np.where(reference.magnitude + error >= _F32_MAX, np.inf, error)


def rounded_sums_error(reference: Reference, error: Reals, dtype: str, slices: int) -> Reals:
    """A of step 5, given that of the steps before."""
    layout = format_of(dtype)
    growth = growth_of_rounded_sums(dtype, slices)
    half_subnormal = 2.0 ** (layout.min_normal_exponent - layout.fraction_bits - 1)
    with np.errstate(all="ignore"):
        rounded = np.minimum(growth * (reference.magnitude + error), MOST_WRONG * reference.magnitude)
        more = rounded + 2 * slices * half_subnormal
        if reference.quantum is None:
            more = np.zeros_like(error)
        else:
            fits = reference.magnitude <= 2.0 ** (layout.fraction_bits + 1 + reference.quantum)
            if reference.quantum >= layout.min_normal_exponent - layout.fraction_bits:
                more = np.where(fits & (error == 0), 0.0, more)
        largest = (1 + growth) * (reference.magnitude + error)
        return np.where(largest >= layout.max_finite, np.inf, error + more)


def growth_of_rounded_sums(dtype: str, slices: int) -> float:
    """The largest error of step 5 in shares of sum |terms|, the subnormal steps left out."""
    v = 2.0 ** -(format_of(dtype).fraction_bits + 1)
    return v + (1 + v) * min((slices - 1) * v, 1.0)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What results of one problem may be: everything about a comparison that no result is needed for.

    `error` is A of the module's head. `plain`: every exact value is finite, no partial sum may leave its format, and no
    NaN is excused. `meaningful`: of sums in 16 bits, that a result off by as much as the exact value is wrong for more
    than half of those elements for which more than one value is right. Else being within the bound shows nothing.
    """

    exact: Reals
    error: Reals
    least: Reals
    greatest: Reals
    overhang_nan: npt.NDArray[np.bool_]
    dtype: str
    exact_elements: int
    bound: float
    plain: bool
    meaningful: bool


def tolerance(reference: Reference, dtype: str, parts: int = 0, slices: int = 0) -> Tolerance:
    """Hold 16-bit results against the reference.

    `parts` counts the partial sums that are added in f32 beyond one, `slices` those that are added in 16 bits;
    a single one is rounded once and added to zero.
    """
    exact = reference.value
    error = accumulation_error(reference, parts)
    if slices > 1:
        error = rounded_sums_error(reference, error, dtype, slices)
    with np.errstate(all="ignore"):
        least = greatest = widen(narrow(exact, dtype), dtype)
        if error.any():
            least, greatest = widen(narrow(exact - error, dtype), dtype), widen(narrow(exact + error, dtype), dtype)
        measured = np.isfinite(exact) & np.isfinite(error)
        allowance = np.where(measured, np.maximum(np.maximum(greatest - exact, exact - least), 0.0), 0.0)
        allowance = np.where(np.isfinite(allowance), allowance, 0.0)
    return Tolerance(
        exact=exact,
        error=error,
        least=least,
        greatest=greatest,
        overhang_nan=reference.overhang_nan,
        dtype=dtype,
        exact_elements=int((least == greatest).sum()),
        bound=float(allowance.max(initial=0.0)),
        plain=bool(measured.all()) and not bool(reference.overhang_nan.any()),
        meaningful=slices <= 1 or _mostly_below(error, exact),
    )


def _mostly_below(error: Reals, exact: Reals) -> bool:
    """Whether most of the errors that there are stay below what they are errors of."""
    loose = np.isfinite(exact) & (error > 0)
    return bool(2 * (error[loose] >= np.abs(exact[loose])).sum() <= loose.sum())


def compare(result: Bits, reference: Reference, dtype: str, parts: int = 0, slices: int = 0) -> Comparison:
    """Hold one 16-bit result against the reference; the numbers are those of `tolerance`."""
    return judge(result, tolerance(reference, dtype, parts, slices))


def judge(result: Bits, allowed: Tolerance) -> Comparison:
    """Hold one 16-bit result against what is allowed."""
    got, exact, error = widen(result, allowed.dtype), allowed.exact, allowed.error
    with np.errstate(all="ignore"):
        fits = (got >= allowed.least) & (got <= allowed.greatest)
        distance = np.abs(got - exact)
        measured = np.isfinite(distance)
        if not allowed.plain:
            finite = np.isfinite(exact)
            overflowing = finite & np.isinf(error)
            fits = np.where(finite, fits, got == exact) | (np.isnan(exact) & np.isnan(got))
            fits |= overflowing | (allowed.overhang_nan & np.isnan(got))
            measured &= ~overflowing
        distance = np.where(measured, distance, 0.0)
        worst_use = 0.0
        inexact = measured & (error > 0)
        if inexact.any():
            beyond = distance - half_step(got, allowed.dtype)
            worst_use = float(np.divide(beyond, error, out=np.zeros_like(distance), where=inexact).max(initial=0.0))
    wrong = np.flatnonzero(~fits)
    first = int(wrong[0]) if wrong.size else None
    return Comparison(
        elements=result.size,
        wrong=int(wrong.size),
        exact_elements=allowed.exact_elements,
        worst_error=float(distance.max(initial=0.0)),
        worst_use=worst_use,
        bound=allowed.bound,
        first_wrong=None if first is None else tuple(int(i) for i in np.unravel_index(first, result.shape)),
        got=None if first is None else float(got.flat[first]),
        least=None if first is None else float(allowed.least.flat[first]),
        greatest=None if first is None else float(allowed.greatest.flat[first]),
    )
