"""A kernel's instructions as LLVM's own disassembler prints them, through libLLVM in process or llvm-objdump."""

from __future__ import annotations

import ctypes
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from aot.toolchain import code_object, llvm_c
from aot.toolchain.discover import DISTRIBUTION_MAJORS, INSTALL_SYSTEM, distribution_parts
from aot.toolchain.engine import TRIPLE
from aot.toolchain.errors import DisassemblyError, ToolchainMissingError
from aot.toolchain.toolchain import Toolchain
from aot.workers.child import run_child

_TEXT_BYTES = 512
# The longest kernels, of some hundred kilobytes, take a second.
_SECONDS = 120.0
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
    found: list[Instruction] = []
    position = 0
    with Disassembly(toolchain, kernel, code) as listing:
        while position < kernel.code_bytes:
            found.append(listing.at(position))
            position += found[-1].size
    return found


def find_disassembler(toolchain: Toolchain | None) -> tuple[Path | None, Path | None]:
    """(libLLVM, llvm-objdump) that can disassemble; one of them may be None. Raises ToolchainMissingError."""
    if toolchain is not None and (toolchain.libllvm or toolchain.objdump):
        return toolchain.libllvm, toolchain.objdump
    for major in DISTRIBUTION_MAJORS:
        parts = distribution_parts(major)
        if parts.libllvm or parts.objdump:
            return parts.libllvm, parts.objdump
    raise ToolchainMissingError("no LLVM disassembler on this machine (llvmlite has none)", INSTALL_SYSTEM)


class Disassembly:
    """The instructions of one kernel on demand, by their offset from its entry; a context manager.

    Raises what `disassemble` raises, on entering it or when an instruction is asked for.
    """

    def __init__(self, toolchain: Toolchain | None, kernel: code_object.CodeObject, code: bytes) -> None:
        self._kernel, self._code = kernel, code
        self._library, self._objdump = find_disassembler(toolchain)
        self._text = kernel.text[kernel.entry_offset : kernel.entry_offset + kernel.code_bytes]
        self._start = kernel.text_address + kernel.entry_offset
        self._llvm: Any = None
        self._context: Any = None
        self._listed: dict[int, Instruction] | None = None

    def __enter__(self) -> Disassembly:
        return self

    def __exit__(self, *_: object) -> None:
        if self._context:
            self._llvm.LLVMDisasmDispose(self._context)
            self._context = None

    def at(self, offset: int) -> Instruction:
        """The instruction that begins there."""
        if self._library is None:
            return self._listed_at(offset)
        if not self._context:
            self._open(self._library)
        left, address = len(self._text) - offset, self._start + offset
        where = self._base + offset
        size = self._llvm.LLVMDisasmInstruction(self._context, where, left, address, self._printed, _TEXT_BYTES)
        if size == 0:
            unknown = self._text[offset : offset + 8].hex()
            raise DisassemblyError(f"no {self._kernel.arch} instruction at {address:#x}: {unknown}")
        mnemonic, _, operands = self._printed.value.decode().strip().partition(" ")
        return Instruction(address, size, mnemonic, operands.strip(), self._text[offset : offset + size])

    def _open(self, library: Path) -> None:
        self._llvm = llvm_c.load(library)
        arch = self._kernel.arch
        self._context = self._llvm.LLVMCreateDisasmCPU(TRIPLE.encode(), arch.encode(), None, 0, None, None)
        if not self._context:
            raise DisassemblyError(f"{library} has no disassembler for {arch}")
        self._buffer = ctypes.create_string_buffer(self._text, len(self._text))
        self._printed = ctypes.create_string_buffer(_TEXT_BYTES)
        self._base = ctypes.addressof(self._buffer)

    def _listed_at(self, offset: int) -> Instruction:
        if self._listed is None:
            assert self._objdump is not None
            lines = _disassemble_by_process(self._objdump, self._kernel, self._code)
            self._listed = {line.address - self._start: line for line in lines}
        if offset not in self._listed:
            raise DisassemblyError(f"llvm-objdump lists no instruction at {self._start + offset:#x}")
        return self._listed[offset]


def _disassemble_by_process(objdump: Path, kernel: code_object.CodeObject, code: bytes) -> list[Instruction]:
    start = kernel.text_address + kernel.entry_offset
    limits = [f"--start-address={start}", f"--stop-address={start + kernel.code_bytes}"]
    with tempfile.TemporaryDirectory(prefix="rocke-disasm-") as folder:
        path = Path(folder, "kernel.so")
        path.write_bytes(code)
        command = [str(objdump), "-d", f"--mcpu={kernel.arch}", *limits, str(path)]
        result = run_child(command, seconds=_SECONDS)
    if result.code != 0:
        raise DisassemblyError(result.message)
    found = [
        match for line in result.stdout.decode("utf-8", "replace").splitlines() if (match := _OBJDUMP_LINE.match(line))
    ]
    instructions = []
    for mnemonic, operands, address, words in (match.groups() for match in found):
        raw = b"".join(int(word, 16).to_bytes(4, "little") for word in words.split())
        instructions.append(Instruction(int(address, 16), len(raw), mnemonic, operands, raw))
    if sum(instruction.size for instruction in instructions) != kernel.code_bytes:
        raise DisassemblyError(f"llvm-objdump did not decode all of {kernel.code_bytes} bytes")
    return instructions
