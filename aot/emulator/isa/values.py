"""Typed values over abstract primitive operations: the language in which the instruction table is written.

A `Value` is a scalar or a vector of 64 lanes of one type. Python operators on it call the primitives of its `Ops`
back end, so that one semantic function serves every back end: `engine_numpy` evaluates it, `engine_llvm` writes LLVM
IR for it.

Types: b1; u16 i16 u32 i32 u64 i64; f16 f32 f64. The signedness of a type picks the comparison, the right shift, the
extension and the saturation. Mixed scalar and vector operands broadcast; Python numbers take the type of the other
operand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

LANES = 64

BITS = {"b1": 1, "u16": 16, "i16": 16, "u32": 32, "i32": 32, "u64": 64, "i64": 64, "f16": 16, "f32": 32, "f64": 64}
MANTISSA_BITS = {"f16": 10, "f32": 23, "f64": 52}


def is_float(type_: str) -> bool:
    return type_[0] == "f"


def is_signed(type_: str) -> bool:
    return type_[0] == "i"


class Value:
    """A typed scalar (lanes 1) or wave-wide vector (lanes 64); `ref` belongs to the back end."""

    __slots__ = ("lanes", "ops", "ref", "type")

    def __init__(self, ops: Ops, type_: str, lanes: int, ref: Any) -> None:
        self.ops, self.type, self.lanes, self.ref = ops, type_, lanes, ref

    def _with(self, name: str, other: Value | float) -> Value:
        return self.ops.binary(name, self, self.ops.like(other, self))

    def _float(self, name: str, other: Value | float) -> Value:
        """Float arithmetic; a number in the program is no NaN."""
        return settled(self._with(name, other), self, *([other] if isinstance(other, Value) else []))

    def _pick(self, signed: str, unsigned: str, floating: str) -> str:
        return floating if is_float(self.type) else signed if is_signed(self.type) else unsigned

    def __add__(self, other: Value | float) -> Value:
        return self._float("fadd", other) if is_float(self.type) else self._with("add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._float("fsub", other) if is_float(self.type) else self._with("sub", other)

    def __rsub__(self, other: float) -> Value:
        return self.ops.like(other, self) - self

    def __mul__(self, other: Value | float) -> Value:
        return self._float("fmul", other) if is_float(self.type) else self._with("mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._float("fdiv", other)

    def __rtruediv__(self, other: float) -> Value:
        return self.ops.like(other, self) / self

    def __and__(self, other: Value | int) -> Value:
        return self._with("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._with("xor", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._with("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._with(self._pick("ashr", "lshr", ""), other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.type == "b1" else -1)

    def __neg__(self) -> Value:
        if not is_float(self.type):
            return self.ops.like(0, self) - self
        bits = self.bits()
        return (bits ^ (1 << (BITS[self.type] - 1))).cast(self.type)

    def __abs__(self) -> Value:
        if not is_float(self.type):
            return select(self < 0, -self, self)
        bits = self.bits()
        return (bits & ((1 << (BITS[self.type] - 1)) - 1)).cast(self.type)

    def __lt__(self, other: Value | float) -> Value:
        return self._with(self._pick("slt", "ult", "olt"), other)

    def __le__(self, other: Value | float) -> Value:
        return self._with(self._pick("sle", "ule", "ole"), other)

    def __gt__(self, other: Value | float) -> Value:
        return self._with(self._pick("sgt", "ugt", "ogt"), other)

    def __ge__(self, other: Value | float) -> Value:
        return self._with(self._pick("sge", "uge", "oge"), other)

    def eq(self, other: Value | float) -> Value:
        return self._with("oeq" if is_float(self.type) else "eq", other)

    def ne(self, other: Value | float) -> Value:
        """Not equal; true for unordered floats."""
        return self._with("une" if is_float(self.type) else "ne", other)

    def is_nan(self) -> Value:
        return self.ne(self)

    def cast(self, type_: str) -> Value:
        """The same bits as another type of the same width."""
        if type_ == self.type:
            return self
        assert BITS[type_] == BITS[self.type], (self.type, type_)
        return self.ops.bitcast(self, type_)

    def bits(self) -> Value:
        """The bits as an unsigned integer."""
        return self.cast(f"u{BITS[self.type]}")

    def to(self, type_: str) -> Value:
        """Numeric conversion: extension by the signedness of the source, truncation, rounding to nearest even; float to
        integer truncates, saturates and turns NaN into 0."""
        if type_ == self.type:
            return self
        if not is_float(type_) and not is_float(self.type) and BITS[type_] == BITS[self.type]:
            return self.cast(type_)
        converted = self.ops.convert(self, type_)
        return _settled_conversion(converted, self) if is_float(type_) and is_float(self.type) else converted

    def min(self, other: Value | int) -> Value:
        """Integer minimum."""
        other = self.ops.like(other, self)
        return select(self < other, self, other)

    def max(self, other: Value | int) -> Value:
        """Integer maximum."""
        other = self.ops.like(other, self)
        return select(self > other, self, other)

    def unary(self, name: str) -> Value:
        result = self.ops.unary(name, self)
        return settled(result, self) if is_float(self.type) else result

    def floor(self) -> Value:
        return self.unary("floor")

    def ceil(self) -> Value:
        return self.unary("ceil")

    def trunc(self) -> Value:
        return self.unary("trunc")

    def rint(self) -> Value:
        """Round to nearest even."""
        return self.unary("rint")

    def sqrt(self) -> Value:
        return self.unary("sqrt")

    def popcount(self) -> Value:
        return self.unary("ctpop")

    def clz(self) -> Value:
        """Leading zeros; the width for 0."""
        return self.unary("ctlz")

    def ctz(self) -> Value:
        """Trailing zeros; the width for 0."""
        return self.unary("cttz")

    def reverse_bits(self) -> Value:
        return self.unary("bitreverse")


class Ops(ABC):
    """The primitives a back end supplies. Operands of `binary` and `select` have equal types; lanes may differ."""

    @abstractmethod
    def const(self, value: float, type_: str) -> Value:
        """A scalar constant; integers wrap to the type."""

    @abstractmethod
    def binary(self, name: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def unary(self, name: str, a: Value) -> Value: ...

    @abstractmethod
    def select(self, condition: Value, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a*b+c of f32 or f64 with one rounding."""

    @abstractmethod
    def bitcast(self, a: Value, type_: str) -> Value: ...

    @abstractmethod
    def convert(self, a: Value, type_: str) -> Value: ...

    @abstractmethod
    def lane_ids(self) -> Value:
        """u32 0..63."""

    @abstractmethod
    def lane_constants(self, values: Sequence[int], type_: str) -> Value:
        """A vector of 64 constants."""

    @abstractmethod
    def shuffle(self, a: Value, lanes: Sequence[int]) -> Value:
        """Lane l takes a[lanes[l]], lanes known now."""

    @abstractmethod
    def permute(self, a: Value, lanes: Value) -> Value:
        """Lane l takes a[lanes[l]], lanes u32 in 0..63 known at run time."""

    @abstractmethod
    def read_lane(self, a: Value, lane: Value) -> Value:
        """The scalar a[lane]."""

    @abstractmethod
    def ballot(self, a: Value) -> Value:
        """b1 vector to scalar u64, bit l from lane l."""

    @abstractmethod
    def unballot(self, a: Value) -> Value:
        """Scalar u64 to b1 vector."""

    @abstractmethod
    def splat(self, a: Value) -> Value:
        """The vector of a scalar (a vector as it is)."""

    def has_no_nan(self, _value: Value) -> bool:
        """Whether a float is known to be none in any lane."""
        return False

    def like(self, value: Value | float, other: Value) -> Value:
        """A Python number as a constant of the type of another value."""
        return value if isinstance(value, Value) else self.const(value, other.type)


def select(condition: Value, a: Value | float, b: Value | float) -> Value:
    """Lane-wise a where condition, else b."""
    if not isinstance(a, Value):
        assert isinstance(b, Value)
        a = condition.ops.like(a, b)
    return condition.ops.select(condition, a, condition.ops.like(b, a))


def default_nan(type_: str) -> int:
    """The bits of the NaN of an invalid operation: quiet and negative, as the manual has it for divisions."""
    return (1 << BITS[type_]) - (1 << (MANTISSA_BITS[type_] - 1))


def settled(result: Value, *sources: Value) -> Value:
    """A result of float arithmetic whose NaN does not depend on the host: the first operand that is a NaN, made quiet,
    else the default. The manual says that operands are propagated, not which of several."""
    if result.ops.has_no_nan(result):
        return result
    wide = f"u{BITS[result.type]}"
    nan = result.ops.const(default_nan(result.type), wide)
    for source in reversed(sources):
        nan = select(source.is_nan(), source.bits() | (1 << (MANTISSA_BITS[source.type] - 1)), nan)
    return select(result.is_nan(), nan, result.bits()).cast(result.type)


def _settled_conversion(result: Value, source: Value) -> Value:
    """The same for a conversion between float types: sign and upper payload of the source, made quiet."""
    if result.ops.has_no_nan(result):
        return result
    from_bits, to_bits = MANTISSA_BITS[source.type], MANTISSA_BITS[result.type]
    wide = f"u{max(BITS[source.type], BITS[result.type])}"
    bits = source.bits().to(wide)
    payload = bits & ((1 << from_bits) - 1)
    payload = payload << (to_bits - from_bits) if to_bits > from_bits else payload >> (from_bits - to_bits)
    sign = (bits >> (BITS[source.type] - 1)) & 1
    quiet_infinity = (1 << (BITS[result.type] - 1)) - (1 << (to_bits - 1))
    nan = (payload | quiet_infinity | (sign << (BITS[result.type] - 1))).to(f"u{BITS[result.type]}")
    return select(source.is_nan(), nan, result.bits()).cast(result.type)


def fma(a: Value, b: Value, c: Value) -> Value:
    """a*b+c with a single rounding, for f16, f32 and f64."""
    if a.type == "f16":
        # The product and any sum that does not overflow f16 fit in 53 bits, so one rounding to f16 remains.
        wide = [a.ops.convert(value, "f64") for value in (a, b, c)]
        return settled(f64_to_f16(a.ops.fma(*wide)), a, b, c)
    return settled(a.ops.fma(a, b, c), a, b, c)


def f64_to_f32_odd(a: Value) -> Value:
    """f64 to f32 rounding to odd, so that a later rounding to a narrower type is correct. NaN is any NaN."""
    nearest = a.ops.convert(a, "f32")
    back = a.ops.convert(nearest, "f64")
    bits = nearest.bits()
    toward_zero = select(abs(back) > abs(a), bits - 1, bits)
    inexact = back.ne(a) & ~a.is_nan()
    return select(inexact, toward_zero | 1, bits).cast("f32")


def f64_to_f16(a: Value) -> Value:
    return _settled_conversion(a.ops.convert(f64_to_f32_odd(a), "f16"), a)


def pack64(low: Value, high: Value) -> Value:
    """Two u32 to one u64."""
    return low.bits().to("u64") | (high.bits().to("u64") << 32)


def low32(a: Value) -> Value:
    return a.bits().to("u32")


def high32(a: Value) -> Value:
    return (a.bits() >> 32).to("u32")


def low16(a: Value) -> Value:
    return a.bits().to("u16")


def high16(a: Value) -> Value:
    return (a.bits() >> 16).to("u16")


def pack32(low: Value, high: Value) -> Value:
    """Two 16-bit values to one u32."""
    return low.bits().to("u32") | (high.bits().to("u32") << 16)
