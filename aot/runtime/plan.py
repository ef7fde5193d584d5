"""From a problem and a kernel to a launch plan.

A kernel is described by what a cache records of it. Nothing is refused late: a plan that is returned can be launched.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from aot.families import family_of, offer_of
from aot.runtime.plan_data import Fill, Plan, PlanError, Step
from aot.runtime.plan_options import AUTOMATIC, PlanOptions
from aot.runtime.plan_parts import KernelEntry, tensor_buffers
from aot.runtime.reference import TENSORS, tensor_shape
from cache_schema.errors import RequestError
from cache_schema.identity import Identity
from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.reasons import explain
from grids.rules import evaluate
from grids.serving import serves, serving_reasons


class NotServedError(RequestError):
    """A kernel was asked to run a problem that it would compute wrongly; `reason` is the code of the serving rule."""

    def __init__(self, identity: Identity, problem: ConvProblem, reason: str) -> None:
        self.identity, self.problem, self.reason = identity, problem, reason
        super().__init__(f"kernel {encode(identity)} does not serve the problem: {reason}: {explain(reason)}")


def needs_no_kernel(problem: ConvProblem) -> bool:
    """True when the reduction or the result is empty: an empty result is left alone, any other is zero."""
    first, second, result = TENSORS[problem.direction]
    return any(prod(tensor_shape(problem, name)) == 0 for name in (first, second, result))


def empty_plan(arch: str, problem: ConvProblem) -> Plan:
    """The plan of a problem that `needs_no_kernel`: a single fill step, or no step where the result is empty too."""
    buffers = tensor_buffers(problem)
    steps: tuple[Step, ...] = (Fill(buffers[2].name),) if buffers[2].nbytes else ()
    return Plan(arch, problem, buffers, steps)


def make_plan(entry: KernelEntry, problem: ConvProblem, options: PlanOptions = AUTOMATIC) -> Plan:
    """The plan that runs a problem on one kernel.

    Raises `NotServedError` when the kernel does not serve the problem, `UnknownValueError` for one of no family, and
    what the plans of its family raise. Of an identity from elsewhere `require_buildable` comes first.
    """
    identity = entry.identity
    if needs_no_kernel(problem):
        return empty_plan(identity.arch, problem)
    mask, codes = serves(_one_row(identity), problem, options.workspace_limit)
    if not mask[0]:
        raise NotServedError(identity, problem, serving_reasons()[int(codes[0])])
    return offer_of(family_of(identity)).plan(entry, problem, options)


@lru_cache(maxsize=64)
def _one_row(identity: Identity) -> IdentityTable:
    return IdentityTable.from_identities([identity])


def require_buildable(identity: Identity) -> None:
    """PlanError for an identity that no kernel of the grid has: plans rely on what its rules promise.

    Those of a family that is not known here serve no problem, and are not for here.
    """
    if identity.foreign:
        return
    reason = evaluate(_one_row(identity)).reason(0)
    if reason:
        raise PlanError(f"no kernel can be {encode(identity)}: {reason}: {explain(reason)}")
