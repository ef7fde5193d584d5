"""Counters in mixed radix, advanced again and again, against the digits of the place by division."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from aot.ir.builder import Builder
from aot.ir.values import Value, constant
from aot.kernels.arguments import K_COUNTER as FORWARD_ELEMENT
from aot.kernels.arguments import forward_arguments
from aot.kernels.counter import NOWHERE, OFFSET, Counter, Radix
from aot.kernels.dgrad_streams import TAP_COUNTER, tap_steps
from aot.kernels.wgrad_arguments import K_COUNTER as PIXEL
from aot.kernels.wgrad_arguments import N_COUNTER as COLUMN
from aot.kernels.wgrad_arguments import wgrad_arguments
from tests.aot.ir.host import on_host

WORD = 2**32
ADVANCES = 12


@dataclass(frozen=True)
class Case:
    """A counter of one problem, the distance it goes and where it begins."""

    counter: Counter
    radices: dict[str, Radix]
    distance: int
    start: int

    def registers(self, place: int) -> dict[str, int]:
        """What the registers hold at a place, by definition; NOWHERE behind the end of a counter that has one."""
        found, offset, left = {}, 0, place
        for number, (name, radix) in enumerate(self.radices.items()):
            digit = left if number == len(self.radices) - 1 else left % radix.count
            left //= radix.count
            offset += digit * radix.unit_bytes
            ended = self.counter.nowhere is not None and self.counter.nowhere[0] == name and digit >= radix.count
            if name in self.counter.steps:
                found[name] = NOWHERE if ended else digit * radix.unit + radix.origin
        return found | {OFFSET: offset % WORD}


def element(rng: random.Random, counter: Counter) -> Case:
    """Channels, filter columns and rows, dilated; the bytes of any image, which are no multiples of one another."""
    channels, columns, rows = rng.choice([1, 3, 8, 33, 100]), rng.randint(1, 5), rng.randint(1, 4)
    radices = {
        "c": Radix(channels, 2),
        "x": Radix(columns, rng.randrange(2**20), rng.randint(1, 3)),
        "y": Radix(rows, rng.randrange(2**26), rng.randint(1, 3)),
    }
    return Case(counter, radices, rng.choice([1, 16, 32, 64, 128]), rng.randrange(channels * columns * rows))


def pixel(rng: random.Random, counter: Counter) -> Case:
    """Output columns, rows and images, with strides and pads."""
    columns, rows = rng.randint(1, 40), rng.randint(1, 20)
    radices = {
        "w": Radix(columns, rng.randrange(2**16), rng.randint(1, 3), -rng.randint(0, 4)),
        "h": Radix(rows, rng.randrange(2**20), rng.randint(1, 3), -rng.randint(0, 4)),
        "image": Radix(9, rng.randrange(2**28)),
    }
    return Case(counter, radices, rng.choice([16, 32, 64]), rng.randrange(columns * rows * 2))


KINDS = {"forward": (FORWARD_ELEMENT, element), "pixel": (PIXEL, pixel), "column": (COLUMN, element)}


def cases(kind: str, count: int) -> list[Case]:
    counter, make = KINDS[kind]
    rng = random.Random(kind)
    return [make(rng, counter) for _ in range(count)]


def walked(b: Builder, counter: Counter, args: Mapping[str, Value], start: Mapping[str, Value]) -> list[Value]:
    """The registers of all advances in a row."""
    at = dict(start)
    passed: list[Value] = []
    for _ in range(ADVANCES):
        at, _ = counter.advance(b, args, at)
        passed += at.values()
    return passed


def expected(case: Case) -> list[int]:
    return [
        word % WORD
        for advance in range(1, ADVANCES + 1)
        for word in case.registers(case.start + advance * case.distance).values()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_counters_count(kind: str) -> None:
    """Digits and offset of every place on the way are those of the place itself, however often digits carry."""
    carried = 0
    for case in cases(kind, 300):
        args = {name: constant(value) for name, value in case.counter.values(case.distance, case.radices).items()}
        start = {name: constant(word) for name, word in case.registers(case.start).items()}
        found = [value.const for value in walked(Builder(), case.counter, args, start)]
        assert [word % WORD for word in found if word is not None] == expected(case), case
        slowest = case.counter.digits[-1].moves[0][0] if kind != "pixel" else "h"
        carried += case.registers(case.start + case.distance)[slowest] != case.registers(case.start)[slowest]
    assert carried > 100


@pytest.mark.parametrize("kind", KINDS)
def test_the_instructions_count_too(kind: str) -> None:
    """The same where the kernel knows neither radices nor place."""
    for case in cases(kind, 4):
        values, registers = case.counter.values(case.distance, case.radices), case.registers(case.start)

        def program(
            b: Builder, inputs: list[Value], case: Case = case, names: tuple[str, ...] = (*values, *registers)
        ) -> list[Value]:
            known = dict(zip(names, inputs, strict=True))
            return walked(b, case.counter, known, {name: known[name] for name in case.registers(0)})

        assert on_host(program, [word % WORD for word in (*values.values(), *registers.values())]) == expected(case)


def test_values_are_what_kernels_are_given() -> None:
    """Every name that a counter reads is an argument of its kernels."""
    for counter, declared in (
        (FORWARD_ELEMENT, forward_arguments()),
        (PIXEL, wgrad_arguments()),
        (COLUMN, wgrad_arguments()),
    ):
        kind = "pixel" if counter is PIXEL else "column"
        case = cases(kind, 1)[0]
        assert set(counter.values(case.distance, case.radices)) <= set(declared.names)


def test_the_counter_of_a_record_counts() -> None:
    """Backward data works its steps out on the device; what leaves xdot is one row of taps."""
    rng, b, carried = random.Random(9), Builder(), 0
    for _ in range(200):
        filters, columns, tile = rng.choice([1, 5, 8, 40, 96]), rng.randint(1, 4), rng.choice([16, 32, 64])
        unit = {"k": rng.randrange(2**12), "x": rng.randrange(2**16), "y": rng.randrange(2**20)}
        digits = (tile // filters // columns, tile // filters % columns, tile % filters)
        steps = tap_steps(
            b,
            (constant(digits[0]), constant(digits[1]), constant(digits[2])),
            (constant(unit["y"]), constant(unit["x"]), constant(unit["k"])),
            (constant(columns), constant(filters)),
        )
        place = rng.randrange(filters * columns)
        k, x = place % filters, place // filters
        at = {"k": constant(k), "x": constant(x), OFFSET: constant(k * unit["k"] + x * unit["x"])}
        y = constant(0)
        for _ in range(ADVANCES):
            at, carry = TAP_COUNTER.advance(b, steps, at)
            y = carry.move(b, b.add(y, digits[0]), constant(1))
            place += tile
            k, x, row = place % filters, place // filters % columns, place // filters // columns
            assert (at["k"].const, at["x"].const, y.const) == (k, x, row)
            offset = at[OFFSET].const
            assert offset is not None
            assert offset % WORD == (k * unit["k"] + x * unit["x"] + row * unit["y"]) % WORD
            carried += row > 0
    assert carried > 200
