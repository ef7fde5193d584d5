"""Division by a launch constant as multiply, add and shift.

For a divisor d: shift s is the smallest with 2^s >= d, mult = floor((2^s - d) * 2^32 / d) + 1, and
x // d == (umulhi(x, mult) + x) >> s for 0 <= x < 2^31 (Granlund and Montgomery, "Division by invariant integers using
multiplication", with the dividend bounded so that the 32-bit sum cannot wrap).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.values import Value


def magic_pair(divisor: int) -> tuple[int, int]:
    """(mult, shift) of a divisor >= 1; mult is an unsigned 32-bit number."""
    shift = (divisor - 1).bit_length()
    return (((1 << shift) - divisor) << 32) // divisor + 1, shift


@dataclass(frozen=True, slots=True)
class Divisor:
    """A divisor and its magic pair, in registers; equal in all lanes."""

    value: Value
    mult: Value
    shift: Value

    def divmod(self, b: Builder, dividend: Value) -> tuple[Value, Value]:
        """Quotient and remainder of an unsigned dividend below 2^31."""
        quotient = b.lshr(b.add(b.umulhi(dividend, self.mult), dividend), self.shift)
        return quotient, b.sub(dividend, b.mul(quotient, self.value))


@dataclass(frozen=True, slots=True)
class MagicDivisor:
    """A divisor among the arguments of a kernel: `divisor` names it, `pair` begins the names of its magic pair."""

    divisor: str
    pair: str

    @property
    def names(self) -> tuple[str, str]:
        """The arguments that the pair takes, both u32; the divisor is declared by whoever else needs it."""
        return f"{self.pair}_mult", f"{self.pair}_shift"

    def values(self, values: Mapping[str, int]) -> dict[str, int]:
        """The pair for the divisor that is among these values."""
        return dict(zip(self.names, magic_pair(values[self.divisor]), strict=True))

    def of(self, args: Mapping[str, Value]) -> Divisor:
        """The divisor and its pair as the kernel has them."""
        mult, shift = self.names
        return Divisor(args[self.divisor], args[mult], args[shift])
