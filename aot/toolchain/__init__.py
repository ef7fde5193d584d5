"""IR text to code object: finding an LLVM, compiling in process, linking, reading and disassembling what comes out."""

from __future__ import annotations

from aot.toolchain.code_object import CodeObject
from aot.toolchain.code_object import read as read_code_object
from aot.toolchain.content_key import KERNEL_PLACEHOLDER, content_key, symbol_of, with_symbol
from aot.toolchain.disassemble import Instruction, disassemble
from aot.toolchain.discover import find_toolchain
from aot.toolchain.engine import Engine, Timings
from aot.toolchain.link import link
from aot.toolchain.open_engine import open_engine
from aot.toolchain.toolchain import Toolchain

__all__ = [
    "KERNEL_PLACEHOLDER",
    "CodeObject",
    "Engine",
    "Instruction",
    "Timings",
    "Toolchain",
    "content_key",
    "disassemble",
    "find_toolchain",
    "link",
    "open_engine",
    "read_code_object",
    "symbol_of",
    "with_symbol",
]
