"""The 16-bit formats against exact rational arithmetic and numpy's own half precision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from aot.runtime.float16 import FORMATS, format_of, half_step, narrow, quantum_exponent, quiet_nan, widen
from cache_schema.errors import UnknownValueError

EVERY_PATTERN = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_every_pattern_survives_the_round_trip(dtype: str) -> None:
    """Widening is exact and narrowing undoes it, for every non-NaN pattern; NaNs stay NaN."""
    values = widen(EVERY_PATTERN, dtype)
    back = narrow(values, dtype)
    number = ~np.isnan(values)
    assert np.array_equal(back[number], EVERY_PATTERN[number])
    assert np.isnan(widen(back[~number], dtype)).all()
    assert (~number).sum() == 2 * ((1 << format_of(dtype).fraction_bits) - 1)


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_narrowing_rounds_once_to_nearest_even(dtype: str) -> None:
    """Midpoints of neighbours go to the even one, and a nudge below what f32 can see decides against a tie."""
    generator = np.random.default_rng(5)
    positive = np.unique(generator.integers(1, 0x7FFF & ~((1 << format_of(dtype).fraction_bits) - 1), 4000))
    low_bits = positive.astype(np.uint16)
    low, high = widen(low_bits, dtype), widen(low_bits + np.uint16(1), dtype)
    usable = np.isfinite(high)
    low_bits, low, high = low_bits[usable], low[usable], high[usable]
    middle = (low + high) / 2
    even = np.where(low_bits & 1, low_bits + 1, low_bits)
    assert np.array_equal(narrow(middle, dtype), even)
    assert np.array_equal(narrow(np.nextafter(middle, np.inf), dtype), low_bits + 1)
    assert np.array_equal(narrow(np.nextafter(middle, 0), dtype), low_bits)
    assert np.array_equal(narrow(-middle, dtype), even | 0x8000)


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_narrowing_is_nearest_for_random_values(dtype: str) -> None:
    """No representable neighbour is closer than the chosen value, in exact rational arithmetic."""
    generator = np.random.default_rng(7)
    values = generator.standard_normal(300) * 2.0 ** generator.integers(-20, 15, 300)
    for value, bits in zip(values.tolist(), narrow(values, dtype).tolist(), strict=True):
        magnitude = bits & 0x7FFF
        around = np.array([max(magnitude - 1, 0), magnitude, magnitude + 1], dtype=np.uint16)
        distances = [abs(Fraction(abs(value)) - Fraction(near)) for near in widen(around, dtype).tolist()]
        assert distances[1] == min(distances)


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_overflow_and_specials(dtype: str) -> None:
    """Half a step beyond the largest finite value is infinity, just below it is not; scalars of shape () work too."""
    layout = format_of(dtype)
    step = layout.max_finite - float(widen(narrow(np.array([layout.max_finite]), dtype) - np.uint16(1), dtype)[0])
    edge = layout.max_finite + step / 2
    values = np.array([edge, np.nextafter(edge, 0), -np.inf, np.nan, 0.0])
    assert np.array_equal(
        widen(narrow(values, dtype), dtype), [np.inf, layout.max_finite, -np.inf, np.nan, 0.0], equal_nan=True
    )
    assert narrow(np.array(np.nan), dtype) == quiet_nan(dtype)
    assert np.isnan(widen(np.array([quiet_nan(dtype)], dtype=np.uint16), dtype)).all()


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_quantum_divides_every_value(dtype: str) -> None:
    """Every finite value is an integer multiple of the quantum, and at least one is an odd multiple."""
    generator = np.random.default_rng(11)
    for _ in range(50):
        bits = generator.integers(0, 1 << 16, 7).astype(np.uint16)
        exponent = quantum_exponent(bits, dtype)
        finite = [value for value in widen(bits, dtype).tolist() if np.isfinite(value) and value]
        assert exponent is not None
        multiples = [Fraction(value) / Fraction(2) ** exponent for value in finite]
        assert all(multiple.denominator == 1 for multiple in multiples)
        assert any(multiple.numerator % 2 for multiple in multiples)
    assert quantum_exponent(np.array([0, 0x8000], dtype=np.uint16), dtype) is None


def test_unknown_format_is_named() -> None:
    """A type that is no 16-bit format is a typed error."""
    with pytest.raises(UnknownValueError, match="fp32"):
        format_of("fp32")


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_half_steps_reach_half_way_to_the_next_value(dtype: str) -> None:
    """For every finite value, subnormals and zero included."""
    positive = np.arange(0x7FFF, dtype=np.uint16)
    values, above = widen(positive, dtype), widen(positive + np.uint16(1), dtype)
    usable = np.isfinite(above)
    values, above = values[usable], above[usable]
    assert np.array_equal(half_step(values, dtype) * 2, above - values)
    assert np.array_equal(half_step(-values, dtype), half_step(values, dtype))
