"""Division by multiplication, on the host and as the kernels do it."""

from __future__ import annotations

import random

from aot.ir.builder import Builder
from aot.ir.values import Value, constant
from aot.kernels.arguments import listed, with_pairs
from aot.kernels.magic import Divisor, MagicDivisor, magic_pair
from grids.addressing import DIVIDEND_LIMIT
from tests.aot.ir.host import on_host

DIVISORS = (1, 2, 3, 5, 7, 9, 14, 56, 112, 641, 1000, 2**16 - 1, 2**16 + 1, 10**9 + 7, 2**30, 2**31 - 1)


def dividends(divisor: int) -> list[int]:
    """Where a wrong constant shows first: around multiples, and at the end of the range."""
    chance = random.Random(divisor)
    top = DIVIDEND_LIMIT - 1
    multiples = [chance.randrange(top // divisor + 1) * divisor for _ in range(20)]
    last = top // divisor * divisor
    near = [multiple + step for multiple in [*multiples, last, divisor] for step in (-1, 0, 1)]
    return [number for number in [0, 1, top, *near] if 0 <= number <= top]


def test_pairs_of_special_divisors() -> None:
    """One gives (1, 0), powers of two multiplier 1, and every multiplier fits a word."""
    assert magic_pair(1) == (1, 0)
    assert all(magic_pair(1 << shift) == (1, shift) for shift in range(31))
    assert all(0 < magic_pair(divisor)[0] < 2**32 for divisor in DIVISORS)


def test_folded_division() -> None:
    """With everything known the quotient and remainder are those of integer division."""
    b = Builder()
    for divisor in [*DIVISORS, *range(1, 200)]:
        pair = Divisor(constant(divisor), *map(constant, magic_pair(divisor)))
        for dividend in dividends(divisor):
            quotient, remainder = pair.divmod(b, constant(dividend))
            assert (quotient.const, remainder.const) == divmod(dividend, divisor)


def test_division_by_unknown_divisors() -> None:
    """The instructions give the same when divisor and dividend arrive at run time."""
    cases = [(divisor, dividend) for divisor in DIVISORS for dividend in dividends(divisor)[:12]]

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        results: list[Value] = []
        for start in range(0, len(inputs), 4):
            results += Divisor(*inputs[start : start + 3]).divmod(b, inputs[start + 3])
        return results

    flat = [word for divisor, dividend in cases for word in (divisor, *magic_pair(divisor), dividend)]
    out = on_host(program, flat)
    expected = [word for divisor, dividend in cases for word in divmod(dividend, divisor)]
    assert out == expected


def test_a_divisor_declares_values_and_reads_its_pair() -> None:
    """One object gives the two arguments, their values from that of the divisor, and the division by them."""
    groups = (("i32", "p_Wo p_Ho"), MagicDivisor("p_Wo", "m_Wo"), ("ptr", "A"))
    assert [(one.name, one.kind) for one in listed(groups).arguments] == [
        ("p_Wo", "i32"), ("p_Ho", "i32"), ("m_Wo_mult", "u32"), ("m_Wo_shift", "u32"), ("A", "ptr"),
    ]  # fmt: skip
    b = Builder()
    for divisor in DIVISORS:
        values = with_pairs(groups, {"p_Wo": divisor, "p_Ho": 0})
        args = {name: constant(value) for name, value in values.items()}
        for dividend in dividends(divisor):
            quotient, remainder = MagicDivisor("p_Wo", "m_Wo").of(args).divmod(b, constant(dividend))
            assert (quotient.const, remainder.const) == divmod(dividend, divisor)
