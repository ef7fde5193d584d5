"""An engine of the kind that a toolchain was chosen for."""

from __future__ import annotations

from collections.abc import Sequence

from aot.toolchain.engine import Engine
from aot.toolchain.errors import ToolchainChoiceError
from aot.toolchain.toolchain import Toolchain


def open_engine(
    toolchain: Toolchain, arch: str, codegen_options: Sequence[str] = (), kind: str | None = None
) -> Engine:
    """A warm engine for one architecture and one set of code generation options; `kind` overrides the toolchain's.

    Opening costs milliseconds, so a worker keeps one per (arch, option set). Raises CodegenOptionError.
    """
    kind = kind or toolchain.engine
    options = tuple(codegen_options)
    if kind == "llvmlite" and "llvmlite" in toolchain.engines:
        # Imported where it compiles: the library behind it is 170 MB.
        from aot.toolchain.engine_llvmlite import LlvmliteEngine

        return LlvmliteEngine(arch, options)
    if kind == "libllvm" and toolchain.libllvm is not None:
        from aot.toolchain.engine_libllvm import LibLlvmEngine

        return LibLlvmEngine(toolchain.libllvm, arch, options)
    if kind == "clang" and toolchain.clang is not None:
        from aot.toolchain.engine_clang import ClangEngine

        return ClangEngine(toolchain.clang, toolchain.llvm_major, arch, options)
    known = ", ".join(toolchain.engines)
    raise ToolchainChoiceError(f"toolchain {toolchain.name} has no engine {kind!r}; it has: {known}")
