"""The values and places of the pseudocode: typed bit vectors, registers, and byte memory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tests.aot.emulator.oracle import floats
from tests.aot.emulator.oracle.pcode_syntax import Lambda


class PcodeUnsupportedError(NotImplementedError):
    """The operation uses something that this evaluator does not model."""


@dataclass(frozen=True, slots=True)
class Value:
    """`width` bits read as kind u, i, b (raw), f or bf. `exact` replaces the bits of an exact power of two."""

    kind: str
    width: int
    bits: int
    signed_zero: bool = False
    exact: Fraction | None = None

    @property
    def number(self) -> int:
        """The integer that the bits stand for."""
        if self.kind == "i" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits

    @property
    def form(self) -> floats.Format:
        return floats.FORMATS[f"{self.kind}{self.width}"]

    @property
    def real(self) -> float:
        return floats.decode(self.form, self.bits)

    @property
    def is_float(self) -> bool:
        return self.kind in ("f", "bf")


def u32(value: int) -> Value:
    return Value("u", 32, value & 0xFFFFFFFF)


def integer(kind: str, width: int, value: int) -> Value:
    return Value(kind, width, value & ((1 << width) - 1))


def of_float(form: floats.Format, value: float | Fraction) -> Value:
    kind = form.name.rstrip("0123456789")
    return Value(kind, form.width, floats.encode(form, value))


class Cell:
    """A register or a variable: bits that statements overwrite. `kind` is None for a register."""

    __slots__ = ("bits", "kind", "width")

    def __init__(self, width: int, bits: int = 0, kind: str | None = None) -> None:
        self.width = width
        self.bits = bits & ((1 << width) - 1)
        self.kind = kind


class Memory:
    """Byte-addressed memory of one operation; reading a byte that was never placed is an error."""

    def __init__(self, content: dict[int, int] | None = None) -> None:
        self.bytes = dict(content or {})

    def read(self, address: int, width: int) -> int:
        return sum(self.bytes[address + i] << (8 * i) for i in range(width // 8))

    def write(self, address: int, width: int, bits: int) -> None:
        for i in range(width // 8):
            self.bytes[address + i] = (bits >> (8 * i)) & 0xFF


@dataclass(frozen=True, slots=True)
class View:
    """Part of a cell, named by the left side of an assignment or read as a value."""

    cell: Cell
    low: int
    width: int
    kind: str | None

    def read(self) -> Value:
        return Value(self.kind or "b", self.width, (self.cell.bits >> self.low) & ((1 << self.width) - 1))

    def write(self, bits: int) -> None:
        mask = ((1 << self.width) - 1) << self.low
        self.cell.bits = (self.cell.bits & ~mask) | ((bits << self.low) & mask)


@dataclass(frozen=True, slots=True)
class MemoryView:
    memory: Memory
    address: int
    width: int
    kind: str

    def read(self) -> Value:
        return Value(self.kind, self.width, self.memory.read(self.address, self.width))

    def write(self, bits: int) -> None:
        self.memory.write(self.address, self.width, bits)


Place = View | MemoryView
Array = list[Cell] | list[list[Cell]]
Binding = Cell | Array | Memory | Value | Lambda
Environment = dict[str, Binding]


def type_of(name: str) -> tuple[str, int] | None:
    """Kind and width of a type name such as u32, bf16, b128; None when it is another field."""
    kind = name.rstrip("0123456789")
    if kind not in ("u", "i", "b", "f", "bf") or kind == name:
        return None
    return kind, int(name[len(kind) :])
