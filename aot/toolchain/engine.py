"""The contract of an engine: IR text in, relocatable AMDGPU object out, inside one warm process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from aot.toolchain.errors import CompileError
from aot.toolchain.llvm_c import OPT_AGGRESSIVE

TRIPLE = "amdgcn-amd-amdhsa"
ENGINE_KINDS = ("libllvm", "llvmlite", "clang")
OPT_LEVEL = OPT_AGGRESSIVE

_MODULE_LAYOUT = re.compile(r"^target\s+datalayout\s*=", re.MULTILINE)
_MODULE_TRIPLE = re.compile(r"^target\s+triple\s*=", re.MULTILINE)


@dataclass(slots=True)
class Timings:
    """Seconds spent since the engine was opened, by stage, over `kernels` successful compilations."""

    parse: float = 0.0
    passes: float = 0.0
    codegen: float = 0.0
    kernels: int = 0


class Engine(Protocol):
    """Compiles for one architecture with one set of code generation options, for one thread at a time."""

    @property
    def timings(self) -> Timings: ...

    def compile(self, ir: str, passes: str = "") -> bytes:
        """The object for `ir`.

        `passes` is a new-pass-manager pipeline; empty means code generation only. IR without a data layout or a triple
        gets those of the compiler. Raises CompileError with LLVM's message.
        """
        ...

    def close(self) -> None:
        """Free what LLVM holds for this engine. Idempotent."""
        ...


def with_target(ir: str, data_layout: str) -> str:
    """`ir` with the layout and triple lines it lacks. In front, because the parser needs them before any type."""
    header = ""
    if not _MODULE_LAYOUT.search(ir):
        header += f'target datalayout = "{data_layout}"\n'
    if not _MODULE_TRIPLE.search(ir):
        header += f'target triple = "{TRIPLE}"\n'
    return header + ir


def check_layout(found: str, expected: str) -> None:
    """A foreign data layout can abort inside code generation, so it is refused before it gets there."""
    if found != expected:
        raise CompileError(f"the IR's data layout is not this compiler's: {found!r}, expected {expected!r}")
