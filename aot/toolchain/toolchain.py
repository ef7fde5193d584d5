"""What compiles: one LLVM, one linker, and how they are driven. Plain data, so that workers can be handed it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aot.toolchain.errors import ToolchainVersionError


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler and linker that were found on this machine.

    `compiler_digest` is over the bytes of what compiles and links; it and nothing else of this record enters a key.
    """

    name: str
    chosen_because: str
    llvm_version: str
    flavor: str
    engine: str
    engines: tuple[str, ...]
    compiler_digest: str
    linker_version: str
    libllvm: Path | None = None
    clang: Path | None = None
    linker: tuple[str, ...] = ()
    objdump: Path | None = None

    @property
    def llvm_major(self) -> int:
        return int(self.llvm_version.split(".")[0])


def flavor_of(llvm_version: str) -> str:
    """The IR flavor of an LLVM. Raises ToolchainVersionError for one that no kernel builder writes for."""
    major = int(llvm_version.split(".")[0])
    if major < 20:
        raise ToolchainVersionError(f"LLVM {llvm_version} is too old; known flavors: llvm20 (LLVM 20), llvm22 (21, 22)")
    if major >= 23:
        raise ToolchainVersionError(f"LLVM {llvm_version} is too new; known flavors: llvm20 (LLVM 20), llvm22 (21, 22)")
    return "llvm20" if major < 21 else "llvm22"
