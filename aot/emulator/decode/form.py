"""The decoded shape of an instruction: what selects its code, and what it only passes as data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from aot.emulator.decode.operands import Operand


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


class OperandUse(NamedTuple):
    """An operand with the dwords it covers. `kind` adds the sign modifiers: v, s, -v, |v, -|v, x (sext)."""

    operand: Operand
    dwords: int
    reads: bool
    writes: bool
    kind: str

    def both(self) -> OperandUse:
        return self._replace(reads=True, writes=True)


@lru_cache(maxsize=65536)
def use_of(found: Operand, dwords: int, write: bool) -> OperandUse:
    signs = ("-" if found.negate else "") + ("|" if found.absolute else "") + ("x" if found.sign_extend else "")
    kind = {"c": "s", "-": "0"}.get(found.kind, found.kind)
    return OperandUse(found, dwords, not write, write, signs + kind)


class Decoded(NamedTuple):
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
        reads_v, reads_s, writes_v, writes_s = self.reads_v, self.reads_s, self.writes_v, self.writes_s
        for use in self.uses:
            kind, index = use.operand.kind, use.operand.number
            if kind == "v":
                span = ((1 << use.dwords) - 1) << index
                reads_v |= span if use.reads else 0
                writes_v |= span if use.writes else 0
            elif kind == "s":
                span = ((1 << use.dwords) - 1) << index
                reads_s |= span if use.reads else 0
                writes_s |= span if use.writes else 0
        return self._replace(reads_v=reads_v, reads_s=reads_s, writes_v=writes_v, writes_s=writes_s)
