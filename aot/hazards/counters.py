"""Results that are used before they were waited for, and LDS accesses that a barrier does not order.

The state at a point is a list per counter of what may be outstanding, youngest first: entry i has at least i younger
operations of its counter behind it, so a wait for n completes all entries from n on. Vector memory and LDS answer in
order; scalar loads in any order, and flat accesses through either counter, so those end only with a wait for zero
(CDNA3 ISA 4.4). Where paths join, entries of one age are united: the age of an operation is the least of all paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aot.hazards import bits
from aot.hazards.access import Access
from aot.hazards.finding import Finding
from aot.hazards.fixpoint import entry_states
from aot.inspection.control_flow import Block

#: The largest count that a wait can name: older operations are complete after any wait (vmcnt has 6 bits).
LONGEST = 63

IN_FLIGHT = "register in flight"
LDS_AT_BARRIER = "LDS access in flight at a barrier"
DIRECT_AT_BARRIER = "load to LDS in flight at a barrier"
DIRECT_OVERTAKEN = "load to LDS in flight where it is read"
DIRECT_AT_END = "load to LDS in flight at the end"
#: Name of the rule and where it is from.
COUNTER_RULES = (
    (IN_FLIGHT, "CDNA3 ISA 4.4, counters: data dependences on memory are the program's"),
    (LDS_AT_BARRIER, "CDNA3 ISA 4.4: s_barrier waits for waves, not for their LDS accesses"),
    (DIRECT_AT_END, "the LDS of a workgroup that ended belongs to the next one"),
)
#: Which tile a load to LDS fills cannot be told from the code. Kernels of ours keep an order that makes up for it.
TILE_RULES = (
    # Every barrier behind direct loads waits for all of them, so that none is ambiguous.
    (DIRECT_AT_BARRIER, "aot.kernels.mainloop: direct; CDNA3 ISA 9.1.9: vmcnt counts loads to LDS"),
    # One wave alone needs no barrier. It reads one tile while the next is loaded: a load is allowed to be in flight at
    # reads of LDS, but no more once other loads to LDS were issued behind those reads.
    (DIRECT_OVERTAKEN, "aot.kernels.mainloop: direct; CDNA3 ISA 9.1.9"),
)


class Entry(NamedTuple):
    """Registers and marks of the outstanding operations of one age, and their instructions."""

    marks: int
    instructions: frozenset[int]


class State(NamedTuple):
    """`smem`: scalar loads; `flat`: end with a wait for zero of both counters, here with either's marks kept apart."""

    vm: tuple[Entry, ...] = ()
    lgkm: tuple[Entry, ...] = ()
    smem: tuple[Entry, ...] = ()
    flat_vm: tuple[Entry, ...] = ()
    flat_lgkm: tuple[Entry, ...] = ()


class Counters:
    """The analysis of one kernel. `tiles`: it keeps the order of tiles that our kernels keep."""

    def __init__(
        self, accesses: Sequence[Access], addresses: Sequence[int], blocks: Sequence[Block], tiles: bool
    ) -> None:
        self._tiles = tiles
        self._accesses, self._addresses, self._blocks = accesses, addresses, blocks
        self._found: dict[tuple[int, str], tuple[int, frozenset[int]]] = {}

    def findings(self) -> Iterator[Finding]:
        """Every rule that is violated on some path."""
        entry_states(self._blocks, State(), self._transfer, _join)
        for (index, rule), (marks, before) in self._found.items():
            told = tuple(f"{self._accesses[i].text} at {self._addresses[i]:#x}" for i in sorted(before))
            registers = marks & bits.REGISTERS
            detail = f"{bits.name_of(registers)} is not waited for" if registers else "nothing waits for it"
            yield Finding(self._addresses[index], rule, self._accesses[index].text, detail, told)

    def _transfer(self, block: Block, state: State) -> State:
        queues = [list(queue) for queue in state]
        vm, lgkm, smem, flat_vm, flat_lgkm = queues
        pending = _union(queues)
        for index in range(block.first, block.last):
            access = self._accesses[index]
            if pending:
                touched = (access.reads | access.writes) & pending
                if touched:
                    self._report(index, IN_FLIGHT, touched, queues)
                name = access.name
                if name == "s_waitcnt":
                    _wait(queues, *access.waits)
                    pending = _union(queues)
                elif name == "s_barrier":
                    self._at(index, LDS_AT_BARRIER, bits.LDS_ACCESS, pending, queues)
                    if self._tiles:
                        self._at(index, DIRECT_AT_BARRIER, bits.DIRECT, pending, queues)
                elif name == "s_endpgm":
                    self._at(index, DIRECT_AT_END, bits.DIRECT, pending, queues)
                elif self._tiles and access.direct and pending & bits.DIRECT_READ_PAST:
                    _mark(vm, bits.DIRECT_READ_PAST, bits.DIRECT_OVERTAKEN)
                    pending |= bits.DIRECT_OVERTAKEN
                elif self._tiles and access.lds and access.late and pending & bits.DIRECT:
                    self._at(index, DIRECT_OVERTAKEN, bits.DIRECT_OVERTAKEN, pending, queues)
                    _mark(vm, bits.DIRECT, bits.DIRECT_READ_PAST)
                    pending |= bits.DIRECT_READ_PAST
            if access.counter:
                marks = access.late | (bits.DIRECT if access.direct else 0) | (bits.LDS_ACCESS if access.lds else 0)
                entry = Entry(marks, frozenset((index,)))
                if access.counter == "vm":
                    _push(vm, entry)
                elif access.counter == "lgkm":
                    _push(lgkm, entry)
                elif access.counter == "smem":
                    smem[:] = [_unite(smem[0], entry)] if smem else [entry]
                else:
                    flat_vm[:] = [_unite(flat_vm[0], entry)] if flat_vm else [entry]
                    flat_lgkm[:] = [_unite(flat_lgkm[0], entry)] if flat_lgkm else [entry]
                pending |= marks
        return State(*map(tuple, queues))

    def _at(self, index: int, rule: str, mark: int, pending: int, queues: list[list[Entry]]) -> None:
        if pending & mark:
            self._report(index, rule, mark, queues)

    def _report(self, index: int, rule: str, marks: int, queues: list[list[Entry]]) -> None:
        old, before = self._found.get((index, rule), (0, frozenset[int]()))
        for entry in (entry for queue in queues for entry in queue):
            if entry.marks & marks:
                old, before = old | entry.marks & marks, before | entry.instructions
        self._found[index, rule] = (old, before)


def _wait(queues: list[list[Entry]], vm_count: int, lgkm_count: int) -> None:
    vm, lgkm, smem, flat_vm, flat_lgkm = queues
    if vm_count >= 0:
        del vm[vm_count:]
    if lgkm_count >= 0:
        del lgkm[lgkm_count:]
    if vm_count == 0:
        flat_vm.clear()
    if lgkm_count == 0:
        smem.clear()
        flat_lgkm.clear()


def _push(queue: list[Entry], entry: Entry) -> None:
    queue.insert(0, entry)
    if len(queue) > LONGEST + 1:
        last = queue.pop()
        queue[-1] = _unite(queue[-1], last)


def _mark(queue: list[Entry], having: int, mark: int) -> None:
    queue[:] = [Entry(e.marks | mark, e.instructions) if e.marks & having else e for e in queue]


def _unite(left: Entry, right: Entry) -> Entry:
    return Entry(left.marks | right.marks, left.instructions | right.instructions)


def _union(queues: list[list[Entry]]) -> int:
    marks = 0
    for queue in queues:
        for entry in queue:
            marks |= entry.marks
    return marks


def _join(left: State, right: State) -> State:
    return left if left == right else State(*map(_join_queues, left, right))


def _join_queues(left: tuple[Entry, ...], right: tuple[Entry, ...]) -> tuple[Entry, ...]:
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    return (*map(_unite, longer, shorter), *longer[len(shorter) :])
