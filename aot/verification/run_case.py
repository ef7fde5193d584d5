"""Run one problem on one kernel and judge the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.runtime.bounds import Comparison, Tolerance, judge, tolerance
from aot.runtime.device import CodeProvider, Device
from aot.runtime.float16 import Bits, format_of, quiet_nan
from aot.runtime.inputs import make_inputs
from aot.runtime.plan_data import Plan
from aot.runtime.plan_options import AUTOMATIC_DEGREE
from aot.runtime.problem_text import problem_text
from aot.runtime.reference import F32_BITS, Reference, reference
from aot.verification.edge_case import EdgeCase
from aot.verification.memory import keep, kept_bytes
from cache_schema.problem import ConvProblem

#: Faults that are told of one run; the rest is counted.
TOLD_FAULTS = 3


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case. `failure` is empty when every run was right and nothing else was wrong, else it says what was.

    A case that is not `judged` shows nothing but the absence of faults: 16-bit sums of its operands may be anything.
    """

    case: EdgeCase
    seed: int
    failure: str
    comparison: Comparison
    faults: tuple[str, ...]
    instructions: int
    judged: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain data, short for a right result and in full for a wrong one."""
        case, verdict = self.case, self.comparison
        record: dict[str, Any] = {"name": case.name, "problem": problem_text(case.problem), "inputs": case.inputs}
        if case.degree != AUTOMATIC_DEGREE:
            record["degree"] = case.degree
        record |= {
            "elements": verdict.elements,
            "exact": verdict.exact_elements,
            "bound": float(f"{verdict.bound:.3g}"),
            "worst_error": float(f"{verdict.worst_error:.3g}"),
        }
        if not self.judged:
            record["judged"] = False
        if self.failure:
            record |= {"failure": self.failure, "faults": list(self.faults), "comparison": verdict.to_json()}
        return record


@keep(kept_bytes)
def operands(problem: ConvProblem, kind: str, seed: int, sum_bits: int) -> tuple[Bits, Bits, Reference]:
    """Operands, which callers must not write to, and the exact result, for sums made in so many bits."""
    a, b = make_inputs(problem, kind, seed)
    exact = reference(problem, a, b, sum_bits)
    for array in (a, b, exact.value, exact.magnitude):
        array.flags.writeable = False
    return a, b, exact


@keep(kept_bytes)
def _tolerance(problem: ConvProblem, kind: str, seed: int, partial_sums: int, rounded_sums: int) -> Tolerance:
    exact = operands(problem, kind, seed, _sum_bits(problem, rounded_sums))[2]
    return tolerance(exact, problem.dtype, partial_sums, rounded_sums)


def _sum_bits(problem: ConvProblem, rounded_sums: int) -> int:
    return format_of(problem.dtype).significant_bits if rounded_sums > 1 else F32_BITS


def run_case(case: EdgeCase, plan: Plan, devices: tuple[Device, Device], code: CodeProvider, seed: int) -> CaseResult:
    """Execute a plan from a poisoned output and compare.

    A case that repeats is run on the second device too, which schedules otherwise, and reads the range check of buffers
    otherwise. Both results have to be right, and if the plan says that equal runs give equal bits, they have to be
    equal.
    """
    first, second, result = plan.buffers[:3]
    a, b, _ = operands(case.problem, case.inputs, seed, _sum_bits(case.problem, plan.rounded_sums))
    runs: list[Bits] = []
    faults: list[str] = []
    instructions = 0
    failure = ""
    for device in devices[: 2 if case.repeat else 1]:
        output = np.full(result.shape, quiet_nan(case.problem.dtype), dtype=np.uint16)
        arrays = {first.name: a.copy(), second.name: b.copy(), result.name: output}
        execution = device.execute(plan, arrays, code)
        runs.append(output)
        faults += execution.faults
        instructions += execution.instructions
        for buffer, before in ((first, a), (second, b)):
            if not np.array_equal(arrays[buffer.name], before):
                failure = f"operand {buffer.name} was written to"
    allowed = _tolerance(case.problem, case.inputs, seed, plan.partial_sums, plan.rounded_sums)
    return judged(case, runs, allowed, faults, instructions, seed, plan.deterministic, failure)


def judged(
    case: EdgeCase,
    runs: Sequence[Bits],
    allowed: Tolerance,
    faults: Sequence[str],
    instructions: int,
    seed: int,
    deterministic: bool,
    failure: str = "",
) -> CaseResult:
    """The verdict on the results of equal runs; `failure` is one that is known already."""
    verdict = judge(runs[0], allowed)
    for again in runs[1:]:
        if np.array_equal(again, runs[0]):
            continue
        if deterministic:
            failure = failure or f"{int((again != runs[0]).sum())} elements differ between two runs"
        other = judge(again, allowed)
        verdict = verdict if not verdict.right or other.right else other
    failure = _failure(verdict, faults) or failure
    return CaseResult(case, seed, failure, verdict, tuple(faults[:TOLD_FAULTS]), instructions, allowed.meaningful)


def _failure(verdict: Comparison, faults: Sequence[str]) -> str:
    if faults:
        return f"{len(faults)} faults, the first: {faults[0]}"
    if not verdict.right:
        return (
            f"{verdict.wrong} of {verdict.elements} elements are wrong, the first at {verdict.first_wrong}: "
            f"{verdict.got}, right is {verdict.least} to {verdict.greatest}"
        )
    return ""
