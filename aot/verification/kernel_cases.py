"""What a code object has to get right: the cases of all identities that share it, each once.

Identities share code where they differ in a promise only, such as the widths that channels are a multiple of. Where one
identity serves every edge problem of another, and launches them alike, its own edges are the harder ones and stand for
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aot.families import family_of, offer_of
from aot.inspection.load_code import load_code
from aot.runtime.plan import make_plan
from aot.runtime.plan_data import Launch
from aot.runtime.plan_options import AUTOMATIC_DEGREE, PlanOptions
from aot.verification.edge_case import EdgeCase
from aot.verification.edges import edge_cases
from aot.verification.problem_file import served_cases
from cache_schema.cache_reader import Cache, Entry
from cache_schema.errors import CacheError
from cache_schema.identity import Identity
from cache_schema.table import IdentityTable

Cases = list[tuple[Entry, EdgeCase]]


class Launcher:
    """What plans and devices ask a cache for: kernels of second stages, and code objects by their digest."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._entries: dict[str, int] = {}
        self._codes: dict[str, bytes] = {}

    def add(self, entry: Entry) -> None:
        """Make the code of an entry known by its digest."""
        number = self._cache.find(entry.digest)
        if number is None:
            raise CacheError(f"{self._cache.path}: digests do not ascend")
        self._entries[entry.blob_digest] = number

    def helper(self, identity: Identity) -> Entry | None:
        """The kernel of a second stage, or None if the cache lacks it."""
        number = self._cache.find_identity(identity)
        if number is None:
            return None
        entry = self._cache.entry(number)
        self._entries[entry.blob_digest] = number
        return entry

    def options(self, entry: Entry, case: EdgeCase) -> PlanOptions:
        """How a case is planned on a kernel."""
        told = offer_of(family_of(entry.identity)).paths.told
        degree: dict[str, Any] = {told: case.degree} if told and case.degree != AUTOMATIC_DEGREE else {}
        return PlanOptions(helper=self.helper, **degree)

    def code(self, blob_digest: str) -> bytes:
        """A code object that was named before."""
        if blob_digest not in self._codes:
            self._codes[blob_digest] = load_code(self._cache, self._entries[blob_digest])
        return self._codes[blob_digest]


def kernel_cases(entries: Sequence[Entry], cases: Sequence[EdgeCase] | None, launcher: Launcher) -> Cases:
    """(entry, case) pairs; `cases` are offered to every identity, without them each has its own edges."""
    launcher.add(entries[0])
    chosen: Cases = []
    seen: set[tuple[object, ...]] = set()
    tables: list[tuple[Entry, IdentityTable]] = []
    # The narrowest first: it serves the most.
    for entry in sorted(entries, key=_promises):
        family = family_of(entry.identity)
        table = IdentityTable.from_identities([entry.identity])
        if cases is not None:
            # A helper serves no problem by itself; it runs behind the kernels that do.
            own = served_cases(cases, table) if family.alone else []
        else:
            own = list(edge_cases(entry.identity))
            if any(_stands_for(other, of, entry, own, launcher) for other, of in tables):
                continue
            if family.alone:
                tables.append((entry, table))
        for case in own:
            key = case.problem, case.inputs, case.degree
            if key not in seen:
                seen.add(key)
                chosen.append((entry, case))
    return chosen


def _promises(entry: Entry) -> tuple[int, ...]:
    return family_of(entry.identity).widths(entry.identity)


def _stands_for(other: Entry, table: IdentityTable, entry: Entry, own: Sequence[EdgeCase], launcher: Launcher) -> bool:
    """Whether another identity with the same code serves all these cases and launches the first one alike."""
    if not family_of(entry.identity).alone or len(served_cases(own, table)) < len(own):
        return False
    plans = [make_plan(kernel, own[0].problem, launcher.options(kernel, own[0])) for kernel in (other, entry)]
    launches = [[_bare(launch) for launch in plan.launches] for plan in plans]
    return launches[0] == launches[1] and plans[0].buffers == plans[1].buffers


def _bare(launch: Launch) -> tuple[object, ...]:
    return launch.code_object, launch.grid, launch.block, launch.dynamic_lds, launch.arguments
