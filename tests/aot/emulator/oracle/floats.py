"""Bit patterns of binary floating-point formats and correctly rounded arithmetic on them, in plain Python.

Every value of the formats up to f64 is a Python float, so decoding is exact; encoding rounds once, to nearest even or
toward zero. A binary operation on f16, bf16 or f32 may be computed in f64 and rounded again: 53 >= 2 * 24 + 2 bits make
the double rounding harmless for + - * / and the square root. Fused operations go through exact fractions.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    """A binary interchange format: `precision` counts the implicit bit, `exponent_bits` the field."""

    name: str
    width: int
    precision: int
    exponent_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def mantissa_bits(self) -> int:
        return self.precision - 1

    @property
    def exponent_mask(self) -> int:
        return (1 << self.exponent_bits) - 1

    @property
    def mantissa_mask(self) -> int:
        return (1 << self.mantissa_bits) - 1

    @property
    def infinity(self) -> int:
        return self.exponent_mask << self.mantissa_bits

    @property
    def quiet_bit(self) -> int:
        return 1 << (self.mantissa_bits - 1)

    @property
    def quiet_nan(self) -> int:
        return self.infinity | self.quiet_bit

    @property
    def sign_bit(self) -> int:
        return 1 << (self.width - 1)


F16 = Format("f16", 16, 11, 5)
BF16 = Format("bf16", 16, 8, 8)
F32 = Format("f32", 32, 24, 8)
F64 = Format("f64", 64, 53, 11)
FORMATS = {form.name: form for form in (F16, BF16, F32, F64)}


def exponent_field(form: Format, bits: int) -> int:
    return (bits >> form.mantissa_bits) & form.exponent_mask


def is_nan(form: Format, bits: int) -> bool:
    return (bits & ~form.sign_bit) > form.infinity


def is_signalling(form: Format, bits: int) -> bool:
    return is_nan(form, bits) and not bits & form.quiet_bit


def is_denormal(form: Format, bits: int) -> bool:
    return exponent_field(form, bits) == 0 and bits & form.mantissa_mask != 0


def decode(form: Format, bits: int) -> float:
    """The value of a bit pattern; every NaN becomes the same Python NaN."""
    if form is F64:
        return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])
    exponent = exponent_field(form, bits)
    mantissa = bits & form.mantissa_mask
    if exponent == form.exponent_mask:
        value = math.nan if mantissa else math.inf
    elif exponent == 0:
        value = math.ldexp(mantissa, 1 - form.bias - form.mantissa_bits)
    else:
        value = math.ldexp(mantissa | (1 << form.mantissa_bits), exponent - form.bias - form.mantissa_bits)
    return -value if bits & form.sign_bit else value


def encode(form: Format, value: float | Fraction, *, negative_zero: bool = False, toward_zero: bool = False) -> int:
    """The bit pattern nearest to `value`. `negative_zero` gives the sign of an exact zero that comes as a fraction."""
    if isinstance(value, float):
        if math.isnan(value):
            return form.quiet_nan
        if math.isinf(value):
            return form.infinity | (form.sign_bit if value < 0 else 0)
        if value == 0.0:
            return form.sign_bit if math.copysign(1.0, value) < 0 else 0
        if form is F64:
            return int.from_bytes(struct.pack("<d", value), "little")
        value = Fraction(value)
    if value == 0:
        return form.sign_bit if negative_zero else 0
    sign = form.sign_bit if value < 0 else 0
    value = abs(value)
    exponent = _floor_log2(value)
    unit = max(exponent, 1 - form.bias) - form.mantissa_bits
    scaled = value / Fraction(2) ** unit
    mantissa = math.floor(scaled) if toward_zero else round(scaled)
    if mantissa == 0:
        return sign
    if mantissa >> form.precision:
        mantissa >>= 1
        unit += 1
    field = unit + form.mantissa_bits + form.bias if mantissa >> form.mantissa_bits else 0
    if field >= form.exponent_mask:
        return sign | (form.infinity - 1 if toward_zero else form.infinity)
    return sign | (field << form.mantissa_bits) | (mantissa & form.mantissa_mask)


def convert(source: Format, target: Format, bits: int, *, toward_zero: bool = False) -> int:
    """Format conversion that keeps the payload of a NaN and leaves a signalling one signalling."""
    if is_nan(source, bits):
        payload = bits & source.mantissa_mask
        shift = target.mantissa_bits - source.mantissa_bits
        payload = payload << shift if shift >= 0 else payload >> -shift
        sign = target.sign_bit if bits & source.sign_bit else 0
        return sign | target.infinity | (payload or target.quiet_bit)
    return encode(target, decode(source, bits), toward_zero=toward_zero)


def fused(form: Format, a: int, b: int, c: int) -> int:
    """a * b + c with one rounding."""
    x, y, z = decode(form, a), decode(form, b), decode(form, c)
    if not (math.isfinite(x) and math.isfinite(y)):
        return encode(form, x * y + z)
    if not math.isfinite(z):
        return encode(form, z)
    product = Fraction(x) * Fraction(y)
    total = product + Fraction(z)
    if total == 0:
        product_negative = math.copysign(1.0, x) * math.copysign(1.0, y) < 0
        z_negative = math.copysign(1.0, z) < 0
        return encode(form, total, negative_zero=product == 0 and z == 0 and product_negative and z_negative)
    return encode(form, total)


def flushed(form: Format, bits: int) -> int:
    """A denormal becomes the zero of its sign."""
    return bits & form.sign_bit if is_denormal(form, bits) else bits


def ulps_apart(form: Format, a: int, b: int) -> int:
    """Distance of two non-NaN patterns in units of the last place, across zero too."""

    def rank(bits: int) -> int:
        magnitude = bits & ~form.sign_bit
        return -magnitude if bits & form.sign_bit else magnitude

    return abs(rank(a) - rank(b))


def _floor_log2(value: Fraction) -> int:
    """The largest n with 2**n <= value, for a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1
