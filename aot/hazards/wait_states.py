"""Instructions that stand too close together: every pair that the rules name, on the shortest path between the two.

The state at a point is the set of instructions before it that a rule may still look back to: for each, the registers
that count, and the fewest wait states since it was issued. States only grow when paths join, and distances are bounded
by the longest rule, so the iteration ends. A matrix instruction takes the place of earlier ones that wrote, or
accumulated, the same registers: it waited for them itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from aot.hazards.access import Access
from aot.hazards.bits import name_of
from aot.hazards.finding import Finding
from aot.hazards.fixpoint import entry_states
from aot.hazards.matrix_rules import MATRIX_RULES
from aot.hazards.rules import ANY, EQUAL, GENERAL_RULES, SAME, Rule
from aot.inspection.control_flow import Block

RULES: tuple[Rule, ...] = GENERAL_RULES + MATRIX_RULES


class Made(NamedTuple):
    """What an instruction leaves behind: `kind` indexes the (role, set) pairs of the rules; gone after `window`."""

    kind: int
    registers: int
    window: int


class Part(NamedTuple):
    """An instruction's part in the rules of a target: what it makes; by kind the rules it can violate, with the set
    that they ask for and their wait states; and by kind the registers it takes over from earlier matrix instructions.
    """

    makes: tuple[Made, ...]
    meets: Mapping[int, tuple[tuple[Rule, str, int], ...]]
    replaces: Mapping[int, int]


#: (producer, kind) -> (wait states since it was issued, registers)
State = dict[tuple[int, int], tuple[int, int]]


@cache
def _kinds(arch: str) -> dict[tuple[str, str], tuple[int, int]]:
    """(role, set) of producers -> number and longest window."""
    windows: dict[tuple[str, str], int] = {}
    for rule in RULES:
        key = (rule.before, rule.made)
        windows[key] = max(windows.get(key, 0), rule.states_on(arch))
    return {key: (number, window) for number, (key, window) in enumerate(windows.items())}


class _Outline(NamedTuple):
    """What instructions of equal roles have in common: (set, kind, window) made, and what a `Part` meets."""

    made: tuple[tuple[str, int, int], ...]
    meets: Mapping[int, tuple[tuple[Rule, str, int], ...]]


@cache
def _outline(roles: frozenset[str], arch: str) -> _Outline:
    kinds = _kinds(arch)
    made = [(made, kind, window) for (role, made), (kind, window) in kinds.items() if window and role in roles]
    meets: dict[int, tuple[tuple[Rule, str, int], ...]] = {}
    for rule in RULES:
        if rule.after in roles and rule.states_on(arch):
            kind, _ = kinds[rule.before, rule.made]
            meets[kind] = (*meets.get(kind, ()), (rule, rule.met, rule.states_on(arch)))
    return _Outline(tuple(made), meets)


def part_of(access: Access, arch: str) -> Part:
    """The rules of a target that an instruction can be in."""
    outline, sets = _outline(access.roles, arch), access.sets
    makes = tuple([Made(kind, sets[made], window) for made, kind, window in outline.made if made in sets])
    replaces = {}
    if "matrix" in access.roles:
        kinds = _kinds(arch).items()
        replaces = {kind: sets[made] for (_, made), (kind, _) in kinds if made in ("d", "c") and made in sets}
    return Part(makes, outline.meets, replaces)


class WaitStates:
    """The analysis of one kernel."""

    def __init__(
        self, accesses: Sequence[Access], parts: Sequence[Part], addresses: Sequence[int], blocks: Sequence[Block]
    ) -> None:
        self._accesses, self._parts, self._addresses, self._blocks = accesses, parts, addresses, blocks
        self._found: dict[tuple[int, str], tuple[int, int, set[int]]] = {}

    def findings(self) -> Iterator[Finding]:
        """Every rule that is violated on some path."""
        start: State = {}
        entry_states(self._blocks, start, self._transfer, _join)
        for (index, rule), (missing, common, before) in self._found.items():
            told = tuple(f"{self._accesses[i].text} at {self._addresses[i]:#x}" for i in sorted(before))
            detail = f"{missing} wait states too early for {name_of(common) or 'it'}"
            yield Finding(self._addresses[index], rule, self._accesses[index].text, detail, told)

    def _transfer(self, block: Block, state: State) -> State:
        now = 0
        # Issue times are counted from the start of the block; wait states between = now - time - 1.
        live = [(-distance - 1, kind, bits, index) for (index, kind), (distance, bits) in state.items()]
        for index in range(block.first, block.last):
            part = self._parts[index]
            if live and part.meets:
                self._meet(index, part, live, now)
            if part.replaces and live:
                live = [
                    (time, kind, left, before)
                    for time, kind, bits, before in live
                    if (left := bits & ~part.replaces.get(kind, 0))
                ]
            for kind, bits, _ in part.makes:
                live.append((now, kind, bits, index))
            now += self._accesses[index].states
            if len(live) > _PRUNE_AT:
                live = [entry for entry in live if now - entry[0] - 1 < self._window(entry)]
        out: State = {}
        for entry in live:
            time, kind, bits, before = entry
            distance = now - time - 1
            if distance < self._window(entry):
                near, old = out.get((before, kind), (distance, 0))
                out[before, kind] = (min(near, distance), old | bits)
        return out

    def _window(self, entry: tuple[int, int, int, int]) -> int:
        for made in self._parts[entry[3]].makes:
            if made.kind == entry[1]:
                return made.window
        raise AssertionError(entry)

    def _meet(self, index: int, part: Part, live: list[tuple[int, int, int, int]], now: int) -> None:
        meets, sets = part.meets, self._accesses[index].sets
        for time, kind, bits, before in live:
            for rule, wanted, states in meets.get(kind, ()):
                distance = now - time - 1
                if distance < states:
                    met = sets.get(wanted, 0)
                    if bits & met and self._applies(rule, met, before, index):
                        missing, common, behind = self._found.get((index, rule.name), (0, 0, set()))
                        self._found[index, rule.name] = (
                            max(missing, states - distance), common | bits & met, behind | {before},
                        )  # fmt: skip

    def _applies(self, rule: Rule, met: int, before: int, index: int) -> bool:
        if rule.names:
            return (self._accesses[before].name == self._accesses[index].name) == (rule.names == EQUAL)
        if rule.overlap == ANY:
            return True
        whole = self._accesses[before].sets[rule.made]
        return (whole == met) == (rule.overlap == SAME)


#: Expired producers are dropped when so many are kept; sooner would cost more than it saves.
_PRUNE_AT = 40


def _join(left: State, right: State) -> State:
    if left == right:
        return left
    joined = dict(left)
    for key, (distance, bits) in right.items():
        near, old = joined.get(key, (distance, 0))
        joined[key] = (min(near, distance), old | bits)
    return joined
