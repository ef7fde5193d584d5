"""Division by a launch constant as multiply, add and shift.

For a divisor d: shift s is the smallest with 2^s >= d, mult = floor((2^s - d) * 2^32 / d) + 1, and
x // d == (umulhi(x, mult) + x) >> s for 0 <= x < 2^31 (Granlund and Montgomery, "Division by invariant integers using
multiplication", with the dividend bounded so that the 32-bit sum cannot wrap).
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.values import Value


def magic_pair(divisor: int) -> tuple[int, int]:
    """(mult, shift) of a divisor >= 1; mult is an unsigned 32-bit number."""
    shift = (divisor - 1).bit_length()
    return (((1 << shift) - divisor) << 32) // divisor + 1, shift


def magic_values(**divisors: int) -> dict[str, int]:
    """The arguments `<name>_mult` and `<name>_shift` of each divisor."""
    values: dict[str, int] = {}
    for name, divisor in divisors.items():
        values[f"{name}_mult"], values[f"{name}_shift"] = magic_pair(divisor)
    return values


@dataclass(frozen=True, slots=True)
class Divisor:
    """A divisor as three kernel arguments: itself and its magic pair."""

    value: Value
    mult: Value
    shift: Value

    def divmod(self, b: Builder, dividend: Value) -> tuple[Value, Value]:
        """Quotient and remainder of an unsigned dividend below 2^31."""
        quotient = b.lshr(b.add(b.umulhi(dividend, self.mult), dividend), self.shift)
        return quotient, b.sub(dividend, b.mul(quotient, self.value))
