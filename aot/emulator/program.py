"""A decoded program as the engines take it: slots resolved to offsets, constants pooled, register sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aot.emulator import layout
from aot.emulator.decode import Instruction, Program
from aot.emulator.errors import UnmodelledStateError

CONSTANT_CELLS = 1024
VECTORS = layout.CONSTANTS + 8 * CONSTANT_CELLS
WAVE_BYTES = VECTORS + 512 * layout.REGISTER_BYTES


@dataclass
class Bound:
    """`slots[i]`: byte offsets of operands, then numbers, of instruction i. `constants`: u64 pool."""

    slots: list[list[int]]
    constants: npt.NDArray[np.uint64]


def bind(program: Program) -> Bound:
    """Resolve operands to offsets into the wave."""
    pool: dict[int, int] = {}
    slots = [_slots(instruction, pool) for instruction in program.instructions]
    if len(pool) > CONSTANT_CELLS:
        raise UnmodelledStateError(f"{len(pool)} different constants; the wave holds {CONSTANT_CELLS}")
    return Bound(slots, np.array(list(pool) or [0], np.uint64))


def _slots(instruction: Instruction, pool: dict[int, int]) -> list[int]:
    slots = []
    for use in instruction.decoded.uses:
        found = use.operand
        if found.kind == "v":
            slots.append(VECTORS + layout.REGISTER_BYTES * found.number)
        elif found.kind == "s":
            slots.append(4 * found.number)
        elif found.kind == "c":
            cell = pool.setdefault(found.number, len(pool))
            slots.append(layout.CONSTANTS + 8 * cell)
        else:
            slots.append(0)
    slots.extend(number & 0xFFFFFFFF for number in instruction.decoded.numbers)
    if len(slots) > layout.MAX_SLOTS:
        raise UnmodelledStateError(f"too many operands: {instruction.text}")
    return slots
