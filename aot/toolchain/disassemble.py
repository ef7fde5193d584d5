"""A kernel's instructions as LLVM's own disassembler prints them, through libLLVM in process or llvm-objdump."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from aot.toolchain import code_object, llvm_c
from aot.toolchain.discover import DISTRIBUTION_MAJORS, INSTALL_SYSTEM, distribution_parts
from aot.toolchain.engine import TRIPLE
from aot.toolchain.errors import DisassemblyError, ToolchainMissingError
from aot.toolchain.toolchain import Toolchain

_TEXT_BYTES = 512
_OBJDUMP_LINE = re.compile(r"^\s+(\S+)\s*(.*?)\s*// ([0-9A-F]+): ([0-9A-F ]+?)(?: <.*>)?$")


class Instruction(NamedTuple):
    """One instruction. `address` is the virtual one of the code object; `raw` its bytes in memory order."""

    address: int
    size: int
    mnemonic: str
    operands: str
    raw: bytes

    @property
    def text(self) -> str:
        return f"{self.mnemonic} {self.operands}".rstrip()


def disassemble(toolchain: Toolchain | None, code: bytes) -> list[Instruction]:
    """The kernel's code from its entry to its end; what pads `.text` behind it is left out.

    Uses the toolchain's LLVM, or any of the distribution's if that cannot disassemble (llvmlite's) or none is given.
    Raises CodeObjectError, DisassemblyError for bytes that are no instruction, ToolchainMissingError.
    """
    kernel = code_object.read(code)
    library, objdump = find_disassembler(toolchain)
    if library is not None:
        return _disassemble_in_process(library, kernel)
    assert objdump is not None
    return _disassemble_by_process(objdump, kernel, code)


def find_disassembler(toolchain: Toolchain | None) -> tuple[Path | None, Path | None]:
    """(libLLVM, llvm-objdump) that can disassemble; one of them may be None. Raises ToolchainMissingError."""
    if toolchain is not None and (toolchain.libllvm or toolchain.objdump):
        return toolchain.libllvm, toolchain.objdump
    for major in DISTRIBUTION_MAJORS:
        parts = distribution_parts(major)
        if parts.libllvm or parts.objdump:
            return parts.libllvm, parts.objdump
    raise ToolchainMissingError("no LLVM disassembler on this machine (llvmlite has none)", INSTALL_SYSTEM)


def _disassemble_in_process(library: Path, kernel: code_object.CodeObject) -> list[Instruction]:
    llvm = llvm_c.load(library)
    context = llvm.LLVMCreateDisasmCPU(TRIPLE.encode(), kernel.arch.encode(), None, 0, None, None)
    if not context:
        raise DisassemblyError(f"{library} has no disassembler for {kernel.arch}")
    code = kernel.text[kernel.entry_offset : kernel.entry_offset + kernel.code_bytes]
    start = kernel.text_address + kernel.entry_offset
    buffer, text = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(_TEXT_BYTES)
    base, step = ctypes.addressof(buffer), llvm.LLVMDisasmInstruction
    instructions, position = [], 0
    try:
        while position < len(code):
            size = step(context, base + position, len(code) - position, start + position, text, _TEXT_BYTES)
            if size == 0:
                unknown = code[position : position + 8].hex()
                raise DisassemblyError(f"no {kernel.arch} instruction at {start + position:#x}: {unknown}")
            mnemonic, _, operands = text.value.decode().strip().partition(" ")
            raw = code[position : position + size]
            instructions.append(Instruction(start + position, size, mnemonic, operands.strip(), raw))
            position += size
    finally:
        llvm.LLVMDisasmDispose(context)
    return instructions


def _disassemble_by_process(objdump: Path, kernel: code_object.CodeObject, code: bytes) -> list[Instruction]:
    start = kernel.text_address + kernel.entry_offset
    limits = [f"--start-address={start}", f"--stop-address={start + kernel.code_bytes}"]
    with tempfile.TemporaryDirectory(prefix="rocke-disasm-") as folder:
        path = Path(folder, "kernel.so")
        path.write_bytes(code)
        command = [str(objdump), "-d", f"--mcpu={kernel.arch}", *limits, str(path)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DisassemblyError(result.stderr.strip())
    found = [match for line in result.stdout.splitlines() if (match := _OBJDUMP_LINE.match(line))]
    instructions = []
    for mnemonic, operands, address, words in (match.groups() for match in found):
        raw = b"".join(int(word, 16).to_bytes(4, "little") for word in words.split())
        instructions.append(Instruction(int(address, 16), len(raw), mnemonic, operands, raw))
    if sum(instruction.size for instruction in instructions) != kernel.code_bytes:
        raise DisassemblyError(f"llvm-objdump did not decode all of {kernel.code_bytes} bytes")
    return instructions
