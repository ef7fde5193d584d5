"""Engine over a clang process per kernel: the reference that the engines in process are held against."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from aot.toolchain.engine import TRIPLE, Timings
from aot.toolchain.errors import CompileError
from aot.toolchain.options import as_flags, parse_options
from aot.workers.child import run_child

# Pipelines that clang's driver can be asked for.
_PASS_FLAGS = {"": ["-Xclang", "-disable-llvm-passes"], "default<O3>": []}
# The slowest kernels take a minute; a farm's own limit per kernel comes first.
_SECONDS = 600.0


def clang_command(clang: Path, arch: str, options: list[str], passes: str) -> list[str]:
    """IR on stdin, object on stdout. The address-significance table is clang's own addition, no use to a GPU."""
    mllvm = [part for flag in options for part in ("-mllvm", flag)]
    target = ["-target", TRIPLE, f"-mcpu={arch}", "-nogpulib"]
    return [str(clang), "-x", "ir", *target, "-O3", *_PASS_FLAGS[passes], *mllvm, "-fno-addrsig", "-c", "-", "-o", "-"]


class ClangEngine:
    """Stateless; `timings.codegen` is the whole process."""

    def __init__(self, clang: Path, llvm_major: int, arch: str, codegen_options: tuple[str, ...] = ()) -> None:
        self._clang, self._arch = clang, arch
        self._flags = as_flags(parse_options(codegen_options, llvm_major))
        self.timings = Timings()

    def compile(self, ir: str, passes: str = "") -> bytes:
        """See `Engine.compile`; only the empty pipeline and default<O3> can be asked of clang."""
        if passes not in _PASS_FLAGS:
            raise CompileError(f"the clang engine runs the pipelines {list(_PASS_FLAGS)}, not {passes!r}")
        start = perf_counter()
        command = clang_command(self._clang, self._arch, self._flags, passes)
        result = run_child(command, seconds=_SECONDS, stdin=ir.encode())
        if result.code != 0:
            raise CompileError(result.message or f"{self._clang} failed")
        self.timings.codegen += perf_counter() - start
        self.timings.kernels += 1
        return result.stdout

    def close(self) -> None:
        """Nothing is held."""
