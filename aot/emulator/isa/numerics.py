"""Arithmetic that several instructions share, stated over `Value`: minima, IEEE fields, 16-bit packing,
approximations."""

from __future__ import annotations

import math

from aot.emulator.isa.values import BITS, MANTISSA_BITS, Value, f64_to_f16, select


def quiet(a: Value) -> Value:
    """A NaN made quiet; other values as they are."""
    mantissa = MANTISSA_BITS[a.type]
    return select(a.is_nan(), a.bits() | (1 << (mantissa - 1)), a.bits()).cast(a.type)


def is_signalling(a: Value) -> Value:
    """A NaN whose top mantissa bit is clear."""
    return a.is_nan() & ((a.bits() >> (MANTISSA_BITS[a.type] - 1)) & 1).eq(0)


def _signalling_first(a: Value, b: Value, otherwise: Value) -> Value:
    """In IEEE mode a signalling NaN is the result, made quiet; the first operand's before the second's."""
    return select(is_signalling(a), quiet(a), select(is_signalling(b), quiet(b), otherwise))


def fmin(a: Value, b: Value) -> Value:
    """IEEE minNum, -0 below +0."""
    negative = a.bits() >> (BITS[a.type] - 1)
    lower = (a < b) | (a.eq(b) & negative.ne(0))
    return _signalling_first(a, b, select(b.is_nan() | lower, a, b))


def fmax(a: Value, b: Value) -> Value:
    """IEEE maxNum, +0 above -0."""
    negative = b.bits() >> (BITS[a.type] - 1)
    higher = (a > b) | (a.eq(b) & negative.ne(0))
    return _signalling_first(a, b, select(b.is_nan() | higher, a, b))


def minimum(a: Value, b: Value) -> Value:
    """IEEE-754-2019 minimum: a NaN operand wins."""
    return select(a.is_nan(), quiet(a), select(b.is_nan(), quiet(b), fmin(a, b)))


def maximum(a: Value, b: Value) -> Value:
    """IEEE-754-2019 maximum: a NaN operand wins."""
    return select(a.is_nan(), quiet(a), select(b.is_nan(), quiet(b), fmax(a, b)))


def median(a: Value, b: Value, c: Value) -> Value:
    """v_med3 for floats: the minimum of all if any is NaN, else the middle one."""
    nan = a.is_nan() | b.is_nan() | c.is_nan()
    middle = fmax(fmin(a, b), fmin(fmax(a, b), c))
    return select(nan, fmin(fmin(a, b), c), middle)


def exponent_bits(a: Value) -> Value:
    """The biased exponent field as i32."""
    mantissa = MANTISSA_BITS[a.type]
    field = (a.bits() >> mantissa) & ((1 << (BITS[a.type] - 1 - mantissa)) - 1)
    return field.to("u32").cast("i32") if BITS[a.type] != 32 else field.cast("i32")


def is_infinite(a: Value) -> Value:
    return abs(a).eq(math.inf)


def is_denormal(a: Value) -> Value:
    return exponent_bits(a).eq(0) & a.ne(0.0)


def flush(a: Value) -> Value:
    """Denormals to zero of the same sign."""
    sign = a.bits() & (1 << (BITS[a.type] - 1))
    return select(exponent_bits(a).eq(0), sign, a.bits()).cast(a.type)


def power_of_two(exponent: Value) -> Value:
    """2^exponent as f64 for an i32 exponent in the normal range of f64."""
    return ((exponent.to("i64") + 1023) << 52).cast("f64")


def ldexp(a: Value, exponent: Value) -> Value:
    """a times 2^exponent, rounded once for f16 and f32; f64 rounds a denormal result in its last step."""
    if a.type == "f64":
        clamped = exponent.max(-2200).min(2200)
        quarter = clamped >> 2
        step = power_of_two(quarter)
        return a * step * step * step * power_of_two(clamped - quarter - quarter - quarter)
    scaled = a.to("f64") * power_of_two(exponent.max(-600).min(600))
    return f64_to_f16(scaled) if a.type == "f16" else scaled.to("f32")


def frexp_mantissa(a: Value) -> Value:
    """The mantissa in [0.5, 1), of infinities and NaN themselves."""
    special = ~(abs(a) < math.inf) | a.eq(0.0)
    wide = a.to("f64") if a.type != "f64" else select(is_denormal(a), a * (2.0**64), a)
    fraction = ((wide.bits() & ~(0x7FF << 52)) | (1022 << 52)).cast("f64")
    narrow = f64_to_f16(fraction) if a.type == "f16" else fraction.to(a.type)
    return select(special, quiet(a), narrow)


def frexp_exponent(a: Value) -> Value:
    """The i32 exponent that belongs to `frexp_mantissa`; 0 for infinities, NaN and zero."""
    special = ~(abs(a) < math.inf) | a.eq(0.0)
    if a.type == "f64":
        denormal = is_denormal(a)
        wide = select(denormal, a * (2.0**64), a)
        exponent = exponent_bits(wide) - 1022 - select(denormal, a.ops.const(64, "i32"), a.ops.const(0, "i32"))
    else:
        exponent = exponent_bits(a.to("f64")) - 1022
    return select(special, a.ops.const(0, "i32"), exponent)


def fract(a: Value) -> Value:
    """a - floor(a), kept below 1."""
    below_one = {"f16": 1 - 2.0**-11, "f32": 1 - 2.0**-24, "f64": 1 - 2.0**-53}[a.type]
    difference = a - a.floor()
    # An infinite operand gives NaN, which must not be replaced by the bound.
    return select(difference > below_one, a.ops.const(below_one, a.type), difference)


def via_f64(a: Value, name: str) -> Value:
    """A function of f64 rounded to the type of a."""
    wide = a.to("f64").unary(name)
    return f64_to_f16(wide) if a.type == "f16" else wide.to(a.type)


def flushing(a: Value, compute: Value) -> Value:
    """The f32 approximations take and give denormals as zero, whatever the mode says."""
    return flush(compute) if a.type == "f32" else compute


def _flushed(a: Value) -> Value:
    return flush(a) if a.type == "f32" else a


def exp2(a: Value) -> Value:
    a = _flushed(a)
    return flushing(a, via_f64(a, "exp2"))


def log2(a: Value) -> Value:
    a = _flushed(a)
    return flushing(a, via_f64(a, "log2"))


def sqrt(a: Value) -> Value:
    a = _flushed(a)
    return flushing(a, a.sqrt() if a.type != "f16" else via_f64(a, "sqrt"))


def rcp(a: Value) -> Value:
    a = _flushed(a)
    if a.type == "f16":
        return f64_to_f16(1.0 / a.to("f64"))
    return flushing(a, 1.0 / a)


def rsq(a: Value) -> Value:
    a = _flushed(a)
    wide = 1.0 / a.to("f64").unary("sqrt")
    return f64_to_f16(wide) if a.type == "f16" else flushing(a, wide.to(a.type))


def turns(a: Value, name: str) -> Value:
    """sin or cos of 2*pi*a; beyond 256 turns the argument counts as 0."""
    a = _flushed(a)
    wide = a.to("f64")
    # Times zero: 0 for a large argument, NaN for infinity and NaN.
    angle = select(abs(wide) <= 256.0, wide - wide.floor(), wide * 0.0)
    value = (angle * (2 * math.pi)).unary(name)
    return f64_to_f16(value) if a.type == "f16" else value.to(a.type)


def bf16_bits(a: Value) -> Value:
    """f32 to the u16 bits of bf16, to nearest even; NaN stays a quiet NaN."""
    bits = a.bits()
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return select(a.is_nan(), (bits >> 16) | 0x40, rounded).to("u16")


def bf16_value(bits: Value) -> Value:
    """u16 bits of bf16 to f32."""
    return (bits.to("u32") << 16).cast("f32")


def f16_toward_zero(a: Value) -> Value:
    """f32 to f16 rounding toward zero; overflow gives the largest finite value."""
    nearest = a.to("f16")
    back = nearest.to("f32")
    too_far = (abs(back) > abs(a)) & (abs(a) < math.inf)
    return select(too_far, nearest.bits() - 1, nearest.bits()).cast("f16")


def saturate(a: Value, low: int, high: int) -> Value:
    return a.max(low).min(high)
