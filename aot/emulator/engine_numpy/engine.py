"""The slow engine: every instruction evaluated by numpy from the table, in the same order as the fast engine may run
it."""

from __future__ import annotations

import random

import numpy as np

from aot.emulator import faults
from aot.emulator.decode.instruction import Instruction
from aot.emulator.engine_numpy.hardware_registers import execute_hardware_register
from aot.emulator.engine_numpy.machine import Group, NumpyMachine
from aot.emulator.engine_numpy.ops import NumpyOps
from aot.emulator.engine_numpy.sanitizer import find_race
from aot.emulator.errors import BudgetError
from aot.emulator.faults import KINDS, Fault, FaultSignal
from aot.emulator.isa.memory import MEMORY
from aot.emulator.isa.salu import BRANCHES, WITHOUT_EFFECT
from aot.emulator.launch import Launch
from aot.emulator.lower.instruction import lower
from aot.emulator.report import Result
from aot.emulator.state import layout
from aot.emulator.state.stores import StoreLog


class NumpyEngine:
    """Runs a launch workgroup by workgroup, wave by wave up to the next barrier."""

    def __init__(self, launch: Launch, seed: int, budget: int, scalar_counts: bool) -> None:
        self.launch, self.seed, self.budget, self.scalar_counts = launch, seed, budget, scalar_counts
        self.times = np.zeros(len(launch.program.instructions), np.int64)
        self.ops = NumpyOps()
        self.stores = StoreLog()

    def run(self) -> Result:
        order = random.Random(self.seed + 1)  # noqa: S311 - an order, no secret
        for place in self.launch.workgroups(self.seed):
            with np.errstate(all="ignore"):
                fault = self._run_group(place, order)
            if fault is not None:
                return Result(self.times, fault)
        return Result(self.times, None)

    def _run_group(self, place: tuple[int, int, int], order: random.Random) -> Fault | None:
        launch = self.launch
        group = Group(launch.lds_bytes)
        waves = []
        self.stores.start_group(launch.waves)
        for number in range(launch.waves):
            wave = NumpyMachine(self.ops, launch.memory, group, number, launch.scratch_bytes, 512, self.stores)
            wave.cells[: layout.SCALAR_CELLS] = launch.scalar_cells(place, number)
            wave.set_mode(launch.mode)
            wave.registers[0] = launch.workitem_ids(number)
            wave.image_base = launch.image_base
            wave.scalar_counts = self.scalar_counts
            waves.append(wave)
        running = dict.fromkeys(range(launch.waves), launch.entry)
        while running:
            numbers = list(running)
            order.shuffle(numbers)
            stopped: dict[int, int] = {}
            for number in numbers:
                wave = waves[number]
                try:
                    at = self._run_wave(wave, running[number])
                except FaultSignal as signal:
                    return self._fault(signal, place, wave)
                if at >= 0:
                    stopped[number] = at
            race = find_race(group.log, launch.lds_bytes)
            if race is not None:
                return self._fault(race, place, waves[0])
            # Accesses that no wait has completed reach into the next interval.
            group.log = [access for wave in waves for entry in wave.queues.all() for access in entry.accesses]
            self.stores.at_barrier([any(_is_store(e.instruction) for e in wave.queues.vm) for wave in waves])
            # Waves that have ended no longer count at a barrier.
            running = stopped
        return None

    def _fault(self, signal: FaultSignal, place: tuple[int, int, int], wave: NumpyMachine) -> Fault:
        instruction = wave.instruction
        if signal.instruction >= 0:
            instruction = self.launch.program.instructions[signal.instruction]
        return Fault(
            KINDS[signal.kind],
            self.launch.code.symbol,
            instruction.pc,
            instruction.text,
            place,
            wave.wave,
            signal.lane,
            signal.address,
            signal.register,
            signal.detail,
        )

    def _run_wave(self, wave: NumpyMachine, at: int) -> int:
        """Run to the next barrier (returns where to go on) or the end (-1)."""
        instructions = self.launch.program.instructions
        while True:
            if at >= len(instructions):
                raise FaultSignal(faults.TRAP, detail="ran past the end of the code")
            instruction = instructions[at]
            wave.begin(instruction)
            self.times[at] += 1
            self.budget -= 1
            if self.budget < 0:
                raise BudgetError(f"instruction budget used up in {self.launch.code.symbol} at 0x{instruction.pc:x}")
            wave.queues.check(instruction)
            if instruction.form.unit != "control":
                lower(wave, instruction.form)
                at += 1
                continue
            name = instruction.form.name
            if name == "s_endpgm":
                # The hardware waits for everything before it ends a wave.
                wave.land(wave.queues.wait(0, 0))
                return -1
            if name == "s_barrier":
                return at + 1
            at = self._control(wave, instruction, at)

    def _control(self, wave: NumpyMachine, instruction: Instruction, at: int) -> int:
        name = instruction.form.name
        if name == "s_waitcnt":
            wave.land(wave.queues.wait(*instruction.decoded.waits))
        elif name in BRANCHES:
            if _taken(wave, name):
                return instruction.target
        elif name == "s_trap":
            raise FaultSignal(faults.TRAP)
        elif name.startswith(("s_setreg", "s_getreg")):
            execute_hardware_register(wave, instruction)
        else:
            assert name in WITHOUT_EFFECT, name
        return at + 1


def _is_store(instruction: Instruction) -> bool:
    form = instruction.form
    return form.unit == "memory" and MEMORY[form.name].action == "store"


def _taken(wave: NumpyMachine, name: str) -> bool:
    if name == "s_branch":
        return True
    condition = name.removeprefix("s_cbranch_")
    if condition.startswith("scc"):
        return bool(wave.cells[layout.SCC // 4]) == (condition == "scc1")
    cell = layout.VCC if condition.startswith("vcc") else layout.EXEC
    zero = not wave.cells[cell] and not wave.cells[cell + 1]
    return zero == (condition[-1] == "z" and condition[-2] != "n")
