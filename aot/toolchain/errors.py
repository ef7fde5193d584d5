"""What can go wrong between IR and a code object, as types a caller can act on."""

from __future__ import annotations

from aot.workers.child import MachineError
from cache_schema.errors import DeliveryError, RequestError


class ToolchainMissingError(MachineError):
    """A compiler, linker or disassembler that is not on this machine; the message names the command that gets it."""

    def __init__(self, what: str, command: str) -> None:
        self.what, self.command = what, command
        super().__init__(f"{what}; get it with: {command}")


class ToolchainChoiceError(RequestError):
    """A `--toolchain` or `ROCKE_AOT_LLVM` that names nothing usable."""


class ToolchainVersionError(DeliveryError):
    """An LLVM for which this project has no IR flavor."""


class CodegenOptionError(RequestError):
    """A code generation option that no engine is known to take, or that its LLVM does not have."""


class CompileError(DeliveryError):
    """IR that does not parse, does not verify or does not lower. The message is LLVM's own."""


class LinkError(DeliveryError):
    """An object that cannot be linked."""


class UnsupportedObjectError(LinkError):
    """An object with a feature our linker does not know: ld.lld has to take it."""


class CodeObjectError(DeliveryError):
    """Bytes that are not a whole AMDGPU HSA code object with one kernel."""


class LoaderContractError(DeliveryError):
    """A code object that a loader would refuse, or launch otherwise than planned."""


class DisassemblyError(DeliveryError):
    """Code that LLVM's disassembler does not decode."""
