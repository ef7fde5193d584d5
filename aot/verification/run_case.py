"""Run one problem on one kernel and judge the result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from aot.runtime.bounds import Comparison, compare
from aot.runtime.device import CodeProvider, Device
from aot.runtime.float16 import Bits, quiet_nan
from aot.runtime.inputs import make_inputs
from aot.runtime.plan_data import Plan
from aot.runtime.problem_text import problem_text
from aot.runtime.reference import Reference, reference
from aot.verification.edge_case import EdgeCase
from cache_schema.problem import ConvProblem

#: References kept: kernels are visited in an order in which neighbours often share their problems.
KEPT_REFERENCES = 64
#: Faults that are told of one run; the rest is counted.
TOLD_FAULTS = 3


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One run. `failure` is empty when the result is right and nothing else was wrong, else it says what was."""

    name: str
    problem: ConvProblem
    inputs: str
    seed: int
    failure: str
    comparison: Comparison
    faults: tuple[str, ...]
    instructions: int

    def to_json(self) -> dict[str, Any]:
        """Plain data, short for a right result and in full for a wrong one."""
        verdict = self.comparison
        record: dict[str, Any] = {
            "name": self.name,
            "problem": problem_text(self.problem),
            "inputs": self.inputs,
            "seed": self.seed,
            "elements": verdict.elements,
            "exact": verdict.exact_elements,
            "instructions": self.instructions,
            **{name: float(f"{getattr(verdict, name):.4g}") for name in ("worst_error", "bound", "worst_use")},
        }
        if self.failure:
            record |= {"failure": self.failure, "faults": list(self.faults), "comparison": verdict.to_json()}
        return record


@lru_cache(maxsize=KEPT_REFERENCES)
def operands(problem: ConvProblem, kind: str, seed: int) -> tuple[Bits, Bits, Reference]:
    """Operands, which callers must not write to, and the exact result."""
    a, b = make_inputs(problem, kind, seed)
    exact = reference(problem, a, b)
    for array in (a, b, exact.value, exact.magnitude):
        array.flags.writeable = False
    return a, b, exact


def run_case(case: EdgeCase, plan: Plan, devices: tuple[Device, Device], code: CodeProvider, seed: int) -> CaseResult:
    """Execute a plan from a poisoned output and compare.

    A case that repeats is run on the second device too, which schedules otherwise: if the plan says that equal runs
    give equal bits, they must.
    """
    first, second, result = plan.buffers[:3]
    a, b, exact = operands(case.problem, case.inputs, seed)
    runs = []
    faults: list[str] = []
    instructions = 0
    changed = ""
    for device in devices[: 2 if case.repeat and plan.deterministic else 1]:
        output = np.full(result.shape, quiet_nan(case.problem.dtype), dtype=np.uint16)
        arrays = {first.name: a.copy(), second.name: b.copy(), result.name: output}
        execution = device.execute(plan, arrays, code)
        runs.append(output)
        faults += execution.faults
        instructions += execution.instructions
        for buffer, before in ((first, a), (second, b)):
            if not np.array_equal(arrays[buffer.name], before):
                changed = f"operand {buffer.name} was written to"
    verdict = compare(runs[0], exact, case.problem.dtype, plan.partial_sums, plan.rounded_sums)
    failure = _failure(verdict, faults) or changed
    if not failure and len(runs) == 2 and not np.array_equal(runs[0], runs[1]):
        failure = f"{int((runs[0] != runs[1]).sum())} elements differ between two runs"
    return CaseResult(
        case.name, case.problem, case.inputs, seed, failure, verdict, tuple(faults[:TOLD_FAULTS]), instructions
    )


def _failure(verdict: Comparison, faults: list[str]) -> str:
    if faults:
        return f"{len(faults)} faults, the first: {faults[0]}"
    if not verdict.right:
        return (
            f"{verdict.wrong} of {verdict.elements} elements are wrong, the first at {verdict.first_wrong}: "
            f"{verdict.got}, right is {verdict.least} to {verdict.greatest}"
        )
    return ""
