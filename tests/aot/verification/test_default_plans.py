"""What is chosen by default is as right as its plan says, on operands that sums of few bits cannot bear.

For every problem the first choice of a set of kernels runs on the emulator with ones, with positive, random and
cancelling operands. Errors count in ulps of the sum of the absolute terms, which is the result's where nothing cancels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from aot.runtime.accuracy import ONE_ROUNDING
from aot.runtime.bounds import judge, tolerance
from aot.runtime.choose import choose
from aot.runtime.emulator_device import EmulatorDevice
from aot.runtime.float16 import format_of, half_step, quiet_nan, widen
from aot.runtime.inputs import make_inputs
from aot.runtime.plan import make_plan, needs_no_kernel
from aot.runtime.plan_options import PlanOptions
from aot.runtime.reference import reference
from cache_schema.digest import table_digests
from cache_schema.problem import DIRECTIONS, ConvProblem
from cache_schema.table import IdentityTable
from grids.catalogue import buildable
from grids.selection import spread
from grids.serving import serves
from tests.aot.kernels.wgrad_machine import built, code_by_digest
from tests.grids.problems import random_problem
from tests.suites import SUITES, needs_suites, problems_of

#: Of problems that are worth emulating four times.
EMULATED_FLOPS = 1_000_000_000
#: pytest's `record_property`, for reports of a run.
Recorder = Callable[[str, object], None]
KINDS = ("ones", "positive", "uniform", "cancel")


@dataclass
class Seen:
    """What came of many problems: plans, runs, and the largest errors and bounds of each kind of operands."""

    plans: int = 0
    runs: int = 0
    rounded: int = 0
    worst: float = 0.0
    stated: float = 0.0
    closest: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.plans} plans, {self.rounded} of them with 16-bit atomics, {self.runs} runs; worst error "
            f"{self.worst:.3f} ulps, largest bound {self.stated:.3f} ulps, closest to its own {self.closest:.3f}"
        )


def check_defaults(table: IdentityTable, problems: Iterable[ConvProblem], arch: str) -> Seen:
    """Plan and run them all; each result is right by its judge and within the worst case that its plan states."""
    digests, seen = table_digests(table), Seen()
    for problem in problems:
        rows = np.flatnonzero(serves(table, problem)[0])
        if needs_no_kernel(problem) or not len(rows):
            continue
        best = int(rows[choose(table.take(rows), digests[rows], problem, arch).rows[0]])
        plan = make_plan(built(table.row(best)), problem, PlanOptions(helper=built))
        accuracy = plan.accuracy
        assert accuracy.expected_ulps <= 2 * ONE_ROUNDING
        seen.plans += 1
        seen.rounded += plan.rounded_sums > 1
        seen.stated = max(seen.stated, accuracy.worst_ulps)
        for kind in KINDS:
            a, b = make_inputs(problem, kind, 5)
            first, second, result = plan.buffers[:3]
            output = np.full(result.shape, quiet_nan(problem.dtype), dtype=np.uint16)
            arrays = {first.name: a.copy(), second.name: b.copy(), result.name: output}
            execution = EmulatorDevice(1).execute(plan, arrays, code_by_digest)
            exact = reference(problem, a, b, sum_bits=0)
            allowed = tolerance(exact, problem.dtype, plan.partial_sums, plan.rounded_sums)
            assert not execution.faults
            assert judge(output, allowed).right, (problem, kind, judge(output, allowed))
            # Sums that may leave the format promise nothing.
            held = exact.magnitude < format_of(problem.dtype).max_finite / 2
            ulp = 2 * half_step(exact.magnitude, problem.dtype)
            error = np.abs(widen(output, problem.dtype) - exact.value)[held] / ulp[held]
            worst = float(error.max(initial=0.0))
            assert worst <= accuracy.worst_ulps, (problem, kind)
            seen.worst, seen.closest = max(seen.worst, worst), max(seen.closest, worst / accuracy.worst_ulps)
            seen.runs += 1
    return seen


def small(table: IdentityTable) -> IdentityTable:
    """Kernels that are quick to build and to emulate."""
    tiles = np.maximum(table.wide("tile_m"), table.wide("tile_n"))
    return table.take(np.flatnonzero(tiles <= 64))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_defaults_keep_their_word(direction: str) -> None:
    """Random small problems and some of the shared ones, among a few kernels of every family."""
    rng = random.Random(61)
    problems = problems_of("models_small", direction, "bf16")[::8] if SUITES.is_dir() else []
    problems += [random_problem(rng) for _ in range(400)]
    problems = [p for p in problems if (p.direction, p.dtype) == (direction, "bf16") and 1000 < p.flops < 3e7][:20]
    table = small(buildable("gfx950", ["bf16"], [direction], limit=60))
    seen = check_defaults(table, problems, "gfx950")
    assert seen.plans >= 5


@pytest.mark.full
@needs_suites
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_all_defaults_keep_their_word(arch: str, direction: str, dtype: str, record_property: Recorder) -> None:
    """All small problems of the shared suites, among kernels spread over all axes."""
    problems = [p for s in ("models_small", "adversarial", "direct_small") for p in problems_of(s, direction, dtype)]
    feasible = [problem for problem in problems if problem.flops < EMULATED_FLOPS]
    seen = check_defaults(buildable(arch, [dtype], [direction], limit=200), feasible, arch)
    record_property("seen", str(seen))
    assert seen.plans > len(feasible) / 2


@pytest.mark.full
@needs_suites
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_atomics_keep_their_word(arch: str, dtype: str, record_property: Recorder) -> None:
    """The same where a cache has no other kernels of backward weights than those that add 16-bit slices."""
    table = buildable(arch, [dtype], ["wgrad"])
    atomic = (table.wide("split_k") > 1) & ~table.columns["two_stage"].astype(np.bool_)
    chosen = spread(table.take(np.flatnonzero(atomic)), 60)
    problems = [p for s in ("models_small", "adversarial") for p in problems_of(s, "wgrad", dtype)]
    seen = check_defaults(chosen, [p for p in problems if p.flops < EMULATED_FLOPS], arch)
    record_property("seen", str(seen))
    assert seen.rounded > 10
