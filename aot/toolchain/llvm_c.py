"""The part of LLVM's C interface that we call, bound by ctypes to one libLLVM.

Signatures are declared once, in `_SIGNATURES`; a library without one of them, or without the AMDGPU target, is refused
when it is opened. Handles are `int | None` (ctypes' form of `void *`); the caller frees what LLVM says it owns.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from aot.toolchain.errors import CompileError, ToolchainMissingError
from aot.workers.child import MachineError, lacks_memory

Handle = int

DIAGNOSTIC_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)

# LLVMCodeGenOptLevel, LLVMRelocMode, LLVMCodeModel, LLVMCodeGenFileType, LLVMVerifierFailureAction
OPT_AGGRESSIVE = 3
RELOC_PIC = 2
CODE_MODEL_DEFAULT = 0
OBJECT_FILE = 1
VERIFY_RETURN_STATUS = 2

# LLVMDiagnosticSeverity
SEVERITY_ERROR = 0

_OUT_STRING = POINTER(c_void_p)

_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "LLVMGetVersion": (None, [POINTER(c_uint)] * 3),
    "LLVMDisposeMessage": (None, [c_void_p]),
    "LLVMParseCommandLineOptions": (None, [c_int, POINTER(c_char_p), c_char_p]),
    "LLVMInitializeAMDGPUTargetInfo": (None, []),
    "LLVMInitializeAMDGPUTarget": (None, []),
    "LLVMInitializeAMDGPUTargetMC": (None, []),
    "LLVMInitializeAMDGPUAsmPrinter": (None, []),
    "LLVMInitializeAMDGPUAsmParser": (None, []),
    "LLVMInitializeAMDGPUDisassembler": (None, []),
    "LLVMContextCreate": (c_void_p, []),
    "LLVMContextDispose": (None, [c_void_p]),
    "LLVMContextSetDiagnosticHandler": (None, [c_void_p, DIAGNOSTIC_HANDLER, c_void_p]),
    "LLVMGetDiagInfoDescription": (c_void_p, [c_void_p]),
    "LLVMGetDiagInfoSeverity": (c_int, [c_void_p]),
    "LLVMCreateMemoryBufferWithMemoryRange": (c_void_p, [c_char_p, c_size_t, c_char_p, c_int]),
    "LLVMParseIRInContext": (c_int, [c_void_p, c_void_p, _OUT_STRING, _OUT_STRING]),
    "LLVMVerifyModule": (c_int, [c_void_p, c_int, _OUT_STRING]),
    "LLVMGetDataLayoutStr": (c_char_p, [c_void_p]),
    "LLVMDisposeModule": (None, [c_void_p]),
    "LLVMGetTargetFromTriple": (c_int, [c_char_p, _OUT_STRING, _OUT_STRING]),
    "LLVMCreateTargetMachine": (c_void_p, [c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int]),
    "LLVMDisposeTargetMachine": (None, [c_void_p]),
    "LLVMCreateTargetDataLayout": (c_void_p, [c_void_p]),
    "LLVMCopyStringRepOfTargetData": (c_void_p, [c_void_p]),
    "LLVMDisposeTargetData": (None, [c_void_p]),
    "LLVMTargetMachineEmitToMemoryBuffer": (c_int, [c_void_p, c_void_p, c_int, _OUT_STRING, _OUT_STRING]),
    "LLVMGetBufferStart": (c_void_p, [c_void_p]),
    "LLVMGetBufferSize": (c_size_t, [c_void_p]),
    "LLVMDisposeMemoryBuffer": (None, [c_void_p]),
    "LLVMCreatePassBuilderOptions": (c_void_p, []),
    "LLVMPassBuilderOptionsSetLoopVectorization": (None, [c_void_p, c_int]),
    "LLVMPassBuilderOptionsSetSLPVectorization": (None, [c_void_p, c_int]),
    "LLVMPassBuilderOptionsSetLoopInterleaving": (None, [c_void_p, c_int]),
    "LLVMPassBuilderOptionsSetLoopUnrolling": (None, [c_void_p, c_int]),
    "LLVMDisposePassBuilderOptions": (None, [c_void_p]),
    "LLVMRunPasses": (c_void_p, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "LLVMGetErrorMessage": (c_void_p, [c_void_p]),
    "LLVMDisposeErrorMessage": (None, [c_void_p]),
    "LLVMCreateDisasmCPU": (c_void_p, [c_char_p, c_char_p, c_void_p, c_int, c_void_p, c_void_p]),
    "LLVMDisasmInstruction": (c_size_t, [c_void_p, c_void_p, c_uint64, c_uint64, c_char_p, c_size_t]),
    "LLVMDisasmDispose": (None, [c_void_p]),
}


@functools.lru_cache(maxsize=4)
def load(path: Path) -> ctypes.CDLL:
    """libLLVM at `path`, with every signature set and the AMDGPU target registered. One instance per process.

    Raises ToolchainMissingError for what is no such library, MachineError where there is no memory for it.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        if lacks_memory(str(error)):
            raise MachineError(f"too little memory to load {path}: {error}") from error
        raise ToolchainMissingError(f"cannot load {path}: {error}", "scripts/setup") from error
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            what = f"{path} has no {name}: not an LLVM with the AMDGPU target"
            raise ToolchainMissingError(what, "scripts/setup") from error
        function.restype, function.argtypes = result, arguments
    for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser", "Disassembler"):
        getattr(library, f"LLVMInitializeAMDGPU{part}")()
    return library


def version(library: ctypes.CDLL) -> str:
    """The version as `major.minor.patch`."""
    parts = [c_uint() for _ in range(3)]
    library.LLVMGetVersion(*map(byref, parts))
    return ".".join(str(part.value) for part in parts)


def take_string(library: Any, pointer: Handle | None) -> str:
    """The text at `pointer`, which LLVM gave to us; freed here."""
    if not pointer:
        return ""
    text = ctypes.string_at(pointer).decode("utf-8", "replace")
    library.LLVMDisposeMessage(pointer)
    return text


class Diagnostics:
    """The errors that LLVM reports on a context, kept until `check`.

    Without a handler LLVM prints an error of code generation (too much LDS, say) and ends the process. `calls` has the
    diagnostic functions as attributes: a libLLVM, or what was found of them elsewhere.
    """

    def __init__(self, calls: Any) -> None:
        self._calls = calls
        self._messages: list[str] = []
        # ctypes callbacks die with their last reference: held for the life of this object.
        self._handler = DIAGNOSTIC_HANDLER(self._take)

    def attach(self, context: Handle) -> None:
        """Listen to `context`, and forget what others said."""
        self._messages.clear()
        self._calls.LLVMContextSetDiagnosticHandler(context, self._handler, None)

    def check(self) -> None:
        """Raise CompileError if an error was reported."""
        if self._messages:
            raise CompileError("; ".join(self._messages))

    def _take(self, info: Handle, _context: Handle) -> None:
        if self._calls.LLVMGetDiagInfoSeverity(info) == SEVERITY_ERROR:
            self._messages.append(take_string(self._calls, self._calls.LLVMGetDiagInfoDescription(info)))


def take_buffer(library: ctypes.CDLL, buffer: Handle) -> bytes:
    """The bytes of a memory buffer; freed here."""
    content = ctypes.string_at(library.LLVMGetBufferStart(buffer), library.LLVMGetBufferSize(buffer))
    library.LLVMDisposeMemoryBuffer(buffer)
    return content
