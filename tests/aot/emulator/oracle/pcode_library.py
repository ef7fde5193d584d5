"""The functions that the pseudocode calls without stating them: conversions, classifications, elementary functions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from tests.aot.emulator.oracle import floats
from tests.aot.emulator.oracle.pcode_values import PcodeUnsupportedError, Value, integer, of_float, type_of


def call(name: str, arguments: list[Value], environment: dict[str, Any]) -> Value:
    """Evaluates a named function; raises PcodeUnsupportedError for one that is not modelled."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*arguments)
    if name == "CalcDsAddr":
        address, low, high = (argument.number for argument in arguments)
        return integer("u", 32, address + low + (high << 8))
    if re.fullmatch(r"Calc\w+Addr", name):
        # The address forms are the business of whoever set up the case.
        known = environment["ADDRESS"]
        assert isinstance(known, Value)
        return known
    conversion = re.fullmatch(r"([a-z]+\d+)_to_([a-z]+\d+)", name)
    if conversion is not None:
        source, target = type_of(conversion.group(1)), type_of(conversion.group(2))
        if source is not None and target is not None:
            mode = environment.get("ROUND_MODE")
            toward_zero = isinstance(mode, Value) and mode.bits == 3
            return converted(arguments[0], source, target, toward_zero=toward_zero)
    if name in ("f32_to_snorm", "f16_to_snorm", "f32_to_unorm", "f16_to_unorm"):
        return _normalised(arguments[0], signed=name.endswith("snorm"))
    raise PcodeUnsupportedError(f"function {name}")


def converted(value: Value, source: tuple[str, int], target: tuple[str, int], *, toward_zero: bool = False) -> Value:
    """Numeric conversion. Float to integer cuts toward zero, saturates, and gives 0 for a NaN."""
    kind, width = target
    if value.is_float:
        if kind in ("f", "bf"):
            form = floats.FORMATS[f"{kind}{width}"]
            return Value(kind, width, floats.convert(value.form, form, value.bits, toward_zero=toward_zero))
        return saturated(value.real, kind, width)
    number = integer(source[0], source[1], value.number).number
    if kind in ("f", "bf"):
        form = floats.FORMATS[f"{kind}{width}"]
        return of_float(form, float(number))
    low, high = _limits(kind, width)
    return integer(kind, width, min(max(number, low), high))


def saturated(number: float, kind: str, width: int) -> Value:
    if math.isnan(number):
        return integer(kind, width, 0)
    low, high = _limits(kind, width)
    return integer(kind, width, low if number <= low else high if number >= high else math.trunc(number))


def _limits(kind: str, width: int) -> tuple[int, int]:
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind == "i" else (0, (1 << width) - 1)


def _normalised(value: Value, *, signed: bool) -> Value:
    """Fixed point of 16 bits: the range [-1, 1] or [0, 1] scaled by 32767 or 65535, nearest even."""
    number = 0.0 if math.isnan(value.real) else min(max(value.real, -1.0 if signed else 0.0), 1.0)
    return integer("i" if signed else "u", 16, round(number * (32767 if signed else 65535)))


def _like(value: Value, number: float) -> Value:
    return of_float(value.form, number)


def _integral(function: Callable[[float], int]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        if not math.isfinite(value.real):
            return value
        return _like(value, math.copysign(float(function(value.real)), value.real))

    return apply


def _floor(value: Value) -> Value:
    if not math.isfinite(value.real):
        return value
    whole = float(math.floor(value.real))
    return _like(value, math.copysign(0.0, value.real) if whole == 0 else whole)


def _fract(value: Value) -> Value:
    if not math.isfinite(value.real):
        return _like(value, math.nan)
    return _like(value, value.real - math.floor(value.real))


def _sign(value: Value) -> Value:
    return integer("u", 1, value.bits >> (value.width - 1))


def _mantissa(value: Value) -> Value:
    """The significand of frexp: magnitude in [0.5, 1), sign kept."""
    return _like(value, math.frexp(value.real)[0])


def _fma(a: Value, b: Value, c: Value) -> Value:
    return Value(a.kind, a.width, floats.fused(a.form, a.bits, b.bits, c.bits))


def _ldexp(value: Value, exponent: Value) -> Value:
    if value.real == 0 or not math.isfinite(value.real):
        return value
    from fractions import Fraction

    return of_float(value.form, Fraction(value.real) * Fraction(2) ** exponent.number)


def _signext_from_bit(value: Value, width: Value) -> Value:
    """The low `width` bits sign-extended; 0 bits give 0, more bits than there are give the value."""
    bits = width.number
    if bits == 0:
        return integer(value.kind, value.width, 0)
    if bits >= value.width:
        return value
    low = value.bits & ((1 << bits) - 1)
    return integer("i", value.width, low - (1 << bits) if low >> (bits - 1) else low)


def _lowest_one(value: Value) -> Value:
    return integer("i", 32, (value.bits & -value.bits).bit_length() - 1)


def _real(function: Callable[[float], float]) -> Callable[[Value], Value]:
    return lambda value: _like(value, function(value.real))


def _log2(x: float) -> float:
    if x == 0:
        return -math.inf
    return math.nan if x < 0 or math.isnan(x) else math.log2(x)


def _power(base: Value, exponent: Value) -> Value:
    try:
        return _like(exponent, math.pow(base.real, exponent.real))
    except OverflowError:
        return _like(exponent, math.inf)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "isNAN": lambda x: integer("u", 1, floats.is_nan(x.form, x.bits)),
    "isSignalNAN": lambda x: integer("u", 1, floats.is_signalling(x.form, x.bits)),
    "isQuietNAN": lambda x: integer("u", 1, floats.is_nan(x.form, x.bits) and bool(x.bits & x.form.quiet_bit)),
    "cvtToQuietNAN": lambda x: Value(x.kind, x.width, x.bits | x.form.quiet_bit),
    "exponent": lambda x: integer("i", 32, floats.exponent_field(x.form, x.bits)),
    "mantissa": _mantissa,
    "sign": _sign,
    "abs": lambda x: Value(x.kind, x.width, x.bits & ~(1 << (x.width - 1))),
    "trunc": _integral(math.trunc),
    "floor": _floor,
    "fract": _fract,
    "isEven": lambda x: integer("u", 1, math.isfinite(x.real) and x.real % 2 == 0),
    "sqrt": _real(lambda x: math.sqrt(x) if x >= 0 else math.nan if x != 0 else x),
    "log2": _real(_log2),
    "pow": _power,
    "sin": _real(lambda x: math.sin(x) if math.isfinite(x) else math.nan),
    "cos": _real(lambda x: math.cos(x) if math.isfinite(x) else math.nan),
    "fma": _fma,
    "ldexp": _ldexp,
    "signext": lambda x: integer("i", 64, integer("i", x.width, x.bits).number),
    "signext_from_bit": _signext_from_bit,
    "bitCount": lambda x: integer("u", 32, x.bits.bit_count()),
    "s_ff1_i32_b64": _lowest_one,
}
