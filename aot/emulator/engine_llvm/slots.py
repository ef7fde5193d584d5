"""Operands as the engines take them: resolved to offsets into the wave, constants pooled."""

from __future__ import annotations

from aot.emulator.decode.form import Decoded
from aot.emulator.errors import UnmodelledStateError
from aot.emulator.state import layout

CONSTANT_CELLS = 1024
VECTORS = layout.CONSTANTS + 8 * CONSTANT_CELLS
WAVE_BYTES = VECTORS + 512 * layout.REGISTER_BYTES


class Pool:
    """The constants of one program, each in a cell of its own."""

    def __init__(self) -> None:
        self._cells: dict[int, int] = {}

    def offset(self, bits: int) -> int:
        """Where a wave holds a constant."""
        return layout.CONSTANTS + 8 * self._cells.setdefault(bits, len(self._cells))

    def values(self) -> list[int]:
        """All constants in the order of their cells."""
        if len(self._cells) > CONSTANT_CELLS:
            raise UnmodelledStateError(f"{len(self._cells)} different constants; the wave holds {CONSTANT_CELLS}")
        return list(self._cells)


def resolve(decoded: Decoded, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Byte offsets of the operands and then the numbers; and (slot, bits) of the constants, whose slots hold zero."""
    slots: list[int] = []
    constants: list[tuple[int, int]] = []
    for found, _, _, _, _ in decoded.uses:
        if found.kind == "v":
            slots.append(VECTORS + layout.REGISTER_BYTES * found.number)
        elif found.kind == "s":
            slots.append(4 * found.number)
        else:
            if found.kind == "c":
                constants.append((len(slots), found.number))
            slots.append(0)
    slots.extend(number & 0xFFFFFFFF for number in decoded.numbers)
    if len(slots) > layout.MAX_SLOTS:
        raise UnmodelledStateError(f"too many operands: {text}")
    return slots, constants
