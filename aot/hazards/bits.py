"""Sets of registers as integers: vector registers, scalar cells and hardware registers in one space of bits."""

from __future__ import annotations

from typing import Final

from aot.emulator.faults import register_name
from aot.emulator.state import layout

#: VGPRs take bits 0-255, AGPRs 256-511, then the scalar cells in the numbering of `aot.emulator.state.layout`.
SCALAR: Final = 512
VECTORS: Final = (1 << SCALAR) - 1
#: Hardware registers behind the scalar cells, one bit each.
HARDWARE: Final = SCALAR + 192
HARDWARE_NAMES: Final = ("HW_REG_MODE", "HW_REG_STATUS", "HW_REG_TRAPSTS", "HW_REG_HW_ID", "HW_REG_XCC_ID")

EXEC: Final = 0b11 << SCALAR + layout.EXEC
VCC: Final = 0b11 << SCALAR + layout.VCC
M0: Final = 1 << SCALAR + layout.M0
SCALARS: Final = ((1 << HARDWARE) - 1) & ~VECTORS
#: A bit that meets itself, for rules that ask for no register.
ALWAYS: Final = 1 << HARDWARE + 7
#: Behind all registers: what an outstanding operation does to LDS, see `counters`.
LDS_ACCESS: Final = 1 << HARDWARE + 8
DIRECT, DIRECT_READ_PAST, DIRECT_OVERTAKEN = (1 << HARDWARE + bit for bit in (9, 10, 11))
REGISTERS: Final = (1 << HARDWARE) - 1


def joined(vectors: int, scalars: int) -> int:
    """One set of the two that the emulator keeps."""
    return vectors | scalars << SCALAR


def name_of(registers: int) -> str:
    """A register of a set, by name; empty for none."""
    hardware = registers >> HARDWARE & (1 << len(HARDWARE_NAMES)) - 1
    if hardware:
        return HARDWARE_NAMES[hardware.bit_length() - 1]
    registers &= REGISTERS
    return register_name(registers & VECTORS, registers >> SCALAR)
