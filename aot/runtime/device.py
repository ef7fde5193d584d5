"""What a device must offer to run plans. It is given host arrays for the tensors and leaves the results in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from aot.runtime.plan_data import Plan

#: Hex SHA-256 -> code object.
CodeProvider = Callable[[str], bytes]
Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Execution:
    """What a device says beyond the results: faults that it saw, in words, and wave instructions, if it counts."""

    faults: tuple[str, ...]
    instructions: int


class Device(Protocol):
    """Runs all steps of a plan in order; every buffer of the plan that is no workspace and no table is in `arrays`."""

    def execute(self, plan: Plan, arrays: Arrays, code: CodeProvider) -> Execution: ...
