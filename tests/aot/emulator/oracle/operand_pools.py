"""Operands that find mistakes: the corners of each type, crossed, and random patterns with a fixed seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tests.aot.emulator.oracle import floats

Bits = npt.NDArray[np.uint64]

_INTEGERS_32 = (
    0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 63, 64, 65, 96, 127, 128, 255, 256, 0x7FFF,
    0x8000, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF0000,
    0xFFFF8000, 0xFFFFFF80, 0xFFFFFFE0, 0xFFFFFFFE, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA, 0x00FF00FF, 0x7FFF8000,
    0x80007FFF, 0x80008000, 0x7FFF7FFF,
)  # fmt: skip
_INTEGERS_64 = (
    0, 1, 2, 31, 32, 33, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
    0x8000000000000000, 0x8000000000000001, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF00000000,
    0x5555555555555555, 0xAAAAAAAAAAAAAAAA,
)  # fmt: skip
_NUMBERS = (
    0.0, 1.0, 0.5, 0.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 0.49999997, 0.75, 1.0000001, 1.9999999, 0.1, 10.0, 100.0,
    127.5, 128.0, 255.0, 255.5, 256.0, 1000.0, 32767.0, 32768.0, 65503.9, 65504.0, 65519.99, 65520.0, 65535.0,
    65536.0, 8388607.5, 8388608.0, 16777215.0, 16777216.0, 2147483520.0, 2147483648.0, 4294967040.0,
    4294967296.0, 9.2e18, 1e20, 1e30, 3.4028235e38, 1e-3, 1e-5, 6.1035156e-05, 6.0975552e-05, 5.9604645e-08,
    2.9802322e-08, 1e-10, 1e-30, 1.17549435e-38,
)  # fmt: skip


def float_corners(form: floats.Format) -> list[int]:
    """Signed numbers of all sizes, zeros, denormals, infinities, quiet and signalling NaNs."""
    bits = [floats.encode(form, number) for number in _NUMBERS]
    bits += [1, 2, form.mantissa_mask, form.mantissa_mask + 1, form.mantissa_mask >> 1, form.infinity - 1]
    bits += [form.infinity, form.quiet_nan, form.quiet_nan | 5, form.infinity | 1]
    return bits + [pattern | form.sign_bit for pattern in bits]


def corners(kind: str) -> list[int]:
    """Bit patterns of a type of the pseudocode: f32, i32, u64, and so on."""
    if kind in floats.FORMATS:
        return float_corners(floats.FORMATS[kind])
    width = int(kind.lstrip("uibf"))
    if width == 64:
        return [*_INTEGERS_64, *_INTEGERS_32]
    return [value & ((1 << width) - 1) for value in _INTEGERS_32]


def draw(rng: np.random.Generator, kind: str, bits: int, count: int) -> Bits:
    """`count` patterns of `bits` bits: a type narrower than that fills each of its elements, two thirds are corners."""
    width = int(kind.lstrip("uibf"))
    pool = np.array(corners(kind), np.uint64)
    result = np.zeros(count, np.uint64)
    for low in range(0, bits, width):
        random = rng.integers(0, 1 << min(width, 63), count, dtype=np.uint64)
        if width == 64:
            random ^= rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(63)
        if kind in floats.FORMATS:
            # Exponents near that of 1, so that sums and products stay in range and cancel.
            form = floats.FORMATS[kind]
            near = rng.integers(form.bias - 12, form.bias + 13, count).astype(np.uint64) << np.uint64(
                form.mantissa_bits
            )
            narrow = (random & np.uint64(form.mantissa_mask | form.sign_bit)) | near
            random = np.where(rng.random(count) < 0.5, narrow, random)
        chosen = np.where(rng.random(count) < 0.6, pool[rng.integers(0, len(pool), count)], random)
        result |= chosen << np.uint64(low)
    return result
