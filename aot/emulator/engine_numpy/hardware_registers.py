"""Hardware registers that programs may read and set: MODE, and the few that identify the place of execution."""

from __future__ import annotations

from aot.emulator import faults
from aot.emulator.decode.instruction import Instruction
from aot.emulator.engine_numpy.machine import NumpyMachine
from aot.emulator.faults import FaultSignal
from aot.emulator.state import layout
from aot.emulator.state.hardware_registers import CONSTANT_REGISTERS, MODE_REGISTER, MODELLED_MODES, mode_is_modelled


def execute_hardware_register(wave: NumpyMachine, instruction: Instruction) -> None:
    """s_getreg_b32, s_setreg_b32, s_setreg_imm32_b32 on a field of a register."""
    form = instruction.form
    name, offset, size = form.get("register"), form.get("offset"), form.get("size")
    ones = ((1 << size) - 1) << offset
    if form.name == "s_getreg_b32":
        if name == MODE_REGISTER:
            value = int(wave.cells[layout.MODE // 4])
        elif name in CONSTANT_REGISTERS:
            value = CONSTANT_REGISTERS[name]
        else:
            raise FaultSignal(faults.UNMODELLED, detail=f"hardware register {name}")
        wave.set_scalar(0, 0, wave.ops.const((value & ones) >> offset, "u32"))
        return
    if name != MODE_REGISTER:
        raise FaultSignal(faults.UNMODELLED, detail=f"hardware register {name}")
    value = int(wave.scalar(0).ref[0]) << offset & ones
    mode = int(wave.cells[layout.MODE // 4]) & ~ones | value
    if not mode_is_modelled(mode):
        raise FaultSignal(faults.UNMODELLED, detail=f"MODE {mode:#x}; {MODELLED_MODES}")
    wave.set_mode(mode)
