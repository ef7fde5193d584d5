"""Counters in mixed radix: places that move by one distance again and again, without a division.

A place is a few digits, fastest first, such as (channel, x, y), and a byte offset that depends on them linearly; each
is a register of its own. A digit is kept in the unit in which it is used: a filter column times its dilation, an output
column as the image column that it meets. An advance adds the digits of the distance; a digit that reaches its end gives
its extent back and moves the digit above it, and the offset by what one unit above is further than all units below.

The digits of the distance and what carries add are worked out on the host where it knows the radices (`values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.ir.builder import Builder
from aot.ir.types import I32
from aot.ir.values import Value

#: The byte offset among the registers of a counter.
OFFSET = "offset"
#: Image coordinate outside of every image, also after adding a tap.
NOWHERE = 2**30

_WORD = 2**32


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit that carries. All but `name` are names of arguments, in the unit of what they are about.

    `moves` are (register, by how much) of a carry, in the order of the instructions. The digit counts from 0 to
    `extent` unless it has another `end`: it then counts from end - extent.
    """

    name: str
    extent: str
    moves: tuple[tuple[str, str], ...]
    end: str | None = None


@dataclass(frozen=True, slots=True)
class Radix:
    """A digit on the host: how many values it has, what one of them is in its register and in bytes, and register 0.

    A digit that no register holds has a unit of no consequence.
    """

    count: int
    unit_bytes: int
    unit: int = 1
    origin: int = 0


@dataclass(frozen=True, slots=True)
class Carry:
    """What left a digit: a condition, or (`by_sign`) a word of all ones where nothing did."""

    word: Value
    by_sign: bool

    def move(self, b: Builder, value: Value, amount: Value) -> Value:
        """The value moved by a carry. By sign, the amount is in it already and is taken back where there was none."""
        if self.by_sign:
            return b.add(value, b.and_(self.word, b.sub(0, amount)))
        if amount.const == 1:
            return b.add(value, b.zext(self.word, I32))
        return b.add(value, b.select(self.word, amount, 0))


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter; `steps` name the argument by which an advance without carries moves each register.

    `early` registers are stepped before the first carry is known, else a register is stepped where it may first be
    moved by a carry. `nowhere` is (slowest digit, its extent) of a counter that ends: from there on the digit is
    NOWHERE, and stays there. With `by_sign` there are no conditions, each of which takes a pair of scalar registers;
    digits then begin at 0.
    """

    steps: Mapping[str, str]
    digits: tuple[Digit, ...]
    early: tuple[str, ...] = ()
    nowhere: tuple[str, str] | None = None
    by_sign: bool = False
    _all_moves: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        amounts: dict[str, tuple[str, ...]] = {}
        for digit in self.digits:
            for name, amount in digit.moves:
                amounts[name] = (*amounts.get(name, ()), amount)
        assert self.steps.keys() == {self.digits[0].name, *amounts}
        assert not self.by_sign or not (self.early or any(digit.end for digit in self.digits))
        object.__setattr__(self, "_all_moves", amounts)

    def advance(
        self, b: Builder, args: Mapping[str, Value], registers: Mapping[str, Value]
    ) -> tuple[dict[str, Value], Carry]:
        """The registers one distance further, and what leaves the slowest digit that carries."""
        after, stepped = dict(registers), set[str]()

        def step(name: str) -> None:
            distance = args[self.steps[name]]
            if self.by_sign:
                for amount in self._all_moves.get(name, ()):
                    distance = b.add(distance, args[amount])
            after[name] = b.add(after[name], distance)
            stepped.add(name)

        for name in (self.digits[0].name, *self.early):
            step(name)
        for digit in self.digits:
            after[digit.name], carry = self._wrapped(b, args, digit, after[digit.name])
            for name, amount in digit.moves:
                if name not in stepped:
                    step(name)
                after[name] = carry.move(b, after[name], args[amount])
                if self.nowhere is not None and name == self.nowhere[0]:
                    inside = b.icmp("slt", after[name], args[self.nowhere[1]])
                    after[name] = b.select(inside, after[name], NOWHERE)
        return after, carry

    def _wrapped(self, b: Builder, args: Mapping[str, Value], digit: Digit, value: Value) -> tuple[Value, Carry]:
        """A stepped digit, back in its range, and its carry."""
        if self.by_sign:
            # A digit that overflows is the smaller of itself and itself minus its radix, as unsigned numbers.
            beyond = b.sub(value, args[digit.extent])
            return b.umin(value, beyond), Carry(b.ashr(beyond, 31), by_sign=True)
        carries = b.icmp("sge", value, args[digit.end or digit.extent])
        return b.select(carries, b.sub(value, args[digit.extent]), value), Carry(carries, by_sign=False)

    def values(self, distance: int, radices: Mapping[str, Radix]) -> dict[str, int]:
        """Every argument that `advance` reads, for digits fastest first; the last one, without a carry, is open.

        A digit that only bytes know (an image) is among them too.
        """
        names, digits = list(radices), {digit.name: digit for digit in self.digits}
        found: dict[str, int] = {}
        step_bytes, left = 0, distance
        for name, above in zip(names, [*names[1:], None], strict=True):
            radix, step = radices[name], left
            if above is not None:
                left, step = divmod(left, radix.count)
            step_bytes += step * radix.unit_bytes
            extent = radix.count * radix.unit
            if name in self.steps:
                found[self.steps[name]] = step * radix.unit
            if self.nowhere is not None and name == self.nowhere[0]:
                found[self.nowhere[1]] = extent
            if name not in digits:
                continue
            assert above is not None
            digit = digits[name]
            found[digit.extent] = extent
            if digit.end is not None:
                found[digit.end] = extent + radix.origin
            carried = {OFFSET: (radices[above].unit_bytes - radix.count * radix.unit_bytes) % _WORD}
            carried[above] = radices[above].unit
            found |= {amount: carried[moved] for moved, amount in digit.moves}
        found[self.steps[OFFSET]] = step_bytes % _WORD
        return found
