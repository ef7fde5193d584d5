"""Hand-written kernels: text with labels to instructions with addresses and relative branches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One instruction, as a disassembler gives it."""

    address: int
    size: int
    mnemonic: str
    operands: str


def assemble(text: str, base: int = 0x1700) -> list[Line]:
    """`name:` lines are labels; a branch to a label becomes the simm16 that a disassembler prints.

    Matrix, buffer and LDS instructions take 8 bytes, all others 4.
    """
    labels: dict[str, int] = {}
    parsed: list[tuple[int, int, str, str]] = []
    address = base
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        if line.endswith(":"):
            labels[line[:-1]] = address
            continue
        mnemonic, _, operands = line.partition(" ")
        size = 8 if mnemonic.startswith(("v_mfma", "buffer_", "ds_")) else 4
        parsed.append((address, size, mnemonic, operands))
        address += size
    lines = []
    for at, size, mnemonic, operands in parsed:
        words = (labels[operands] - at - 4) // 4 & 0xFFFF if operands in labels else None
        lines.append(Line(at, size, mnemonic, operands if words is None else str(words)))
    return lines
