"""The contract of an engine: IR text in, relocatable AMDGPU object out, inside one warm process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aot.toolchain.errors import CompileError
from aot.toolchain.llvm_c import OPT_AGGRESSIVE

TRIPLE = "amdgcn-amd-amdhsa"
ENGINE_KINDS = ("libllvm", "llvmlite", "clang")
OPT_LEVEL = OPT_AGGRESSIVE


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
    if not _has_line(ir, "target datalayout ="):
        header += f'target datalayout = "{data_layout}"\n'
    if not _has_line(ir, "target triple ="):
        header += f'target triple = "{TRIPLE}"\n'
    return header + ir


def _has_line(ir: str, start: str) -> bool:
    return ir.startswith(start) or f"\n{start}" in ir


def check_layout(found: str, expected: str) -> None:
    """A foreign data layout can abort inside code generation, so it is refused before it gets there."""
    if found != expected:
        raise CompileError(f"the IR's data layout is not this compiler's: {found!r}, expected {expected!r}")
