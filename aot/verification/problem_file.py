"""Problems from a file: which of them the kernels at hand have to get right, and what is said of the rest.

Every problem ends in one of these ways:

    verify     a kernel serves it, or it needs none
    refused    it is malformed, or every kernel refuses it, and that is what the file expects or also accepts
    unserved   it is expected to be supported and no kernel at hand serves it
    admitted   it has to be refused, but a kernel serves it
    skipped    of another data type than the cache's, to be decided from its numbers alone, or too large

`admitted` is a failure. `unserved` is one unless it is excused:

    outside      the cache has no kernel of the direction, or the grid has kernels for the problem, but they are not
                 among those at hand: left out by a limit, a choice of families, a sample or a shard
    documented   no kernel of the grid serves it, and a family gives it up by one of its own rules

A strict run excuses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aot.families import all_families
from aot.family import Offer
from aot.runtime.plan import needs_no_kernel
from aot.verification.edge_case import EdgeCase
from aot.verification.launch_options import refused_options, with_options
from cache_schema.problem import ConvProblem
from cache_schema.problem_parse import ProblemCase
from cache_schema.table import IdentityTable
from grids.reasons import explain
from grids.serving import ASKED, serves, serving_reasons

VERIFY, REFUSED, UNSERVED, ADMITTED, SKIPPED = "verify", "refused", "unserved", "admitted", "skipped"
OUTSIDE, IS_DOCUMENTED = "outside", "documented"
SUPPORTED, REJECTED, HOST_ONLY = "supported", "rejected-with-reason", "host-only"
#: Operations above which a problem is for a device and not for the emulator.
EMULATION_FLOPS = 4_000_000_000

#: Direction -> all kernels of the grid.
Grid = Callable[[str], IdentityTable]


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one problem of a file; `case` is set where it is to be run, `excuse` may be where unserved."""

    id: str
    status: str
    reason: str
    case: EdgeCase | None = None
    excuse: str = ""

    def fails(self, strict: bool) -> bool:
        """Whether the problem is not what the file expects; the rule is in the module's head."""
        return self.status == ADMITTED or (self.status == UNSERVED and (strict or not self.excuse))


def decide(cases: Sequence[ProblemCase], table: IdentityTable, dtype: str, grid: Grid) -> list[Decision]:
    """One decision per problem, in file order; `table` has the identities that are to be verified."""
    return [_decide(case, table, dtype, grid) for case in cases]


def _decide(case: ProblemCase, table: IdentityTable, dtype: str, grid: Grid) -> Decision:
    accepted = {case.expect or SUPPORTED, case.also_accept}
    if case.problem is None:
        return Decision(case.id, REFUSED if REJECTED in accepted else UNSERVED, str(case.error))
    problem = case.problem
    if problem.dtype != dtype:
        return Decision(case.id, SKIPPED, f"{problem.dtype} is not for this cache")
    no_kernel = needs_no_kernel(problem)
    mask, codes = serves(table, problem)
    if not no_kernel and not mask.any():
        if problem.direction not in table.directions:
            return Decision(case.id, UNSERVED, f"there are no {problem.direction} kernels", excuse=OUTSIDE)
        if REJECTED in accepted:
            return Decision(case.id, REFUSED, _told(codes.tolist()))
        return _unserved(case.id, problem, codes.tolist(), grid)
    if SUPPORTED not in accepted:
        return Decision(case.id, ADMITTED, f"{int(mask.sum())} kernels serve it; it has to be refused: {case.reject}")
    refused = refused_options(table, mask, case.launch)
    if case.run == HOST_ONLY:
        told = "; ".join(filter(None, (f"{int(mask.sum())} kernels serve it; not to be run", refused)))
        return Decision(case.id, SKIPPED, told)
    if problem.flops > EMULATION_FLOPS:
        return Decision(case.id, SKIPPED, f"{problem.flops:.2g} operations are too many to emulate")
    options = tuple(case.launch.items())
    return Decision(case.id, VERIFY, refused, EdgeCase(case.id, problem, case.inputs, launch=options))


def _unserved(name: str, problem: ConvProblem, codes: Sequence[int], grid: Grid) -> Decision:
    mask, all_codes = serves(grid(problem.direction), problem)
    if mask.any():
        told = f"not one of the {int(mask.sum())} kernels that the grid has for it"
        return Decision(name, UNSERVED, told, excuse=OUTSIDE)
    reasons = serving_reasons()
    given_up = {
        reason for family in all_families() if isinstance(family.role, Offer) for reason in family.role.gives_up
    }
    documented = [code for code in all_codes.tolist() if reasons[code] in given_up]
    if documented:
        return Decision(name, UNSERVED, _told(documented), excuse=IS_DOCUMENTED)
    return Decision(name, UNSERVED, _told(codes))


def _told(codes: Sequence[int]) -> str:
    """Reasons, the most frequent first; kernels that are for something else are not worth naming beside others."""
    reasons = serving_reasons()
    counts = [reason for reason, _ in Counter(reasons[code] for code in codes).most_common()]
    related = [reason for reason in counts if reason not in ASKED]
    return "; ".join(f"{reason}: {explain(reason)}" for reason in related or counts)


def served_cases(cases: Sequence[EdgeCase], table: IdentityTable) -> list[EdgeCase]:
    """The cases that the one identity of a table has to get right, with the launch options that it has."""
    return [with_options(case, table) for case in cases if _is_served(table, case.problem)]


def _is_served(table: IdentityTable, problem: ConvProblem) -> bool:
    return needs_no_kernel(problem) or bool(serves(table, problem)[0][0])
