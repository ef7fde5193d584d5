"""What a row of the contract is: a requirement that a code object meets or violates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aot.toolchain.loader_contract.subject import Subject


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    `who` needs it: `ROCr` loads code objects, `clr` is HIP's module loader, `comgr` reads for HIP, `HIP launch` checks
    every launch, `hardware` is what the command processor and the compute units do, `plan` is our own launch plan.
    `violation` says what is wrong, "" where nothing is; it may raise CodeObjectError for bytes that cannot be read.
    """

    name: str
    text: str
    who: str
    violation: Callable[[Subject], str]


@dataclass(frozen=True, slots=True)
class Violation:
    """A requirement that is not met, and how."""

    requirement: Requirement
    found: str

    def __str__(self) -> str:
        required = self.requirement
        return f"{required.name}: {self.found}; required by {required.who}: {required.text}"


def unless(holds: bool, found: str) -> str:
    """What a check answers."""
    return "" if holds else found
