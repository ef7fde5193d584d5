"""Problems from a file: which of them the kernels at hand have to get right, and what is said of the rest.

Every problem ends in one of these ways:

    verify     a kernel serves it, or it needs none
    refused    it is malformed, or every kernel refuses it, and that is what the file expects or also accepts
    unserved   it is expected to be supported and no kernel serves it
    admitted   it has to be refused, but a kernel serves it
    skipped    another direction or data type than the cache's, to be decided from its numbers alone, or too large

`unserved` and `admitted` are failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from aot.runtime.plan import needs_no_kernel
from aot.runtime.plan_wgrad import AUTOMATIC_DEGREE
from aot.verification.edge_case import EdgeCase
from cache_schema.problem import ConvProblem
from cache_schema.problem_parse import ProblemCase
from cache_schema.table import IdentityTable
from grids.reasons import explain
from grids.serving import SERVING_REASONS, serves

VERIFY, REFUSED, UNSERVED, ADMITTED, SKIPPED = "verify", "refused", "unserved", "admitted", "skipped"
FAILURES = (UNSERVED, ADMITTED)
SUPPORTED, REJECTED, HOST_ONLY = "supported", "rejected-with-reason", "host-only"
#: Operations above which a problem is for a device and not for the emulator.
EMULATION_FLOPS = 4_000_000_000


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one problem of a file; `case` is set where it is to be run."""

    id: str
    status: str
    reason: str
    case: EdgeCase | None = None


def decide(cases: Sequence[ProblemCase], table: IdentityTable, dtype: str) -> list[Decision]:
    """One decision per problem, in file order; `table` has the identities that are to be verified."""
    return [_decide(case, table, dtype) for case in cases]


def _decide(case: ProblemCase, table: IdentityTable, dtype: str) -> Decision:
    accepted = {case.expect or SUPPORTED, case.also_accept}
    if case.problem is None:
        return Decision(case.id, REFUSED if REJECTED in accepted else UNSERVED, str(case.error))
    problem = case.problem
    if problem.dtype != dtype or problem.direction not in table.vocab["direction"]:
        return Decision(case.id, SKIPPED, f"{problem.direction} {problem.dtype} is not for this cache")
    no_kernel = needs_no_kernel(problem)
    mask, codes = serves(table, problem)
    if not no_kernel and not mask.any():
        counts = Counter(SERVING_REASONS[code] for code in codes.tolist()).most_common()
        told = "; ".join(f"{reason}: {explain(reason)}" for reason, _ in counts)
        return Decision(case.id, REFUSED if REJECTED in accepted else UNSERVED, told)
    if SUPPORTED not in accepted:
        return Decision(case.id, ADMITTED, f"{int(mask.sum())} kernels serve it; it has to be refused: {case.reject}")
    if case.run == HOST_ONLY:
        return Decision(case.id, SKIPPED, f"{int(mask.sum())} kernels serve it; not to be run")
    if problem.flops > EMULATION_FLOPS:
        return Decision(case.id, SKIPPED, f"{problem.flops:.2g} operations are too many to emulate")
    degree = int(case.launch.get("split_k", AUTOMATIC_DEGREE))
    return Decision(case.id, VERIFY, "", EdgeCase(case.id, problem, case.inputs, split_k=degree))


def served_cases(cases: Sequence[EdgeCase], table: IdentityTable) -> list[EdgeCase]:
    """The cases that the one identity of a table has to get right."""
    return [case for case in cases if _is_served(table, case.problem)]


def _is_served(table: IdentityTable, problem: ConvProblem) -> bool:
    return needs_no_kernel(problem) or bool(serves(table, problem)[0][0])
