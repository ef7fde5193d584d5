"""Operands and modifiers as the disassembler prints them."""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import NamedTuple

from aot.emulator.errors import UnknownInstructionError
from aot.emulator.isa.values import BITS, is_float
from aot.emulator.state import layout

_NAMED_CELLS = {
    "vcc": (layout.VCC, 2),
    "vcc_lo": (layout.VCC, 1),
    "vcc_hi": (layout.VCC + 1, 1),
    "m0": (layout.M0, 1),
    "exec": (layout.EXEC, 2),
    "exec_lo": (layout.EXEC, 1),
    "exec_hi": (layout.EXEC + 1, 1),
    "src_shared_base": (layout.SHARED_BASE, 2),
    "src_shared_limit": (layout.SHARED_LIMIT, 2),
    "src_private_base": (layout.PRIVATE_BASE, 2),
    "src_private_limit": (layout.PRIVATE_LIMIT, 2),
    "flat_scratch": (102, 2),
    "flat_scratch_lo": (102, 1),
    "flat_scratch_hi": (103, 1),
    "xnack_mask": (104, 2),
    "xnack_mask_lo": (104, 1),
    "xnack_mask_hi": (105, 1),
}
_REGISTER = re.compile(r"(ttmp|[sva])(?:(\d+)|\[(\d+):(\d+)\])$")
_INVERSE_TWO_PI = {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}
_PACK = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}


class Operand(NamedTuple):
    """`kind`: v vector register, s scalar cell, c constant (`number` is its bits), - absent ("off").

    `number` is the register number (AGPRs from 256, scalar cells as in `layout`), `dwords` how many the text names.
    """

    kind: str
    number: int
    dwords: int = 1
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False

    @property
    def plain(self) -> bool:
        return not (self.negate or self.absolute or self.sign_extend)


ABSENT = Operand("-", 0, 0)


@lru_cache(maxsize=16384)
def register(text: str) -> Operand | None:
    """A register by name, or None."""
    match = _REGISTER.match(text)
    if match is None:
        if text in _NAMED_CELLS:
            index, count = _NAMED_CELLS[text]
            return Operand("s", index, count)
        return None
    bank, single, first, last = match.groups()
    low, high = (int(single), int(single)) if single is not None else (int(first), int(last))
    count = high - low + 1
    if bank in "va":
        if high > 255 or count < 1:
            return None
        return Operand("v", low + (layout.AGPR if bank == "a" else 0), count)
    if count < 1 or high > (15 if bank == "ttmp" else 101):
        return None
    return Operand("s", low + (layout.TTMP if bank == "ttmp" else 0), count)


def constant_bits(text: str, type_: str) -> int | None:
    """The bits of an inline constant or literal for an operand of a type; None if the text is no number."""
    width = {"mask": 64, "mix": 32, "imm": 32}.get(type_) or BITS[type_.removeprefix("pk").removeprefix("@")]
    if type_ in ("pkf32", "pku32"):
        width = 32
    elif type_.startswith("pk"):
        width = 16
    try:
        if text.startswith(("0x", "-0x")):
            value = int(text, 16)
            if width == 64 and is_float(type_):
                return value << 32
            if type_ == "i64" and value >> 31 & 1:
                value -= 1 << 32
            return value & ((1 << 64) - 1 if width == 64 else 0xFFFFFFFF)
        if text in ("0.15915494", "0.15915494309189532", "0.1592"):
            return _INVERSE_TWO_PI[width]
        if "." in text:
            pack, unpack = _PACK[width]
            return int(struct.unpack(unpack, struct.pack(pack, float(text)))[0])
        value = int(text)
    except ValueError:
        return None
    # Integers fill the operand, sign extended; a packed 16-bit operand sees the 32-bit pattern.
    return value & ((1 << 64) - 1 if width == 64 else 0xFFFFFFFF)


@lru_cache(maxsize=65536)
def operand(text: str, type_: str) -> Operand:
    """Parse one operand of a type; raises `UnknownInstructionError`."""
    negate = absolute = sign_extend = False
    inner = text
    if inner.startswith("sext(") and inner.endswith(")"):
        sign_extend, inner = True, inner[5:-1]
    if inner.startswith("neg(") and inner.endswith(")"):
        negate, inner = True, inner[4:-1]
    elif inner.startswith("-") and not inner[1:2].isdigit():
        negate, inner = True, inner[1:]
    if inner.startswith("|") and inner.endswith("|"):
        absolute, inner = True, inner[1:-1]
    elif inner.startswith("abs(") and inner.endswith(")"):
        absolute, inner = True, inner[4:-1]
    found = register(inner)
    if found is None:
        if inner == "off":
            return ABSENT
        if inner in ("src_scc", "scc"):
            return Operand("s", layout.SCC // 4, 1)
        bits = constant_bits(inner, type_)
        if bits is None:
            raise UnknownInstructionError("unknown operand", text)
        found = Operand("c", bits, 1)
    if negate or absolute or sign_extend:
        return Operand(found.kind, found.number, found.dwords, negate, absolute, sign_extend)
    return found


def split(text: str) -> tuple[list[str], list[str]]:
    """Operands (comma separated outside brackets) and the blank-separated modifiers after the last one."""
    if "(" not in text:
        # Lists in brackets have no blanks.
        *operands, tail = text.split(", ")
        first, *rest = tail.split()
        return [*operands, first], rest
    parts: list[str] = []
    depth = start = 0
    for at, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    tail = text[start:].strip()
    if not tail:
        return parts, []
    words: list[str] = []
    depth = start = 0
    for at, char in enumerate(tail):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == " " and depth == 0:
            words.append(tail[start:at])
            start = at + 1
    words.append(tail[start:])
    words = [word for word in words if word]
    # A text that starts with a modifier has no last operand (s_waitcnt and the like parse themselves).
    parts.append(words[0])
    return parts, words[1:]


def number_list(text: str) -> tuple[int, ...]:
    """`[1,0,1]` to integers."""
    return tuple(int(item) for item in text.strip("[]").split(","))


def integer(text: str) -> int:
    return int(text, 0)
