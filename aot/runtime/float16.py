"""The two 16-bit floating-point formats as bit patterns, with exact conversions.

numpy has no bfloat16, so 16-bit tensors are `uint16` arrays everywhere; the arithmetic is done on float64. Every
narrowing here rounds once, to nearest and ties to even, whatever the width of its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.errors import UnknownValueError

Bits = npt.NDArray[np.uint16]
Reals = npt.NDArray[np.float64]

#: Elements of a large tensor that are worked on at a time: what is needed beside them stays small beside the tensor.
SLICE_ELEMENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class Format:
    """Fraction bits and exponent bias of a format with one sign bit and 16 bits in all."""

    fraction_bits: int
    bias: int

    @property
    def significant_bits(self) -> int:
        """Bits of a normal number, the leading one included."""
        return self.fraction_bits + 1

    @property
    def max_finite(self) -> float:
        """Largest finite value."""
        largest_exponent = (1 << (15 - self.fraction_bits)) - 2 - self.bias
        return (2 - 2.0**-self.fraction_bits) * 2.0**largest_exponent

    @property
    def min_normal_exponent(self) -> int:
        """Exponent of the smallest normal value; subnormals are multiples of `2 ** (this - fraction_bits)`."""
        return 1 - self.bias


FORMATS = {"fp16": Format(10, 15), "bf16": Format(7, 127)}


def format_of(dtype: str) -> Format:
    """The format of this name."""
    if dtype not in FORMATS:
        raise UnknownValueError("16-bit data type", dtype, FORMATS)
    return FORMATS[dtype]


def widen(bits: Bits, dtype: str) -> Reals:
    """Values of bit patterns; exact, NaN stays NaN."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        if format_of(dtype) is FORMATS["fp16"]:
            return bits.view(np.float16).astype(np.float64)
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def narrow(values: npt.NDArray[Any], dtype: str) -> Bits:
    """Nearest 16-bit values, ties to even, overflow to infinity; any NaN becomes the quiet NaN of the format."""
    reals = np.asarray(values, dtype=np.float64)
    result = np.empty(reals.shape, np.uint16)
    flat, bits = reals.reshape(-1), result.reshape(-1)
    for start in range(0, flat.size, SLICE_ELEMENTS):
        part = slice(start, start + SLICE_ELEMENTS)
        bits[part] = _narrow(flat[part], dtype)
    return result


def _narrow(reals: Reals, dtype: str) -> Bits:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if format_of(dtype) is FORMATS["fp16"]:
            bits = reals.astype(np.float16).view(np.uint16)
        else:
            bits = _bf16_of_f32(_f32_rounded_to_odd(reals))
    return np.where(np.isnan(reals), np.uint16(quiet_nan(dtype)), bits)


def largest(bits: Bits, dtype: str) -> float:
    """The largest magnitude; NaN if there is a NaN, 0 if there is nothing."""
    flat = bits.reshape(-1)
    parts = (flat[i : i + SLICE_ELEMENTS] & np.uint16(0x7FFF) for i in range(0, flat.size, SLICE_ELEMENTS))
    patterns = np.array([max((int(part.max()) for part in parts), default=0)], np.uint16)
    return float(widen(patterns, dtype)[0])


def is_finite(bits: Bits, dtype: str) -> npt.NDArray[np.bool_]:
    """Neither an infinity nor a NaN."""
    exponent = np.uint16(0x7FFF & ~((1 << format_of(dtype).fraction_bits) - 1))
    finite: npt.NDArray[np.bool_] = (bits & exponent) != exponent
    return finite


def quiet_nan(dtype: str) -> int:
    """Bit pattern of the positive quiet NaN without payload."""
    return 0x7FFF & ~((1 << (format_of(dtype).fraction_bits - 1)) - 1)


def _f32_rounded_to_odd(reals: Reals) -> npt.NDArray[np.uint32]:
    """f32 bit patterns: exact, or the neighbour towards zero with its last bit set.

    Rounding such a value again to a format with at least two bits less gives what one rounding would have given.
    """
    nearest = np.atleast_1d(reals.astype(np.float32))
    bits = nearest.view(np.uint32).reshape(reals.shape)
    back = nearest.astype(np.float64).reshape(reals.shape)
    inexact = (back != reals) & ~np.isnan(reals)
    away = inexact & (np.abs(back) > np.abs(reals))
    return np.where(inexact, (bits - away.astype(np.uint32)) | np.uint32(1), bits)


def _bf16_of_f32(bits: npt.NDArray[np.uint32]) -> Bits:
    """Upper halves of f32 bit patterns, rounded to nearest even; a NaN gives any pattern."""
    wide = bits.astype(np.uint64)
    rounded = wide + np.uint64(0x7FFF) + (wide >> np.uint64(16) & np.uint64(1))
    return (rounded >> np.uint64(16)).astype(np.uint16)


def quantum_exponent(bits: Bits, dtype: str) -> int | None:
    """Largest e such that every finite value is a multiple of 2**e; None when all of them are zero."""
    layout = format_of(dtype)
    flat = bits.reshape(-1)
    parts = [np.unique(flat[i : i + SLICE_ELEMENTS] & np.uint16(0x7FFF)) for i in range(0, flat.size, SLICE_ELEMENTS)]
    magnitude = np.unique(np.concatenate([np.zeros(0, np.uint16), *parts])).astype(np.int64)
    exponent = magnitude >> layout.fraction_bits
    finite = (magnitude != 0) & (exponent != (0x7FFF >> layout.fraction_bits))
    exponent, magnitude = exponent[finite], magnitude[finite]
    if not exponent.size:
        return None
    significand = (magnitude & ((1 << layout.fraction_bits) - 1)) | (
        (exponent > 0).astype(np.int64) << layout.fraction_bits
    )
    lowest_set = np.log2((significand & -significand).astype(np.float64)).astype(np.int64)
    return int((np.maximum(exponent, 1) - layout.bias - layout.fraction_bits + lowest_set).min())


def half_step(values: Reals, dtype: str) -> Reals:
    """Half the distance from representable values to their neighbours of larger magnitude."""
    layout = format_of(dtype)
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    lowest = np.maximum(exponent - 1, layout.min_normal_exponent)
    step: Reals = np.ldexp(0.5, np.where(values == 0, layout.min_normal_exponent, lowest) - layout.fraction_bits)
    return step
