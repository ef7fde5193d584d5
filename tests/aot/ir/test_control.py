"""Structured control flow, executed."""

from __future__ import annotations

import pytest

from aot.ir.builder import Builder
from aot.ir.control import Loop, if_else, if_then
from aot.ir.types import I32
from aot.ir.values import Value, constant
from tests.aot.ir.host import on_host


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_loop_carries_and_returns(count: int) -> None:
    """The body runs until its condition fails, at least once; results are those of the last round."""

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        with Loop(b, [constant(0), constant(0)]) as loop:
            index, total = loop.carried
            index, total = b.add(index, 1), b.add(total, b.mul(index, index))
            loop.repeat_if(b.icmp("slt", index, inputs[0]), [index, total], [total, index])
        return loop.results

    assert on_host(program, [count]) == [sum(i * i for i in range(count)), count]


@pytest.mark.parametrize("count", range(1, 8))
def test_a_loop_is_left_in_its_middle(count: int) -> None:
    """Two halves per round: an odd count leaves after the first half, with that half's results."""

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        with Loop(b, [inputs[0], constant(0)]) as loop:
            left, trace = loop.carried
            for half in (1, 2):
                trace, left = b.add(b.mul(trace, 3), half), b.sub(left, 1)
                if half == 1:
                    loop.leave_if(b.icmp("slt", left, 1), [trace])
            loop.repeat_if(b.icmp("sgt", left, 0), [left, trace], [trace])
        return loop.results

    trace = 0
    for index in range(count):
        trace = trace * 3 + 1 + index % 2
    assert on_host(program, [count]) == [trace]


def test_loops_nest() -> None:
    """An inner loop uses what the outer one carries."""

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        with Loop(b, [constant(0), constant(0)]) as outer:
            i, total = outer.carried
            with Loop(b, [constant(0), total]) as inner:
                j, partial = inner.carried
                j, partial = b.add(j, 1), b.add(partial, b.add(b.mul(i, 10), j))
                inner.repeat_if(b.icmp("slt", j, inputs[1]), [j, partial], [partial])
            i = b.add(i, 1)
            outer.repeat_if(b.icmp("slt", i, inputs[0]), [i, inner.results[0]], inner.results)
        return outer.results

    assert on_host(program, [3, 4]) == [sum(10 * i + j for i in range(3) for j in range(4))]


@pytest.mark.parametrize("flag", [0, 1])
def test_branches_merge(flag: int) -> None:
    """Results come from the branch that ran; a result that both share needs no phi."""

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        shared = b.add(inputs[1], 1)
        chosen = b.icmp("ne", inputs[0], 0)
        return if_else(b, chosen, lambda: [b.mul(shared, 2), shared], lambda: [b.sub(shared, 2), shared])

    assert on_host(program, [flag, 9]) == [20 if flag else 8, 10]


def test_a_region_may_be_skipped() -> None:
    """`if_then` stores only where its condition holds."""

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        place = b.effect(I32, "alloca i32").text
        pointer = Value(type(I32)("ptr", 64), place)
        b.store(constant(1), pointer, 4)
        for value, flag in ((5, inputs[0]), (7, inputs[1])):
            if_then(b, b.icmp("ne", flag, 0), lambda value=value: b.store(constant(value), pointer, 4))  # type: ignore[misc]
        return [b.load(I32, pointer, 4)]

    assert on_host(program, [1, 0]) == [5]
