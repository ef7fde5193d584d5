"""The result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.emulator.decode import Instruction
from aot.emulator.errors import EmulatorError
from aot.emulator.faults import Fault


class FaultError(EmulatorError):
    """A run whose program is at fault; raised only by `Report.check`."""


@dataclass(frozen=True)
class Report:
    """Wave-instructions executed by class, faults (the run stops at the first), engine and seconds.

    `executed` maps instruction addresses to the times they ran; `handler_seconds` is time spent compiling handlers.
    """

    kernel: str
    engine: str
    instructions: Mapping[str, int]
    faults: tuple[Fault, ...]
    seconds: float
    prepare_seconds: float = 0.0
    handler_seconds: float = 0.0
    executed: Mapping[int, int] = field(default_factory=dict, repr=False)

    @property
    def total(self) -> int:
        """Wave-instructions of all classes."""
        return sum(self.instructions.values())

    def check(self) -> Report:
        """This report, or FaultError if the program is at fault."""
        if self.faults:
            raise FaultError(str(self.faults[0]))
        return self


def instruction_class(instruction: Instruction) -> str:
    """valu, salu, mfma, lds, vmem, smem, branch, wait or control."""
    form = instruction.form
    if form.unit in ("valu", "cmpx", "packed", "packed_mov", "lane", "swap_lanes"):
        return "valu"
    if form.unit == "lane_exchange" or form.name.startswith("ds_"):
        return "lds"
    if form.unit == "control":
        if "branch" in form.name:
            return "branch"
        return "wait" if form.name in ("s_waitcnt", "s_barrier", "s_nop") else "control"
    return {"mfma": "mfma", "salu": "salu", "scalar_memory": "smem"}.get(form.unit, "vmem")


def count_classes(instructions: list[Instruction], times: Mapping[int, int]) -> dict[str, int]:
    """Executed wave-instructions by class, from executions by instruction index."""
    counts: dict[str, int] = {}
    for instruction in instructions:
        number = times.get(instruction.index, 0)
        if number:
            name = instruction_class(instruction)
            counts[name] = counts.get(name, 0) + number
    return counts
