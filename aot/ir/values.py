"""SSA values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from aot.ir.types import I1, I32, Type


@dataclass(frozen=True, slots=True)
class Value:
    """A typed operand. Integer constants carry their value, in signed form, for folding."""

    type: Type
    text: str
    const: int | None = None

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    def __bool__(self) -> bool:
        # Neither a zero nor a missing value: what was meant is a comparison, in the kernel or with None.
        raise TypeError(f"the value {self} of a kernel has no truth while the kernel is being built")


#: A value that is asked for where it is first used: a kernel argument is loaded there, and takes no register before.
Late = Callable[[], Value]


def late(args: Mapping[str, Value], name: str) -> Late:
    """An argument, loaded where it is first used."""
    return lambda: args[name]


def at_once(value: Value) -> Late:
    """A value that is there already."""
    return lambda: value


@lru_cache(maxsize=4096)
def constant(number: int, type_: Type = I32) -> Value:
    """An integer constant, wrapped to the width of its type."""
    if type_ == I1:
        return Value(I1, "true" if number & 1 else "false", number & 1)
    half = 1 << (type_.bits - 1)
    wrapped = ((number + half) & (2 * half - 1)) - half
    return Value(type_, str(wrapped), wrapped)


def zero(type_: Type) -> Value:
    """The all-zero value of a vector or floating-point type."""
    return constant(0, type_) if type_.is_integer else Value(type_, "zeroinitializer" if type_.lanes > 1 else "0.0")


def poison(type_: Type) -> Value:
    """A value that nobody reads."""
    return Value(type_, "poison")


def unsigned(value: Value) -> int:
    """The constant of a value as an unsigned number; the value must be constant."""
    assert value.const is not None
    return value.const & ((1 << value.type.bits) - 1)
