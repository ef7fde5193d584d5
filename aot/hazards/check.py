"""All rules over one kernel."""

from __future__ import annotations

from typing import NamedTuple

from aot.emulator.decode.instruction import Known, Program
from aot.emulator.decode.known import KEPT_INSTRUCTIONS, decode_code
from aot.hazards.access import Access, access_of
from aot.hazards.counters import Counters
from aot.hazards.exec_mask import ExecMask
from aot.hazards.finding import Finding
from aot.hazards.wait_states import Part, WaitStates, part_of
from aot.inspection.control_flow import Block, basic_blocks
from aot.toolchain import code_object

#: Lanes of a wave.
LANES = 64


class _Line(NamedTuple):
    """An instruction as the control flow takes it."""

    address: int
    size: int
    mnemonic: str
    operands: str


#: By target and text: kernels of one catalogue are made of the same instructions.
_SEEN: dict[tuple[str, str], tuple[Access, Part]] = {}


def check_code(code: bytes, threads: int | None = None, *, foreign: bool = False) -> list[Finding]:
    """Findings of a code object, by address; `threads` of a workgroup, if not the most that it allows.

    A `foreign` kernel is not held to the order in which kernels of ours fill and read tiles, see `counters.TILE_RULES`.

    Raises what reading and disassembling raise, and UnknownInstructionError for what is not in the tables.
    """
    kernel = code_object.read(code)
    return check_program(decode_code(kernel, code), kernel.arch, threads or kernel.max_flat_workgroup_size, foreign)


def check_program(program: Program, arch: str, threads: int, foreign: bool) -> list[Finding]:
    """Findings of a decoded kernel that starts with this many threads in a workgroup, by address."""
    seen = [_look_at(instruction.known, arch) for instruction in program.instructions]
    accesses, parts = [access for access, _ in seen], [part for _, part in seen]
    addresses = [instruction.pc for instruction in program.instructions]
    blocks = control_flow_of(program)
    found = [
        *WaitStates(accesses, parts, addresses, blocks).findings(),
        *Counters(accesses, addresses, blocks, not foreign).findings(),
        *ExecMask(program.instructions, accesses, blocks, threads % LANES == 0).findings(),
    ]
    return sorted(found)


def control_flow_of(program: Program) -> list[Block]:
    """Basic blocks of a decoded kernel."""
    return basic_blocks([_Line(i.pc, i.size, *i.known.text.partition(" ")[::2]) for i in program.instructions])


def _look_at(known: Known, arch: str) -> tuple[Access, Part]:
    key = (arch, known.text)
    found = _SEEN.get(key)
    if found is None:
        if len(_SEEN) > KEPT_INSTRUCTIONS:
            _SEEN.clear()
        access = access_of(known)
        found = _SEEN[key] = access, part_of(access, arch)
    return found
