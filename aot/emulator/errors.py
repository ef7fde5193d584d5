"""What can be wrong with a run, as types: the request, the code, or the budget.

A *fault* of the program that runs (a race, a read too early, an access out of bounds) is no exception: it is a
finding, see `aot.emulator.faults`, and stands in the report.
"""

from __future__ import annotations

from cache_schema.errors import DeliveryError, RequestError


class EmulatorError(DeliveryError):
    """The emulator cannot vouch for this code object."""


class UnknownInstructionError(EmulatorError):
    """An instruction, modifier or operand that the table does not know, or that the target does not have."""

    def __init__(self, what: str, text: str, pc: int = -1) -> None:
        self.what, self.text, self.pc = what, text, pc
        where = f" at 0x{pc:x}" if pc >= 0 else ""
        super().__init__(f"{what}{where}: {text!r}")

    def at(self, pc: int) -> UnknownInstructionError:
        """The same error, located."""
        return UnknownInstructionError(self.what, self.text, pc)


class UnmodelledStateError(EmulatorError):
    """The program asked for a machine state that is not modelled (a rounding mode, a swizzled buffer, a trap)."""


class BudgetError(EmulatorError):
    """The instruction budget is used up: an endless loop, or a budget that is too small."""


class LaunchError(RequestError):
    """Launch parameters that the code object does not allow."""
