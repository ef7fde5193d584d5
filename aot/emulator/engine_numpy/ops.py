"""The primitives evaluated by numpy: arrays of 64 lanes, arrays of one element for scalars.

Slow and plain: the cross-check of the generated engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.emulator.isa.values import BITS, LANES, Ops, Value, is_float, is_signed

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "b1": np.dtype(np.bool_),
    "u16": np.dtype(np.uint16),
    "i16": np.dtype(np.int16),
    "u32": np.dtype(np.uint32),
    "i32": np.dtype(np.int32),
    "u64": np.dtype(np.uint64),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "ult": np.less,
    "ule": np.less_equal,
    "ugt": np.greater,
    "uge": np.greater_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "oeq": np.equal,
    "une": np.not_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
}
_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "lshr": np.right_shift,
    "ashr": np.right_shift,
}
_FLOAT_UNARY: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "sqrt": np.sqrt,
    "exp2": np.exp2,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
}


class NumpyOps(Ops):
    """Evaluates as it goes; `Value.ref` is the array."""

    def value(self, array: Array, type_: str) -> Value:
        return Value(self, type_, array.shape[0], array)

    def const(self, value: float, type_: str) -> Value:
        if not is_float(type_):
            value = int(value) & ((1 << BITS[type_]) - 1)
            unsigned = np.array([value], DTYPES["b1" if type_ == "b1" else f"u{BITS[type_]}"])
            return self.value(unsigned.view(DTYPES[type_]), type_)
        return self.value(np.array([value], DTYPES[type_]), type_)

    def binary(self, name: str, a: Value, b: Value) -> Value:
        assert a.type == b.type, (name, a.type, b.type)
        if name in _COMPARE:
            return self.value(_COMPARE[name](a.ref, b.ref), "b1")
        return self.value(_ARITHMETIC[name](a.ref, b.ref), a.type)

    def unary(self, name: str, a: Value) -> Value:
        if name in _FLOAT_UNARY:
            return self.value(_FLOAT_UNARY[name](a.ref).astype(DTYPES[a.type]), a.type)
        width = BITS[a.type]
        ones = (a.bits().ref[:, None] >> np.arange(width, dtype=DTYPES[f"u{width}"])) & 1
        if name == "ctpop":
            result = ones.sum(1)
        elif name == "cttz":
            result = np.where(ones.any(1), ones.argmax(1), width)
        elif name == "ctlz":
            result = np.where(ones.any(1), ones[:, ::-1].argmax(1), width)
        else:
            assert name == "bitreverse", name
            weights = DTYPES[f"u{width}"].type(1) << np.arange(width, dtype=DTYPES[f"u{width}"])[::-1]
            result = (ones * weights).sum(1, dtype=DTYPES[f"u{width}"])
        return self.value(result.astype(DTYPES[f"u{width}"]).view(DTYPES[a.type]), a.type)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        assert a.type == b.type, (a.type, b.type)
        return self.value(np.where(condition.ref, a.ref, b.ref), a.type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        if a.type == "f32":
            return self.value(fma_f32(a.ref, b.ref, c.ref), "f32")
        return self.value(fma_f64(*np.broadcast_arrays(a.ref, b.ref, c.ref)), "f64")

    def bitcast(self, a: Value, type_: str) -> Value:
        return self.value(a.ref.view(DTYPES[type_]), type_)

    def convert(self, a: Value, type_: str) -> Value:
        if is_float(a.type) and not is_float(type_):
            return self.value(_saturate(a.ref, type_), type_)
        return self.value(a.ref.astype(DTYPES[type_]), type_)

    def has_no_nan(self, value: Value) -> bool:
        return not np.isnan(value.ref).any()

    def lane_ids(self) -> Value:
        return self.value(np.arange(LANES, dtype=np.uint32), "u32")

    def lane_constants(self, values: Sequence[int], type_: str) -> Value:
        return self.value(np.array(values, DTYPES[type_]), type_)

    def shuffle(self, a: Value, lanes: Sequence[int]) -> Value:
        return self.value(self.splat(a).ref[np.array(lanes)], a.type)

    def permute(self, a: Value, lanes: Value) -> Value:
        return self.value(self.splat(a).ref[self.splat(lanes).ref.astype(np.int64)], a.type)

    def read_lane(self, a: Value, lane: Value) -> Value:
        at = int(lane.ref[0])
        return self.value(self.splat(a).ref[at : at + 1].copy(), a.type)

    def ballot(self, a: Value) -> Value:
        return self.value(np.packbits(self.splat(a).ref, bitorder="little").view(np.uint64), "u64")

    def unballot(self, a: Value) -> Value:
        return self.value(np.unpackbits(a.ref[:1].copy().view(np.uint8), bitorder="little").astype(np.bool_), "b1")

    def splat(self, a: Value) -> Value:
        return a if a.lanes == LANES else self.value(np.repeat(a.ref, LANES), a.type)


def _saturate(array: Array, type_: str) -> Array:
    bits = BITS[type_]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(type_) else (0, (1 << bits) - 1)
    wide = np.trunc(array.astype(np.float64))
    # 2^63 and 2^64 have no exact float64 maximum below them; the masks decide, the clipped value only has to be in
    # range.
    inside = np.clip(wide, float(low), np.nextafter(float(high) + 1, 0)) if bits == 64 else np.clip(wide, low, high)
    result = np.where(np.isnan(wide), 0, inside).astype(DTYPES[type_])
    result[wide > high] = high
    result[wide < low] = low
    return result


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """Correctly rounded f32 fma: exact product in f64, sum rounded to odd, then to f32."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    # TwoSum: what the rounding of the sum lost.
    addend_part = total - product
    lost = (product - (total - addend_part)) + (addend - addend_part)
    bits = np.atleast_1d(total).view(np.int64)
    inexact = np.isfinite(total) & (lost != 0) & ((bits & 1) == 0)
    # Toward the lost part: one step up in magnitude if it has the sign of the total, one down otherwise.
    step = np.where((lost > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64).astype(np.float32)


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Correctly rounded f64 fma by exact rational arithmetic, lane by lane."""
    from fractions import Fraction

    result = a * b + c
    # The exact product of finite factors is finite, even if it does not fit.
    result = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, result)
    for lane in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        exact = Fraction(float(a[lane])) * Fraction(float(b[lane])) + Fraction(float(c[lane]))
        if exact:
            try:
                result[lane] = float(exact)
            except OverflowError:
                result[lane] = np.inf if exact > 0 else -np.inf
    return result
