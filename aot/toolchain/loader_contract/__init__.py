"""The loader contract: all that ROCr, clr (HIP), comgr, the hardware and our own plans need of a code object.

One list of requirements, from the file inwards. Read in the sources of ROCr and clr: a loader that finds one of them
broken refuses the object, or takes it and launches something else.
"""

from __future__ import annotations

from aot.toolchain.errors import CodeObjectError, LoaderContractError
from aot.toolchain.loader_contract.file_rows import FILE_ROWS
from aot.toolchain.loader_contract.launch_rows import LAUNCH_ROWS
from aot.toolchain.loader_contract.requirement import Requirement, Violation
from aot.toolchain.loader_contract.subject import Expected, Subject
from aot.toolchain.loader_contract.symbol_rows import SYMBOL_ROWS

__all__ = ["REQUIREMENTS", "Expected", "Requirement", "Violation", "check_loader_contract", "violations"]

REQUIREMENTS: tuple[Requirement, ...] = (*FILE_ROWS, *SYMBOL_ROWS, *LAUNCH_ROWS)


def violations(code: bytes, expected: Expected) -> tuple[Violation, ...]:
    """Every requirement that the code object breaks, in the order of the list.

    What cannot be read breaks the first requirement that needs it; the others that do are not listed.
    """
    subject = Subject(code, expected)
    found: list[Violation] = []
    unreadable: set[str] = set()
    for requirement in REQUIREMENTS:
        try:
            wrong = requirement.violation(subject)
        except CodeObjectError as error:
            wrong = "" if str(error) in unreadable else str(error)
            unreadable.add(str(error))
        if wrong:
            found.append(Violation(requirement, wrong))
    return tuple(found)


def check_loader_contract(code: bytes, expected: Expected) -> None:
    """Raise LoaderContractError, which names them, if the code object breaks requirements."""
    broken = violations(code, expected)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise LoaderContractError(f"{broken[0]}{more}")
