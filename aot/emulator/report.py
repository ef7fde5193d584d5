"""The result of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from aot.emulator.decode.instruction import Instruction
from aot.emulator.errors import EmulatorError
from aot.emulator.faults import Fault


@dataclass
class Result:
    """What an engine returns: executions by instruction index, and the fault that stopped the run."""

    times: npt.NDArray[np.int64]
    fault: Fault | None


class FaultError(EmulatorError):
    """A run whose program is at fault; raised only by `Report.check`."""


@dataclass(frozen=True)
class Report:
    """What ran how often, faults (the run stops at the first), engine and seconds.

    `times` are executions by index of `listing`; `handler_seconds` is time spent compiling handlers.
    """

    kernel: str
    engine: str
    faults: tuple[Fault, ...]
    seconds: float
    prepare_seconds: float
    handler_seconds: float
    listing: Sequence[Instruction] = field(repr=False)
    times: npt.NDArray[np.int64] = field(repr=False)

    @cached_property
    def total(self) -> int:
        """Wave-instructions of all classes."""
        return int(self.times.sum())

    @cached_property
    def instructions(self) -> Mapping[str, int]:
        """Executed wave-instructions by class."""
        counts: dict[str, int] = {}
        for index in np.flatnonzero(self.times).tolist():
            name = instruction_class(self.listing[index])
            counts[name] = counts.get(name, 0) + int(self.times[index])
        return counts

    @cached_property
    def executed(self) -> Mapping[int, int]:
        """Addresses of the instructions that ran -> how often."""
        return {self.listing[index].pc: int(self.times[index]) for index in np.flatnonzero(self.times).tolist()}

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
