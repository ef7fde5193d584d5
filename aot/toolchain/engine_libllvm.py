"""Engine over libLLVM, in process, through LLVM's C interface."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_void_p
from pathlib import Path
from time import perf_counter

from aot.toolchain import llvm_c
from aot.toolchain.engine import OPT_LEVEL, TRIPLE, Timings, check_layout, with_target
from aot.toolchain.errors import CompileError
from aot.toolchain.options import ProcessOptions, parse_options

_BUFFER_NAME = b"kernel.ll"


@functools.lru_cache(maxsize=4)
def _process_options(path: Path) -> ProcessOptions:
    """The command-line state of the libLLVM at `path`: one per process, shared by its engines."""
    library = llvm_c.load(path)

    def apply(flags: list[str]) -> None:
        arguments = [b"rocke-aot", *(flag.encode() for flag in flags)]
        library.LLVMParseCommandLineOptions(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments), None)

    return ProcessOptions(apply)


class LibLlvmEngine:
    """One TargetMachine, kept; one LLVMContext per kernel, so that memory stays flat."""

    def __init__(self, library: Path, arch: str, codegen_options: tuple[str, ...] = ()) -> None:
        self._llvm = llvm_c.load(library)
        self._process = _process_options(library)
        self._options = parse_options(codegen_options, int(llvm_c.version(self._llvm).split(".")[0]))
        self._diagnostics = llvm_c.Diagnostics(self._llvm)
        self.timings = Timings()
        with self._process.in_force(self._options):
            self._machine = self._open_machine(arch)
        self._data_layout = self._read_layout()

    def compile(self, ir: str, passes: str = "") -> bytes:
        """See `Engine.compile`. An error of code generation becomes a CompileError; LLVM's own aborts stay aborts."""
        start = perf_counter()
        with self._process.in_force(self._options), self._context() as context:
            module = self._parse(context, with_target(ir, self._data_layout))
            try:
                parsed = perf_counter()
                if passes:
                    self._run_passes(module, passes)
                optimised = perf_counter()
                code = self._emit(module)
            finally:
                self._llvm.LLVMDisposeModule(module)
        self._diagnostics.check()
        self.timings.parse += parsed - start
        self.timings.passes += optimised - parsed
        self.timings.codegen += perf_counter() - optimised
        self.timings.kernels += 1
        return code

    def close(self) -> None:
        machine, self._machine = self._machine, 0
        if machine:
            self._llvm.LLVMDisposeTargetMachine(machine)

    @contextmanager
    def _context(self) -> Iterator[int]:
        context: int = self._llvm.LLVMContextCreate()
        self._diagnostics.attach(context)
        try:
            yield context
        finally:
            self._llvm.LLVMContextDispose(context)

    def _open_machine(self, arch: str) -> int:
        target, message = c_void_p(), c_void_p()
        if self._llvm.LLVMGetTargetFromTriple(TRIPLE.encode(), byref(target), byref(message)):
            raise CompileError(llvm_c.take_string(self._llvm, message.value))
        machine: int = self._llvm.LLVMCreateTargetMachine(
            target, TRIPLE.encode(), arch.encode(), b"", OPT_LEVEL, llvm_c.RELOC_PIC, llvm_c.CODE_MODEL_DEFAULT
        )
        return machine

    def _read_layout(self) -> str:
        layout = self._llvm.LLVMCreateTargetDataLayout(self._machine)
        text = llvm_c.take_string(self._llvm, self._llvm.LLVMCopyStringRepOfTargetData(layout))
        self._llvm.LLVMDisposeTargetData(layout)
        return text

    def _parse(self, context: int, ir: str) -> int:
        """A verified module. LLVM takes the buffer over, whatever the outcome."""
        text = ir.encode()
        buffer = self._llvm.LLVMCreateMemoryBufferWithMemoryRange(text, len(text), _BUFFER_NAME, 1)
        module, message = c_void_p(), c_void_p()
        failed = self._llvm.LLVMParseIRInContext(context, buffer, byref(module), byref(message))
        if failed or not module.value:
            raise CompileError(f"IR does not parse: {llvm_c.take_string(self._llvm, message.value)}")
        problem = c_void_p()
        invalid = self._llvm.LLVMVerifyModule(module, llvm_c.VERIFY_RETURN_STATUS, byref(problem))
        reason = llvm_c.take_string(self._llvm, problem.value)
        try:
            if invalid:
                raise CompileError(f"IR does not verify: {reason.strip()}")
            check_layout(self._llvm.LLVMGetDataLayoutStr(module).decode(), self._data_layout)
        except CompileError:
            self._llvm.LLVMDisposeModule(module)
            raise
        return module.value

    def _run_passes(self, module: int, passes: str) -> None:
        options = self._llvm.LLVMCreatePassBuilderOptions()
        for tune in ("LoopVectorization", "SLPVectorization", "LoopInterleaving", "LoopUnrolling"):
            getattr(self._llvm, f"LLVMPassBuilderOptionsSet{tune}")(options, 1)
        error = self._llvm.LLVMRunPasses(module, passes.encode(), self._machine, options)
        self._llvm.LLVMDisposePassBuilderOptions(options)
        if error:
            text = self._llvm.LLVMGetErrorMessage(error)
            message = ctypes.string_at(text).decode("utf-8", "replace")
            self._llvm.LLVMDisposeErrorMessage(text)
            raise CompileError(f"pass pipeline {passes!r}: {message}")

    def _emit(self, module: int) -> bytes:
        message, buffer = c_void_p(), c_void_p()
        failed = self._llvm.LLVMTargetMachineEmitToMemoryBuffer(
            self._machine, module, llvm_c.OBJECT_FILE, byref(message), byref(buffer)
        )
        if failed:
            raise CompileError(llvm_c.take_string(self._llvm, message.value))
        return llvm_c.take_buffer(self._llvm, buffer.value or 0)
