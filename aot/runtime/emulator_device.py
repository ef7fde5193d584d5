"""The emulator as a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.emulator import Memory
from aot.emulator import run as run_emulated
from aot.runtime.device import Arrays, CodeProvider, Execution
from aot.runtime.plan_data import Buffer, Fill, Plan, PlanError

#: Every byte of memory that nobody has written: a NaN in each floating-point type.
POISON = 0xFF
#: Wave instructions of one launch, far beyond any problem that is worth emulating.
INSTRUCTION_BUDGET = 2_000_000_000


@dataclass(frozen=True)
class EmulatorDevice:
    """The instruction-set emulator: executes the code objects themselves and watches what they touch.

    `seed` decides the order of waves and workgroups, `scalar_counts` whether scalar offsets are part of the range check
    of buffers. Buffers are exactly as long as the plan says, so that an access
    behind an operand is seen.
    """

    seed: int = 0
    engine: str = "llvm"
    budget: int = INSTRUCTION_BUDGET
    scalar_counts: bool = True

    def execute(self, plan: Plan, arrays: Arrays, code: CodeProvider) -> Execution:
        """Raises PlanError for arrays that do not fit, EmulatorError for code that cannot be vouched for."""
        memory = Memory()
        held = {buffer.name: _backing(buffer, arrays) for buffer in plan.buffers}
        addresses = {name: memory.add(name, array) for name, array in held.items()}
        faults: list[str] = []
        instructions = 0
        for step in plan.steps:
            if isinstance(step, Fill):
                held[step.buffer].reshape(-1).view(np.uint8)[...] = step.byte
                continue
            report = run_emulated(
                code(step.code_object),
                step.symbol,
                grid=step.grid,
                block=step.block,
                dynamic_lds=step.dynamic_lds,
                kernarg=step.pack(addresses),
                memory=memory,
                seed=self.seed,
                budget=self.budget,
                engine=self.engine,
                target=plan.arch,
                scalar_counts=self.scalar_counts,
            )
            instructions += report.total
            faults += map(str, report.faults)
        return Execution(tuple(faults), instructions)


def _backing(buffer: Buffer, arrays: Arrays) -> npt.NDArray[Any]:
    """Memory of a buffer: the caller's array, the words of a table, or a poisoned workspace."""
    if buffer.contents is not None:
        return np.array(buffer.contents, dtype=np.int32)
    if buffer.role == "workspace":
        return np.full(buffer.nbytes, POISON, dtype=np.uint8)
    if buffer.name not in arrays:
        raise PlanError(f"no array was given for buffer {buffer.name!r}")
    array = arrays[buffer.name]
    if array.nbytes != buffer.nbytes:
        raise PlanError(f"buffer {buffer.name!r} has {buffer.nbytes} bytes, its array {array.nbytes}")
    return array
