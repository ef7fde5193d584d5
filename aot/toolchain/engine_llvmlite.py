"""Engine over llvmlite, in process: what a machine has that knows PyPI alone."""

from __future__ import annotations

import ctypes
import functools
from time import perf_counter

import llvmlite.binding as llvm

from aot.toolchain import llvm_c
from aot.toolchain.engine import OPT_LEVEL, TRIPLE, Timings, check_layout, with_target
from aot.toolchain.errors import CompileError
from aot.toolchain.llvmlite_symbols import diagnostic_functions
from aot.toolchain.options import ProcessOptions, parse_options

_O3 = "default<O3>"


def llvm_version() -> str:
    """The version of llvmlite's own LLVM."""
    return ".".join(map(str, llvm.llvm_version_info))


@functools.cache
def _process_options() -> ProcessOptions:
    """Registers the targets, once, and holds the command-line state of llvmlite's LLVM."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()

    def apply(flags: list[str]) -> None:
        for flag in flags:
            llvm.set_option("rocke-aot", flag)

    return ProcessOptions(apply)


class LlvmliteEngine:
    """One TargetMachine, kept; one context per kernel."""

    def __init__(self, arch: str, codegen_options: tuple[str, ...] = ()) -> None:
        self._process = _process_options()
        self._options = parse_options(codegen_options, llvm.llvm_version_info[0])
        with self._process.in_force(self._options):
            target = llvm.Target.from_triple(TRIPLE)
            self._machine = target.create_target_machine(cpu=arch, opt=OPT_LEVEL, reloc="pic", codemodel="default")
        self._data_layout = str(self._machine.target_data)
        self._diagnostics = llvm_c.Diagnostics(calls) if (calls := diagnostic_functions()) else None
        self.timings = Timings()

    def compile(self, ir: str, passes: str = "") -> bytes:
        """See `Engine.compile`; llvmlite knows no pipeline text, only the empty one and default<O3>."""
        if passes not in ("", _O3):
            raise CompileError(f"the llvmlite engine runs the pipelines ['', {_O3!r}], not {passes!r}")
        start = perf_counter()
        with self._process.in_force(self._options):
            context = llvm.create_context()
            if self._diagnostics:
                self._diagnostics.attach(ctypes.cast(context._ptr, ctypes.c_void_p).value or 0)
            module = self._parse(context, ir)
            try:
                parsed = perf_counter()
                if passes:
                    self._optimise(module)
                optimised = perf_counter()
                code: bytes = self._machine.emit_object(module)
            except RuntimeError as error:
                raise CompileError(str(error)) from error
            finally:
                module.close()
        if self._diagnostics:
            self._diagnostics.check()
        self.timings.parse += parsed - start
        self.timings.passes += optimised - parsed
        self.timings.codegen += perf_counter() - optimised
        self.timings.kernels += 1
        return code

    def close(self) -> None:
        self._machine.close()

    def _parse(self, context: llvm.ContextRef, ir: str) -> llvm.ModuleRef:
        """A verified module."""
        try:
            module = llvm.parse_assembly(with_target(ir, self._data_layout), context)
            module.verify()
        except RuntimeError as error:
            raise CompileError(f"IR does not parse or verify: {error}") from error
        check_layout(module.data_layout, self._data_layout)
        return module

    def _optimise(self, module: llvm.ModuleRef) -> None:
        tuning = llvm.create_pipeline_tuning_options(speed_level=OPT_LEVEL)
        tuning.loop_vectorization = tuning.slp_vectorization = True
        tuning.loop_interleaving = tuning.loop_unrolling = True
        builder = llvm.create_pass_builder(self._machine, tuning)
        builder.getModulePassManager().run(module, builder)
