"""The builder: folding and merging must not change what a program computes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from aot.ir.builder import Builder
from aot.ir.types import I32
from aot.ir.values import Value, constant, poison
from tests.aot.ir.host import on_host

Operation = Callable[[Builder, Value, Value], Value]

OPERATIONS: dict[str, Operation] = {
    "add": lambda b, x, y: b.add(x, y),
    "sub": lambda b, x, y: b.sub(x, y),
    "mul": lambda b, x, y: b.mul(x, y),
    "shl": lambda b, x, y: b.shl(x, b.and_(y, 31)),
    "lshr": lambda b, x, y: b.lshr(x, b.and_(y, 31)),
    "ashr": lambda b, x, y: b.ashr(x, b.and_(y, 31)),
    "and": lambda b, x, y: b.and_(x, y),
    "or": lambda b, x, y: b.or_(x, y),
    "xor": lambda b, x, y: b.xor(x, y),
    "umulhi": lambda b, x, y: b.umulhi(x, y),
    "umin": lambda b, x, y: b.umin(x, y),
    **{
        predicate: lambda b, x, y, predicate=predicate: b.zext(b.icmp(predicate, x, y), I32)  # type: ignore[misc]
        for predicate in ("eq", "ne", "ult", "ule", "slt", "sle", "sgt", "sge", "ugt", "uge")
    },
    "select": lambda b, x, y: b.select(b.icmp("slt", x, y), x, b.add(y, 1)),
}
CORNERS = (0, 1, 2, 3, 8, 31, -1, -2, 2**31 - 1, -(2**31), 0x12345678)


@pytest.mark.parametrize("name", OPERATIONS)
def test_folding_agrees_with_the_machine(name: str) -> None:
    """With either operand known, or both, the result is that of the instruction on unknown operands."""
    operation = OPERATIONS[name]
    numbers = [*CORNERS, *(random.Random(name).randrange(-(2**31), 2**31) for _ in range(5))]
    pairs = [(x, y) for x in numbers for y in numbers]

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        results = []
        for (x, y), left, right in zip(pairs, inputs[::2], inputs[1::2], strict=True):
            results += [operation(b, left, right), operation(b, constant(x), right)]
            results += [operation(b, left, constant(y)), operation(b, constant(x), constant(y))]
        return results

    out = on_host(program, [number for pair in pairs for number in pair])
    for index, pair in enumerate(pairs):
        assert len(set(out[4 * index : 4 * index + 4])) == 1, (name, pair, out[4 * index : 4 * index + 4])


def test_known_operands_leave_no_instruction() -> None:
    """An operation on constants writes nothing."""
    b = Builder()
    for operation in OPERATIONS.values():
        assert operation(b, constant(5), constant(-3)).const is not None
    assert b.block.lines == []


def test_common_expressions_are_written_once() -> None:
    """Equal expressions of equal values are one instruction, whatever the order of commuting operands."""
    b = Builder()
    x, y = (b.effect(I32, "freeze i32 undef") for _ in range(2))
    lines = len(b.block.lines)
    assert b.add(x, y) == b.add(y, x)
    assert b.mul(b.add(y, x), 3) == b.mul(b.add(x, y), constant(3))
    assert len(b.block.lines) == lines + 2


def test_effects_are_never_merged() -> None:
    """Two loads of one place are two loads."""
    b = Builder()
    pointer = Value(I32, "%p")
    assert b.load(I32, pointer, 4) != b.load(I32, pointer, 4)


def test_expressions_of_a_scope_end_with_it() -> None:
    """What a region computes is not used behind it, where it may not dominate; what came before is used inside."""
    b = Builder()
    x = b.effect(I32, "freeze i32 undef")
    outer = b.add(x, 1)
    with b.scope():
        assert b.add(x, 1) == outer
        inner = b.add(x, 2)
    assert b.add(x, 2) != inner


def test_a_power_of_two_is_a_shift() -> None:
    """Multiplication and division by powers of two are shifts; others are refused as divisors."""
    b = Builder()
    x = b.effect(I32, "freeze i32 undef")
    b.mul(x, 8)
    b.udiv_pow2(x, 16)
    assert [line.split(" = ")[1].split()[0] for line in b.block.lines[1:]] == ["shl", "lshr"]
    with pytest.raises(AssertionError):
        b.udiv_pow2(x, 12)


def test_values_have_no_truth() -> None:
    """A value asked for its truth, as in `value or default` or `if a.icmp(b)`, is a mistake and not true."""
    for value in (constant(0), constant(1), poison(I32)):
        with pytest.raises(TypeError, match="no truth"):
            bool(value)
