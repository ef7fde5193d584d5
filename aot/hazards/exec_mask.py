"""Where EXEC is known to have every lane on, for what needs all of them: barriers and transposed reads.

Known at a point are scalar registers with all bits set; those that *complete* EXEC, so that EXEC | register has all
bits set; and for registers that hold an earlier EXEC, what completed that one. Saving a full EXEC gives the first,
narrowing it the second, and adding a completing register makes it full again. This follows if and else, nested or not,
and loops that lanes leave one by one. What is known on every path into a block is known there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aot.emulator.decode.instruction import Instruction
from aot.emulator.state import layout
from aot.hazards import bits
from aot.hazards.access import Access
from aot.hazards.finding import Finding
from aot.hazards.fixpoint import entry_states
from aot.inspection.control_flow import Block

PARTIAL_BARRIER = "barrier under a partial EXEC"
PARTIAL_TRANSPOSE = "transposed read under a partial EXEC"
EXEC_RULES = (
    (PARTIAL_BARRIER, "CDNA3 ISA 4.3: a barrier in divergent code is met by the waves that have lanes there"),
    (PARTIAL_TRANSPOSE, "CDNA4 ISA 11.4: a transposed read gathers from all lanes of its row"),
)
_ALL = (1 << layout.SCALAR_CELLS) - 1
_EXEC = 0b11 << layout.EXEC
_ONES_64 = (1 << 64) - 1
_PAIRS = ("s_mov_b64", "s_or_b64", "s_and_b64", "s_andn2_b64", "s_xor_b64")


class State(NamedTuple):
    """Sets of scalar cells: with all bits set, completing EXEC; and by register pair what completes the EXEC in it."""

    ones: int
    completing: int
    saved: tuple[tuple[int, int], ...] = ()

    @property
    def full(self) -> bool:
        return self.ones & _EXEC == _EXEC

    def all_ones(self, cells: int, constant: int) -> bool:
        return self.ones & cells == cells if cells else constant == _ONES_64

    def completes(self, cells: int) -> bool:
        return bool(cells) and self.completing & cells == cells


class ExecMask:
    """The analysis of one kernel. `full`: every wave starts with all lanes on."""

    def __init__(
        self, instructions: Sequence[Instruction], accesses: Sequence[Access], blocks: Sequence[Block], full: bool
    ) -> None:
        self._instructions, self._accesses, self._blocks, self._full = instructions, accesses, blocks, full
        self._found: dict[tuple[int, str], None] = {}

    def findings(self) -> Iterator[Finding]:
        """Every barrier and transposed read that some path reaches with lanes off."""
        start = State(_EXEC, _ALL) if self._full else State(0, 0)
        states = entry_states(self._blocks, start, self._transfer, _join)
        # Knowledge only shrinks while it is collected: look at the end.
        self._found.clear()
        for number, state in states.items():
            self._transfer(self._blocks[number], state)
        for index, rule in self._found:
            yield Finding(self._instructions[index].pc, rule, self._accesses[index].text, "lanes may be off")

    def _transfer(self, block: Block, state: State) -> State:
        for index in range(block.first, block.last):
            access = self._accesses[index]
            if access.name == "s_barrier" and not state.full:
                self._found[index, PARTIAL_BARRIER] = None
            elif "transposed" in access.roles and not state.full:
                self._found[index, PARTIAL_TRANSPOSE] = None
            written = access.writes >> bits.SCALAR & _ALL
            if written:
                state = _step(self._instructions[index], access.name, written, state)
        return state


def _join(left: State, right: State) -> State:
    others = dict(right.saved)
    saved = tuple((pair, known & others[pair]) for pair, known in left.saved if pair in others)
    return State(left.ones & right.ones, left.completing & right.completing, saved)


def _step(instruction: Instruction, name: str, written: int, state: State) -> State:
    uses = instruction.decoded.uses
    sources = [_source(use.operand.kind, use.operand.number) for use in uses[1:]]
    if name.startswith("s_") and name.endswith("_saveexec_b64"):
        return _save(name, sources[0], written & ~_EXEC, state)
    kept = _forget(state, written)
    if name not in _PAIRS:
        return kept
    if written & _EXEC:
        return _into_exec(name, sources, kept, state)
    return _into_register(name, sources, written, kept, state)


def _source(kind: str, number: int) -> tuple[int, int]:
    """(cells, 0) of a register pair, (0, bits) of a constant."""
    return (0b11 << number, 0) if kind == "s" else (0, number)


def _forget(state: State, written: int) -> State:
    """What is still known when these cells hold something unknown."""
    ones = state.ones & ~written
    saved = tuple((pair, known & ~written) for pair, known in state.saved if not pair & written)
    if written & _EXEC:
        return State(ones, ones, saved)
    # Next to a full EXEC anything completes it.
    return State(ones, _ALL if state.full else state.completing & ~written, saved)


def _exec_is(full: bool, completing: int, kept: State) -> State:
    """EXEC was written; cells with all bits set complete whatever it is."""
    if full:
        return State(kept.ones | _EXEC, _ALL, kept.saved)
    return State(kept.ones, completing | kept.ones, kept.saved)


def _into_exec(name: str, sources: list[tuple[int, int]], kept: State, before: State) -> State:
    if name == "s_mov_b64":
        cells, constant = sources[0]
        return _exec_is(before.all_ones(cells, constant), dict(kept.saved).get(cells, 0), kept)
    ones = [before.all_ones(*source) for source in sources]
    if name == "s_and_b64":
        return _exec_is(all(ones), 0, kept)
    if (_EXEC, 0) not in sources:
        return _exec_is(name == "s_or_b64" and any(ones), 0, kept)
    place = sources.index((_EXEC, 0))
    other, _ = sources[1 - place]
    if name == "s_or_b64":
        # More lanes than before and than in the saved EXEC: what completed either of them completes this.
        full = any(ones) or before.completes(other)
        return _exec_is(full, kept.completing | before.completing | dict(kept.saved).get(other, 0), kept)
    if name == "s_andn2_b64":
        return _exec_is(False, other if place == 0 and before.completes(other) else 0, kept)
    return _exec_is(False, other if before.full else 0, kept)


def _into_register(name: str, sources: list[tuple[int, int]], written: int, kept: State, before: State) -> State:
    ones = [before.all_ones(*source) for source in sources]
    completing = [before.completes(cells) for cells, _ in sources]
    if name == "s_mov_b64":
        is_ones, completes = ones[0], completing[0]
    elif name == "s_or_b64":
        is_ones, completes = any(ones), any(completing)
    elif name == "s_and_b64":
        is_ones, completes = all(ones), all(completing)
    else:
        # A full register without the lanes of EXEC has the rest.
        place = sources.index((_EXEC, 0)) if (_EXEC, 0) in sources else -1
        rest = place >= 0 and ones[1 - place] and (name == "s_xor_b64" or place == 1)
        is_ones, completes = False, rest
    saved = kept.saved
    if name == "s_mov_b64" and sources[0][0] == _EXEC:
        saved = (*saved, (written, before.completing & ~written))
    ones_now = kept.ones | (written if is_ones else 0)
    return State(ones_now, kept.completing | (written if completes or is_ones else 0), saved)


def _save(name: str, source: tuple[int, int], pair: int, state: State) -> State:
    """`pair = EXEC; EXEC = f(source, EXEC)`."""
    is_ones, completes = state.all_ones(*source), state.completes(source[0])
    kept = _forget(_forget(state, pair), _EXEC)
    ones = kept.ones | (pair if state.full else 0)
    kept = State(ones, ones, (*kept.saved, (pair, state.completing & ~pair)))
    if name == "s_or_saveexec_b64":
        return _exec_is(state.full or is_ones or completes, state.completing & ~pair, kept)
    if name == "s_and_saveexec_b64":
        return _exec_is(state.full and is_ones, 0, kept)
    # Of the source the lanes that were off: with those that were on, and the source, all of it.
    return _exec_is(False, pair if name == "s_andn2_saveexec_b64" and (completes or is_ones) else 0, kept)
