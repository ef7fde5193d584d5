"""LLVM-C functions inside llvmlite's library, which links them in but does not export them.

The wheel's library keeps its symbol table, so a function is found there at its distance from an exported one. Needed
for the diagnostics handler alone: without one, LLVM answers an error of code generation (too much LDS, say) by ending
the process. Where it fails (a stripped library, no ELF file) the caller has to live with that default.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from ctypes import c_int, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding.ffi
import numpy as np

from aot.toolchain.elf import HEADER, SECTION, SHT_SYMTAB
from aot.toolchain.llvm_c import DIAGNOSTIC_HANDLER

_ANCHOR = "LLVMPY_ContextCreate"
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "LLVMContextSetDiagnosticHandler": (None, [c_void_p, DIAGNOSTIC_HANDLER, c_void_p]),
    "LLVMGetDiagInfoDescription": (c_void_p, [c_void_p]),
    "LLVMGetDiagInfoSeverity": (c_int, [c_void_p]),
    "LLVMDisposeMessage": (None, [c_void_p]),
}


def library_path() -> Path:
    """The file that llvmlite loaded."""
    return Path(llvmlite.binding.ffi.lib._name)


@functools.cache
def diagnostic_functions() -> SimpleNamespace | None:
    """The four functions as attributes, called like those of a libLLVM; None if the library does not show them."""
    addresses = _symbol_values(library_path(), (_ANCHOR, *_FUNCTIONS))
    if addresses is None:
        return None
    # The same library again, without llvmlite's wrappers around its functions.
    loaded = ctypes.cast(getattr(ctypes.CDLL(str(library_path())), _ANCHOR), c_void_p).value or 0
    shift = loaded - addresses[_ANCHOR]
    bound = {
        name: ctypes.CFUNCTYPE(result, *arguments)(addresses[name] + shift)
        for name, (result, arguments) in _FUNCTIONS.items()
    }
    return SimpleNamespace(**bound)


def _symbol_values(path: Path, names: tuple[str, ...]) -> dict[str, int] | None:
    """Addresses of symbols as the file has them; None unless every one of them is defined in its symbol table."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
        if image[:5] != b"\x7fELF\x02":
            return None
        table, count = (HEADER.unpack_from(image)[index] for index in (6, 12))
        headers = [SECTION.unpack_from(image, table + index * SECTION.size) for index in range(count)]
        tables = [header for header in headers if header[1] == SHT_SYMTAB]
        if not tables:
            return None
        start, size, strings = tables[0][4], tables[0][5], headers[tables[0][6]]
        symbols = np.frombuffer(image[start : start + size], _SYMBOL)
        found = {}
        for name in names:
            at = image.find(b"\0" + name.encode() + b"\0", strings[4], strings[4] + strings[5])
            rows = symbols[(symbols["name"] == at + 1 - strings[4]) & (symbols["section"] != 0)]
            if at < 0 or len(rows) != 1:
                return None
            found[name] = int(rows["value"][0])
        return found
