"""Basic blocks and natural loops of one disassembled kernel.

Works on any sequence of instructions that know their address, size, mnemonic and operand text. Branch targets of the
scalar branches are relative: `target = address + 4 + 4 * simm16`. A branch through a register ends the flow: nothing
is assumed about where it goes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_SIMM16 = re.compile(r"-?(?:0x[0-9a-f]+|\d+)\b", re.IGNORECASE)
#: Scalar jumps through a register: their target is not known.
_INDIRECT = ("s_setpc_b64", "s_rfe_b64", "s_cbranch_g_fork", "s_cbranch_join", "s_cbranch_i_fork")


class InstructionLike(Protocol):
    """What is needed of an instruction."""

    @property
    def address(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def mnemonic(self) -> str: ...
    @property
    def operands(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions `[first, last)` by index, and the indices of the blocks that may follow."""

    first: int
    last: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: the block that every entry passes, its blocks, and how many loops enclose it."""

    header: int
    blocks: frozenset[int]
    depth: int
    own_blocks: tuple[int, ...]  #: blocks that belong to no loop inside this one, in address order


def branch_target(instruction: InstructionLike) -> int | None:
    """Address that a relative scalar branch goes to, None for every other instruction."""
    mnemonic = instruction.mnemonic
    if not mnemonic.startswith(("s_branch", "s_cbranch_")) or mnemonic in _INDIRECT:
        return None
    found = _SIMM16.match(instruction.operands.strip())
    if found is None:
        return None
    words = int(found.group(), 0)
    if words >= 1 << 15:
        words -= 1 << 16
    return instruction.address + 4 + 4 * words


def _falls_through(instruction: InstructionLike) -> bool:
    mnemonic = instruction.mnemonic
    return mnemonic != "s_branch" and not mnemonic.startswith("s_endpgm") and mnemonic not in _INDIRECT


def basic_blocks(instructions: Sequence[InstructionLike]) -> list[Block]:
    """Cut a kernel into basic blocks, in address order."""
    index_of = {instruction.address: index for index, instruction in enumerate(instructions)}
    leaders = {0} if instructions else set()
    targets: dict[int, int] = {}
    for index, instruction in enumerate(instructions):
        target = branch_target(instruction)
        if target is not None and target in index_of:
            targets[index] = index_of[target]
            leaders.add(index_of[target])
        if (target is not None or not _falls_through(instruction)) and index + 1 < len(instructions):
            leaders.add(index + 1)
    starts = sorted(leaders)
    block_of = {start: number for number, start in enumerate(starts)}
    blocks = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(instructions)
        follow = [block_of[targets[end - 1]]] if end - 1 in targets else []
        if _falls_through(instructions[end - 1]) and end < len(instructions) and number + 1 not in follow:
            follow.append(number + 1)
        blocks.append(Block(start, end, tuple(follow)))
    return blocks


def reachable(blocks: Sequence[Block]) -> set[int]:
    """Numbers of the blocks that flow from the entry can come to; padding behind the end is not among them."""
    reached = {0} if blocks else set()
    pending = list(reached)
    while pending:
        for successor in blocks[pending.pop()].successors:
            if successor not in reached:
                reached.add(successor)
                pending.append(successor)
    return reached


def _dominators(blocks: Sequence[Block]) -> list[int]:
    """Bit set of dominators per block, 0 for a block that cannot be reached."""
    predecessors: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].append(number)
    everything = (1 << len(blocks)) - 1
    dominators = [everything] * len(blocks)
    dominators[0] = 1
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            common = everything
            for before in predecessors[number]:
                common &= dominators[before]
            updated = common | (1 << number)
            if updated != dominators[number]:
                dominators[number] = updated
                changed = True
    reached = reachable(blocks)
    return [bits if number in reached else 0 for number, bits in enumerate(dominators)]


def natural_loops(blocks: Sequence[Block]) -> list[Loop]:
    """All natural loops (back edges to a dominating header; edges to one header make one loop), by header address."""
    if not blocks:
        return []
    dominators = _dominators(blocks)
    predecessors: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].append(number)
    bodies: dict[int, set[int]] = {}
    for number, block in enumerate(blocks):
        for header in block.successors:
            if not dominators[number] >> header & 1:
                continue
            body = bodies.setdefault(header, {header})
            pending = [number]
            while pending:
                member = pending.pop()
                if member not in body and dominators[member]:
                    body.add(member)
                    pending.extend(predecessors[member])
    loops = []
    for header, body in sorted(bodies.items()):
        enclosing = sum(1 for other, outer in bodies.items() if other != header and body < outer)
        inner = {member for other, nested in bodies.items() if other != header and nested < body for member in nested}
        loops.append(Loop(header, frozenset(body), enclosing, tuple(sorted(body - inner))))
    return loops
