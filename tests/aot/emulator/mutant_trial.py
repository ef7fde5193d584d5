"""Runs a mutant on the problems of its kernel and says how it was caught, if it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cache_schema.errors import DeliveryError
from tests.aot.emulator.mutants import Mutant
from tests.aot.emulator.triton.launch import CompiledKernel, run
from tests.aot.emulator.triton.problems import Problem, problems, worst


@dataclass(frozen=True)
class Trial:
    """`caught` is "fault", "error", "numbers", "input" or "" for a survivor; `detail` says what was seen."""

    mutant: Mutant
    caught: str
    detail: str


@dataclass(frozen=True)
class Baseline:
    """What the right kernel does on the problems: instructions that ran, and how many of them at most."""

    executed: frozenset[int]
    total: int

    @property
    def budget(self) -> int:
        """Wave-instructions that a mutant may use, so that endless loops end."""
        return 4 * self.total


def baseline(kernel: CompiledKernel, chosen: Sequence[Problem]) -> Baseline:
    """Runs the unchanged kernel, which must be right."""
    executed: set[int] = set()
    total = 0
    for problem in chosen:
        buffers = {name: array.copy() for name, array in problem.buffers.items()}
        report = run(kernel, buffers, problem.scalars, problem.grid)
        assert not report.faults, report.faults
        assert worst(problem, buffers) <= 1
        executed |= set(report.executed)
        total = max(total, report.total)
    return Baseline(frozenset(executed), total)


def trial(kernel: CompiledKernel, mutant: Mutant, chosen: Sequence[Problem], budget: int) -> Trial:
    """The first sign on any of the problems, each under two orders of waves and workgroups."""
    for problem in chosen:
        for seed in (1, 2):
            buffers = {name: array.copy() for name, array in problem.buffers.items()}
            try:
                report = run(kernel, buffers, problem.scalars, problem.grid, code=mutant.code, budget=budget, seed=seed)
            except DeliveryError as error:
                return Trial(mutant, "error", f"{type(error).__name__}: {error}")
            if report.faults:
                return Trial(mutant, "fault", f"{report.faults[0].kind}")
            if worst(problem, buffers) > 1:
                return Trial(mutant, "numbers", f"{worst(problem, buffers):.3g} bounds off")
            for name, array in problem.buffers.items():
                if name != problem.output and buffers[name].tobytes() != array.tobytes():
                    return Trial(mutant, "input", f"{name} was written")
    return Trial(mutant, "", "")


def problems_of(kernel: CompiledKernel) -> list[Problem]:
    """What mutants are tried on: the ragged problems of the kernel, the cheap ones first."""
    return sorted(problems(kernel.variant), key=lambda problem: problem.grid[0] * problem.grid[1])
