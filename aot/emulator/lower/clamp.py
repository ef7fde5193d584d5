"""The clamp modifier: floats to [0, 1], sums and differences of integers to the range of their type."""

from __future__ import annotations

from aot.emulator.isa.values import BITS, Value, select


def clamp_float(value: Value) -> Value:
    """To [0, 1]; NaN becomes 0."""
    low = select(value > 0.0, value, value.ops.const(0.0, value.type))
    return select(low < 1.0, low, value.ops.const(1.0, value.type))


def clamped_integer(name: str, a: Value, b: Value) -> Value:
    """A saturating sum or difference."""
    wide = "i64"
    x, y = (
        a.to("i64") if a.type[0] == "i" else a.to("u64").cast(wide),
        b.to("i64") if b.type[0] == "i" else b.to("u64").cast(wide),
    )
    exact = x - y if "_sub_" in name else x + y
    bits = BITS[a.type]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if a.type[0] == "i" else (0, (1 << bits) - 1)
    return exact.max(low).min(high).to(a.type)
