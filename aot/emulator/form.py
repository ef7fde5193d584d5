"""The decoded shape of an instruction: what selects its code, and what it only passes as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from aot.emulator.operands import Operand


class Form(NamedTuple):
    """Everything that changes the code of an instruction: two instructions of one form share a handler."""

    unit: str
    name: str
    kinds: tuple[str, ...]
    modifiers: tuple[tuple[str, Any], ...]

    def get(self, name: str, default: Any = None) -> Any:
        for key, value in self.modifiers:
            if key == name:
                return value
        return default


@dataclass(frozen=True, slots=True)
class OperandUse:
    """An operand with the dwords it covers. `kind` adds the sign modifiers: v, s, -v, |v, -|v, x (sext)."""

    operand: Operand
    dwords: int
    reads: bool
    writes: bool
    kind: str

    def both(self) -> OperandUse:
        return replace(self, reads=True, writes=True)


def use_of(found: Operand, dwords: int, write: bool) -> OperandUse:
    signs = ("-" if found.negate else "") + ("|" if found.absolute else "") + ("x" if found.sign_extend else "")
    kind = {"c": "s", "-": "0"}.get(found.kind, found.kind)
    return OperandUse(found, dwords, not write, write, signs + kind)


@dataclass(frozen=True, slots=True)
class Decoded:
    """An instruction without its place.

    Register sets are integers with one bit per register (512 vector, 192 scalar): `reads_*`, `writes_*`; a register in
    `late_*` is written asynchronously, when the memory system answers. `numbers` are further slots after the operands.
    """

    form: Form
    uses: tuple[OperandUse, ...] = ()
    numbers: tuple[int, ...] = ()
    number: int = 0
    waits: tuple[int, int] = (-1, -1)
    reads_v: int = 0
    writes_v: int = 0
    reads_s: int = 0
    writes_s: int = 0
    late: bool = False

    def with_sets(self) -> Decoded:
        """Add the registers of the operands to the sets."""
        reads = {"v": self.reads_v, "s": self.reads_s}
        writes = {"v": self.writes_v, "s": self.writes_s}
        for use in self.uses:
            if use.operand.kind in "vs":
                span = ((1 << use.dwords) - 1) << use.operand.index
                if use.reads:
                    reads[use.operand.kind] |= span
                if use.writes:
                    writes[use.operand.kind] |= span
        return replace(self, reads_v=reads["v"], reads_s=reads["s"], writes_v=writes["v"], writes_s=writes["s"])
