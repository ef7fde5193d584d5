"""Faulty copies of real code objects: one instruction changed in its encoding, the rest byte for byte the same.

A mutation keeps the size of the instruction, so nothing moves. The mutated text goes through the assembler, and a
mutation that the assembler refuses or encodes in another size is not made.
"""

from __future__ import annotations

import io
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile

from tests.aot.emulator.oracle.machine import tool

_LINE = re.compile(
    r"^\t(?P<text>[^\n]*?)\s*// (?P<address>[0-9A-F]{12}): (?P<words>[0-9A-F ]+?)\s*(?:<.*)?$", re.MULTILINE
)
_INVERSE = {
    "scc0": "scc1", "scc1": "scc0", "vccz": "vccnz", "vccnz": "vccz", "execz": "execnz", "execnz": "execz",
    "lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq", "lg": "eq",
}  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """One disassembled instruction; `offset` is its place in the file."""

    address: int
    offset: int
    size: int
    text: str


@dataclass(frozen=True)
class Mutant:
    """`kind` names the fault that was planted; `code` is the whole changed code object."""

    kind: str
    instruction: Instruction
    text: str
    code: bytes

    def __str__(self) -> str:
        return f"{self.kind} @{self.instruction.address:#x}: {self.instruction.text} -> {self.text}"


def instructions(code: bytes, arch: str) -> list[Instruction]:
    """The code of the .text section, padding behind the last s_endpgm left out."""
    done = subprocess.run(
        [tool("llvm-objdump"), "-d", f"--mcpu={arch}", "-"], input=code, capture_output=True, check=True
    )
    section = ELFFile(io.BytesIO(code)).get_section_by_name(".text")
    assert section is not None
    delta = section["sh_offset"] - section["sh_addr"]
    found = []
    for match in _LINE.finditer(done.stdout.decode()):
        address = int(match["address"], 16)
        found.append(Instruction(address, address + delta, 4 * len(match["words"].split()), match["text"].strip()))
    last = max(i for i, instruction in enumerate(found) if instruction.text == "s_endpgm")
    return found[: last + 1]


def mutants(code: bytes, arch: str) -> list[Mutant]:
    """Every mutation of every kind that the code offers, in the order of the code."""
    listing = instructions(code, arch)
    wanted = [
        (kind, instruction, text) for instruction in listing for kind, text in _mutations(instruction.text, listing)
    ]
    result = []
    for (kind, instruction, text), encoding in zip(wanted, _assemble([w[2] for w in wanted], arch), strict=True):
        old = code[instruction.offset : instruction.offset + instruction.size]
        if encoding is None or len(encoding) != instruction.size or encoding == old:
            continue
        changed = code[: instruction.offset] + encoding + code[instruction.offset + instruction.size :]
        result.append(Mutant(kind, instruction, text, changed))
    return result


def _assemble(texts: list[str], arch: str) -> list[bytes | None]:
    """Encodings of single instructions; None where the assembler has an error."""
    done = subprocess.run(
        [tool("llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-show-encoding", "-"],
        input="\n".join(texts), capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = {
        int(line.split(":")[1]) - 1 for line in done.stderr.splitlines() if re.match(r"<stdin>:\d+:\d+: error", line)
    }
    encodings = re.findall(r"encoding: \[([^\]]*)\]", done.stdout)
    kept = iter(encodings)
    return [None if i in refused else bytes(int(byte, 16) for byte in next(kept).split(",")) for i in range(len(texts))]


def _mutations(text: str, listing: list[Instruction]) -> Iterator[tuple[str, str]]:
    """(kind, mutated text) for one instruction."""
    mnemonic, _, operands = text.partition(" ")
    padding = "s_nop 0"
    if mnemonic == "s_waitcnt":
        yield "wait dropped", padding
        for counter, limit in (("vmcnt", 63), ("lgkmcnt", 15)):
            match = re.search(rf"{counter}\((\d+)\)", operands)
            if match is not None and int(match[1]) < limit:
                yield "wait relaxed", text.replace(match[0], f"{counter}({int(match[1]) + 1})")
    elif mnemonic == "s_barrier":
        yield "barrier dropped", padding
    elif mnemonic.startswith(("ds_read", "ds_write")):
        yield "LDS offset shifted", _shifted_offset(text)
    elif mnemonic.startswith("v_mfma"):
        d, a, b, c = (part.strip() for part in operands.split(",", 3))
        yield "A and B swapped", f"{mnemonic} {d}, {b}, {a}, {c}"
        if c == "0":
            yield "accumulator not cleared", f"{mnemonic} {d}, {a}, {b}, {d}"
    elif mnemonic.startswith(("s_cbranch", "v_cmp", "s_cmp")) and "class" not in mnemonic:
        parts = mnemonic.split("_")
        where = next((i for i, part in enumerate(parts) if part in _INVERSE), None)
        if where is not None:
            parts[where] = _INVERSE[parts[where]]
            changed = "_".join(parts)
            if changed.startswith("s_cmp"):
                changed = changed.replace("_ne_", "_lg_")
            yield "predicate inverted", f"{changed} {operands}".replace("  ", " ")
    elif mnemonic in ("v_mov_b32_e32", "v_accvgpr_write_b32", "v_mov_b64_e32") and operands.endswith(", 0"):
        if _feeds_matrix(operands.split(",")[0], listing):
            yield "accumulator not cleared", padding if mnemonic == "v_mov_b32_e32" else text[:-1] + "1.0"
    elif mnemonic.startswith("s_load_dword"):
        base, offset = operands.rsplit(", ", 1)
        yield "SGPR offset changed", f"{mnemonic} {base}, {int(offset, 0) + 4:#x}"
    elif mnemonic in ("s_lshl_b32", "s_lshr_b32", "s_add_i32", "s_add_u32", "s_mul_i32"):
        left, last = operands.rsplit(", ", 1)
        if re.fullmatch(r"-?\d+|0x[0-9a-f]+", last):
            yield "SGPR offset changed", f"{mnemonic} {left}, {int(last, 0) + 1}"


def _shifted_offset(text: str) -> str:
    """The LDS access moved on by one element of 16 bytes, or of one unit where there are two offsets."""
    match = re.search(r"offset:(\d+)", text)
    if match is not None:
        return text.replace(match[0], f"offset:{int(match[1]) + 16}")
    match = re.search(r"offset1:(\d+)", text)
    if match is not None:
        return text.replace(match[0], f"offset1:{(int(match[1]) + 1) % 256}")
    return text + (" offset0:1" if "2" in text.split()[0].split("_")[1] else " offset:16")


def _feeds_matrix(register: str, listing: list[Instruction]) -> bool:
    """Whether the register is (part of) an accumulator of some matrix instruction."""
    match = re.fullmatch(r"([va])(?:(\d+)|\[(\d+):\d+\])", register)
    if match is None:
        return False
    number = int(match[2] or match[3])
    for instruction in listing:
        if not instruction.text.startswith("v_mfma"):
            continue
        accumulator = re.search(r"([va])\[(\d+):(\d+)\]$", instruction.text)
        if accumulator is None or accumulator[1] != match[1]:
            continue
        if int(accumulator[2]) <= number <= int(accumulator[3]):
            return True
    return False
