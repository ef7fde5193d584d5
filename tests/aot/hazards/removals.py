"""Removes one wait, barrier or wait state of a kernel at a time and says how it was noticed, or why it was not needed.

Waits and wait states are judged by the static checker, which follows every path: what it accepts is redundant, because
each dependence that the instruction served is served by another one on all paths. Barriers are judged by what they keep
apart: LDS accesses that may reach them from before, and those that may follow, up to other barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from aot.emulator.decode.instruction import Instruction, Known, Program
from aot.emulator.decode.known import decode_code
from aot.hazards.access import access_of
from aot.hazards.check import check_program, control_flow_of
from aot.inspection.control_flow import Block, reachable
from aot.toolchain import code_object

WAIT, BARRIER, STATES = "wait", "barrier", "wait states"
HAZARD, FAULT, REDUNDANT, APART, OPEN = "hazard", "fault", "redundant", "nothing to keep apart", "open"
#: LLVM parts memory instructions so that none that a page fault replays overwrites what another reads (XNACK).
CLAUSE = "parts a clause"
#: The emulator compares the exact bytes of waves, whatever their order: with the barrier gone no two met.
OWN = "every wave keeps to its own bytes"
#: s_nop 0, and s_trap 2, which the emulator reports where it is reached.
_NOP, _TRAP = bytes.fromhex("000080bf"), bytes.fromhex("020092bf")


@dataclass(frozen=True)
class Removal:
    """One removed instruction; `outcome` is HAZARD or FAULT where it was noticed, else why it is none, or OPEN."""

    kind: str
    address: int
    text: str
    outcome: str
    detail: str


@dataclass(frozen=True)
class Subject:
    """A right kernel, and if it can be run a function that says what is wrong with a changed code object."""

    label: str
    code: bytes
    threads: int
    symptom: Callable[[bytes], str] | None = None
    foreign: bool = False


def removals(subject: Subject) -> Iterator[Removal]:
    """Every instruction of the three kinds, in the order of the code."""
    kernel = code_object.read(subject.code)
    program = decode_code(kernel, subject.code)
    assert not check_program(program, kernel.arch, subject.threads, subject.foreign)
    reached = _reached(program)
    for instruction in program.instructions:
        kind = {"s_waitcnt": WAIT, "s_barrier": BARRIER, "s_nop": STATES}.get(instruction.form.name)
        if kind is None or instruction.index not in reached:
            continue
        if kind == BARRIER:
            outcome, detail = _barrier(subject, program, instruction)
        else:
            found = check_program(without(program, instruction), kernel.arch, subject.threads, subject.foreign)
            outcome, detail = (HAZARD, str(found[0])) if found else (REDUNDANT, "served on every path by another")
            if not found and kind == STATES and _parts_clause(program, instruction.index):
                outcome, detail = CLAUSE, "between two memory instructions"
        yield Removal(kind, instruction.pc, instruction.text, outcome, detail)


def _parts_clause(program: Program, index: int) -> bool:
    counters = [access_of(program.instructions[near].known).counter for near in (index - 1, index + 1)]
    return counters[0] == counters[1] and counters[0] in ("vm", "smem")


def without(program: Program, removed: Instruction) -> Program:
    """The program with nothing in the place of an instruction, not even a wait state."""
    instructions = list(program.instructions)
    instructions[removed.index] = replace(removed, known=_nothing(removed))
    return Program(instructions, program.by_pc)


def _nothing(removed: Instruction) -> Known:
    """An s_nop of no wait states at all, which no encoding has."""
    form = removed.form._replace(unit="control", name="s_nop")
    return Known(removed.size, "s_nop of nothing", removed.decoded._replace(form=form, number=-1, waits=(-1, -1)))


def patched(code: bytes, instruction: Instruction, word: bytes = _NOP) -> bytes:
    """The code object with another word, s_nop 0 by default, in the place of a scalar program instruction."""
    kernel = code_object.read(code)
    start = code.index(kernel.text) + instruction.pc - kernel.text_address
    assert instruction.size == len(word)
    return code[:start] + word + code[start + len(word) :]


def _barrier(subject: Subject, program: Program, barrier: Instruction) -> tuple[str, str]:
    before = _lds_until(program, barrier.index, forward=False)
    behind = _lds_until(program, barrier.index, forward=True)
    if not ("write" in before and behind) and not ("write" in behind and before):
        return APART, f"{sorted(before) or 'nothing'} before, {sorted(behind) or 'nothing'} behind"
    if subject.symptom is not None:
        symptom = subject.symptom(patched(subject.code, barrier))
        if symptom:
            return FAULT, symptom
        if subject.symptom(patched(subject.code, barrier, _TRAP)):
            return OWN, "in all runs, whose addresses in LDS do not depend on the problem"
    return OPEN, f"{sorted(before)} before, {sorted(behind)} behind"


def _lds_until(program: Program, start: int, *, forward: bool) -> set[str]:
    """Kinds of LDS accesses between a barrier and the next (or last) ones on all paths."""
    blocks = control_flow_of(program)
    place = {index: number for number, block in enumerate(blocks) for index in range(block.first, block.last)}
    edges: dict[int, list[int]] = {number: list(block.successors) for number, block in enumerate(blocks)}
    if not forward:
        edges = {number: [n for n, block in enumerate(blocks) if number in block.successors] for number in edges}
    found: set[str] = set()
    seen: set[int] = set()
    pending = [(place[start], _rest(blocks[place[start]], start, forward))]
    while pending:
        number, indices = pending.pop()
        for index in indices:
            access = access_of(program.instructions[index].known)
            if access.name == "s_barrier":
                break
            if access.direct or (access.lds and not access.late):
                found.add("write")
            elif access.lds:
                found.add("read")
        else:
            for after in edges[number]:
                if after not in seen:
                    seen.add(after)
                    block = blocks[after]
                    span = range(block.first, block.last)
                    pending.append((after, span if forward else span[::-1]))
    return found


def _rest(block: Block, start: int, forward: bool) -> range:
    return range(start + 1, block.last) if forward else range(start - 1, block.first - 1, -1)


def _reached(program: Program) -> frozenset[int]:
    blocks = control_flow_of(program)
    return frozenset(i for number in reachable(blocks) for i in range(blocks[number].first, blocks[number].last))
