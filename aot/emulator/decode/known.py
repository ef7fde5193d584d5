"""From a code object to decoded instructions; what was met in an earlier one is not disassembled and decoded again.

Kernels of one catalogue are made of the same instructions. Bytes decide what an instruction is, wherever it stands, and
its first dword decides how long it is.
"""

from __future__ import annotations

from aot.emulator.decode.instruction import Known, Program, know, place
from aot.toolchain.code_object import CodeObject
from aot.toolchain.disassemble import Disassembly

#: Instructions kept per target; beyond that all are forgotten.
KEPT_INSTRUCTIONS = 500_000

_KNOWN: dict[str, dict[bytes, Known]] = {}


def decode_code(kernel: CodeObject, code: bytes) -> Program:
    """The program of a code object that was read as `kernel`. Raises what `disassemble` and `know` raise."""
    known = _KNOWN.setdefault(kernel.arch, {})
    if len(known) > KEPT_INSTRUCTIONS:
        known.clear()
    text = kernel.text[kernel.entry_offset : kernel.entry_offset + kernel.code_bytes]
    start, position = kernel.text_address + kernel.entry_offset, 0
    found = []
    with Disassembly(None, kernel, code) as listing:
        while position < len(text):
            instruction = known.get(text[position : position + 4]) or known.get(text[position : position + 8])
            if instruction is None:
                line = listing.at(position)
                instruction = know(line.address, line.size, line.mnemonic, line.operands, kernel.arch)
                known[line.raw] = instruction
            found.append((start + position, instruction))
            position += instruction.size
    return place(found)
