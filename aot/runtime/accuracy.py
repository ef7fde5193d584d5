"""How accurate the result of a plan is before anybody has run it, and what a caller may demand of it.

Errors are in units of the last place (ulp) of the 16-bit result, at its exact value, which is taken to be in the upper
half of its binade, where partial sums share its unit for longest. A result is `terms` products summed one after the
other in f32, `partial_sums` of which are summed in f32 and `rounded_sums` of which are summed by 16-bit atomics, each
of them and each sum rounded. Let q be a f32 ulp in ulps of the result: 2**-16 for bf16, 2**-13 for fp16. One rounding
to nearest is uniform within half a unit: rms 1/sqrt(12), `ONE_ROUNDING`.

*Random signs.* Independent addends of mean zero; rounding errors are independent too (Higham and Mary, A new approach
to probabilistic rounding error analysis, 2019). The i-th of m partial sums has the rms size sqrt(i/m) of the last, so
m - 1 additions have the variance of (m + 1)/2 - 1/m roundings of the last one.

*One sign.* Positive addends, of which the i-th partial sum is i/m of the last. In the binade b below the last lie
floor(m/2**b) - floor(m/2**(b+1)) of them, with units 2**b times smaller. Products of one distribution differ by as much
as they are large, which makes their rounding errors independent, until the unit of the sum is twice a product, from
2**24 products on: from there they are lost alike. Sums of long slices are nearly equal (law of large numbers): the
additions of one binade are off by the *same* amount each, rms 1/sqrt(12) units, in one direction. That is the
stagnation of 16-bit atomics: 512 equal slices of 64 in bf16 stop at 16,384 of 32,768, 64 ulps off; the model says 76.
It is never below the random one in 16 bits; `expected_ulps` is the larger of both.

*Worst case.* For every order of m additions the error is at most (m - 1) u sum |terms|, u half a unit at 1 (Jeannerod
and Rump, Improved error bounds for inner products in floating-point arithmetic, 2013), and one addition to nearest is
off by at most either addend. Stated for sum |terms| = |result|; where terms cancel it counts in ulps of sum |terms|.
`aot.runtime.bounds` judges results by it, with the sums that they really had.

The 16-bit atomics of two slices commute and have expected errors of less than two roundings; three have more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.runtime.bounds import growth_of_rounded_sums
from aot.runtime.float16 import format_of
from aot.runtime.reference import F32_BITS
from cache_schema.errors import DeliveryError, RequestError
from grids.geometry import MAX_GRID

#: Rms error of one rounding to nearest, in ulps.
ONE_ROUNDING = 12**-0.5
#: A plan is not chosen where another one is expected to be this many times as accurate.
MOST_TIMES_THE_BEST = 2.0
#: Slices whose 16-bit or f32 atomics give equal bits in every order: 0 + a + b.
COMMUTING_SLICES = 2
#: Products of one sign from which on f32 sums lose them alike.
STAGNATION_TERMS = 1 << F32_BITS
#: Variance of m independent additions of one sign: the sum of m/2 * 8**-b over all binades, in roundings of the last.
_ONE_SIGN_SHARE = 4 / 7
#: No sum has more addends: 32-bit sizes.
_BINADES = 32

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class AccuracyError(DeliveryError):
    """No plan is as accurate as demanded."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of a plan in ulps of its result, as the module's head defines them."""

    random_ulps: float
    expected_ulps: float
    worst_ulps: float

    def to_json(self) -> dict[str, float]:
        """Plain data, rounded to what a model is good for."""
        return {name: float(f"{getattr(self, name):.3g}") for name in self.__slots__}


EXACT = Accuracy(0.0, 0.0, 0.0)


def accuracy_of(dtype: str, *, terms: int, partial_sums: int = 0, rounded_sums: int = 0) -> Accuracy:
    """The errors of one summation; `partial_sums` and `rounded_sums` are 0 where nothing is split."""
    q, slices = _f32_ulp(dtype), max(rounded_sums, 1)
    sixteen = 1 + _random_roundings(slices) if slices > 1 else 1.0
    f32 = q**2 * (_random_roundings(terms) + _random_roundings(partial_sums))
    random = ONE_ROUNDING * (sixteen + f32) ** 0.5
    expected = float(expected_ulps(dtype, terms=terms, partial_sums=partial_sums, rounded_sums=rounded_sums))
    layout = format_of(dtype)
    last = growth_of_rounded_sums(dtype, slices) * 2.0 ** (layout.fraction_bits + 1) if slices > 1 else 0.5
    return Accuracy(random, max(expected, random), last + q * (terms + partial_sums))


def expected_ulps(dtype: str, *, terms: Any, partial_sums: Any, rounded_sums: Any) -> Floats:
    """The error with one sign; integers or columns of them."""
    terms, parts, slices = (np.asarray(count, dtype=np.int64) for count in (terms, partial_sums, rounded_sums))
    lost = np.maximum(terms - STAGNATION_TERMS, 0)
    f32 = _f32_ulp(dtype) ** 2 * (_ONE_SIGN_SHARE * terms + lost.astype(np.float64) ** 2 + _alike(parts))
    error: Floats = ONE_ROUNDING * np.sqrt(1 + _alike(slices) + f32)
    return error


@cache
def most_slices(limit_ulps: float) -> int:
    """The most slices that 16-bit atomics may add for an expected error within a limit; at least 1."""
    counts = np.arange(1, MAX_GRID + 1)
    return max(1, int((ONE_ROUNDING * np.sqrt(1 + _alike(counts)) <= limit_ulps).sum()))


def _f32_ulp(dtype: str) -> float:
    return 2.0 ** (format_of(dtype).fraction_bits + 1 - F32_BITS)


def _random_roundings(addends: int) -> float:
    """Roundings of the last sum that the additions are worth, with random signs."""
    return (addends + 1) / 2 - 1 / addends if addends > 1 else 0.0


def _alike(addends: Counts) -> Floats:
    """The same for equal addends of one sign, whose errors add up within a binade; the first is added to zero."""
    total = np.zeros(addends.shape)
    for binade in range(_BINADES):
        here = addends >> binade
        count = here - (here >> 1) - (here == 1)
        total += (count * 0.5**binade) ** 2
    return total


@dataclass(frozen=True, slots=True)
class Demand:
    """What a caller wants of the numbers.

    Nothing said, a plan must not be expected to be more than `MOST_TIMES_THE_BEST` as wrong as the best that serves.
    `max_error` in ulps replaces that, `fast` drops it. `deterministic`: equal runs give equal bits.
    """

    max_error: float | None = None
    deterministic: bool = False
    fast: bool = False

    def __post_init__(self) -> None:
        if self.max_error is not None and self.fast:
            raise RequestError("a largest error and fast accuracy exclude each other")
        if self.max_error is not None and not self.max_error >= ONE_ROUNDING:
            raise RequestError(
                f"largest error {self.max_error} ulps: one rounding is expected to be {ONE_ROUNDING:.3f} off"
            )

    @property
    def atomic_slices(self) -> int:
        """The most slices that 16-bit atomics may be told to add."""
        if self.deterministic:
            return COMMUTING_SLICES
        if self.fast:
            return MAX_GRID
        return most_slices(MOST_TIMES_THE_BEST * ONE_ROUNDING if self.max_error is None else self.max_error)

    def replica_slices(self, replicas: Any) -> Any:
        """The most slices that f32 atomics may be told to add to this many replicas."""
        return COMMUTING_SLICES * replicas if self.deterministic else 0 * replicas + MAX_GRID

    def admits(self, expected: Floats, deterministic: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of all plans for one problem may be chosen."""
        mask = deterministic | (not self.deterministic)
        if self.fast or not mask.any():
            return mask
        limit = self.max_error if self.max_error is not None else MOST_TIMES_THE_BEST * float(expected[mask].min())
        return mask & (expected <= limit)

    def require(self, expected: float, deterministic: bool) -> None:
        """Hold one plan against what was demanded in so many words; AccuracyError where it falls short."""
        if self.max_error is not None and expected > self.max_error:
            raise AccuracyError(f"the plan's expected error is {expected:.3g} ulps, {self.max_error:g} are allowed")
        if self.deterministic and not deterministic:
            raise AccuracyError("the plan does not give equal bits in equal runs: atomics add up in no fixed order")


BY_DEFAULT = Demand()
