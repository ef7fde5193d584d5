"""Runs a mutant on problems of its kernel and says how it was caught, if it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

from aot import emulator
from aot.runtime import emulator_device
from aot.runtime.emulator_device import EmulatorDevice
from aot.runtime.plan import make_plan
from aot.runtime.plan_parts import KernelEntry
from aot.verification.edges import edge_cases
from aot.verification.run_case import run_case
from cache_schema.cache_reader import Cache
from cache_schema.errors import DeliveryError
from tests.aot.emulator.mutants import Mutant, mutants
from tests.aot.emulator.triton.launch import CompiledKernel, run
from tests.aot.emulator.triton.problems import Problem, problems, worst

#: Orders of waves and workgroups that every mutant is tried under.
SEEDS = (1, 2)


@dataclass(frozen=True)
class Baseline:
    """What the right kernel does on the problems: addresses that ran, and wave-instructions of the longest run."""

    executed: frozenset[int]
    total: int

    @property
    def budget(self) -> int:
        """Wave-instructions that a mutant may use, so that endless loops end."""
        return 4 * self.total


class Subject(Protocol):
    """A right kernel with problems to try its mutants on."""

    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @property
    def code(self) -> bytes: ...

    def baseline(self) -> Baseline:
        """Runs the kernel, which must be right."""

    def symptom(self, code: bytes, budget: int) -> tuple[str, str]:
        """How the code was caught ("fault", "numbers", "input" or "") and what was seen. May raise DeliveryError."""


@dataclass(frozen=True)
class Trial:
    """`caught` is how the mutant was noticed: "fault", "error", "numbers", "input"; "" for a survivor."""

    mutant: Mutant
    caught: str
    detail: str


def trial(subject: Subject, mutant: Mutant, budget: int) -> Trial:
    """Tries one mutant until something is noticed."""
    try:
        return Trial(mutant, *subject.symptom(mutant.code, budget))
    except DeliveryError as error:
        return Trial(mutant, "error", f"{type(error).__name__}: {error}")


def trials(subject: Subject, every: int = 1) -> list[Trial]:
    """Tries every Nth mutant of the instructions that the right kernel executes."""
    right = subject.baseline()
    made = [m for m in mutants(subject.code, subject.arch) if m.instruction.address in right.executed]
    return [trial(subject, mutant, right.budget) for mutant in made[::every]]


@dataclass(frozen=True)
class TritonSubject:
    """A kernel of Triton on its ragged problems."""

    kernel: CompiledKernel
    problems: Sequence[Problem]

    @property
    def name(self) -> str:
        return str(self.kernel)

    @property
    def arch(self) -> str:
        return self.kernel.arch

    @property
    def code(self) -> bytes:
        return self.kernel.code

    def baseline(self) -> Baseline:
        executed: set[int] = set()
        total = 0
        for problem in self.problems:
            buffers = {name: array.copy() for name, array in problem.buffers.items()}
            report = run(self.kernel, buffers, problem.scalars, problem.grid)
            assert not report.faults, report.faults
            assert worst(problem, buffers) <= 1
            executed |= set(report.executed)
            total = max(total, report.total)
        return Baseline(frozenset(executed), total)

    def symptom(self, code: bytes, budget: int) -> tuple[str, str]:
        for problem in self.problems:
            for seed in SEEDS:
                buffers = {name: array.copy() for name, array in problem.buffers.items()}
                report = run(
                    self.kernel, buffers, problem.scalars, problem.grid, code=code, budget=budget, seed=seed
                )  # fmt: skip
                if report.faults:
                    return "fault", report.faults[0].kind
                if worst(problem, buffers) > 1:
                    return "numbers", f"{worst(problem, buffers):.3g} bounds off"
                for name, array in problem.buffers.items():
                    if name != problem.output and buffers[name].tobytes() != array.tobytes():
                        return "input", f"{name} was written"
        return "", ""


def triton_subject(kernel: CompiledKernel) -> TritonSubject:
    """The cheap problems first: most mutants are caught by any."""
    chosen = sorted(problems(kernel.variant), key=lambda problem: problem.grid[0] * problem.grid[1])
    return TritonSubject(kernel, chosen)


def cache_subjects(path: Path) -> list[CacheSubject]:
    """Every kernel of a cache."""
    with Cache.open(path) as cache:
        return [
            CacheSubject(cache.entry(i), cache.code_object(i), f"{path.name}[{i}]") for i in range(len(cache.table))
        ]


@dataclass(frozen=True)
class CacheSubject:
    """One of our own kernels on the problems that verification chooses for it."""

    entry: KernelEntry
    code: bytes
    label: str

    @property
    def name(self) -> str:
        return self.label

    @property
    def arch(self) -> str:
        arch: str = self.entry.identity.arch
        return arch

    def _failures(self, code: bytes, budget: int) -> list[tuple[str, str]]:
        devices = (EmulatorDevice(seed=SEEDS[0], budget=budget), EmulatorDevice(seed=SEEDS[1], budget=budget))
        found = []
        for case in edge_cases(self.entry.identity):
            plan = make_plan(self.entry, case.problem)
            result = run_case(case, plan, devices, lambda _digest: code, seed=1)
            if result.failure:
                found.append(("fault" if result.faults else "numbers", result.failure))
                break
        return found

    def baseline(self) -> Baseline:
        reports: list[emulator.Report] = []

        def recorded(*arguments: object, **options: object) -> emulator.Report:
            report: emulator.Report = emulator.run(*arguments, **options)  # type: ignore[arg-type]
            reports.append(report)
            return report

        with patch.object(emulator_device, "run_emulated", recorded):
            failures = self._failures(self.code, 1 << 40)
        assert not failures, (self.name, failures)
        executed = {address for report in reports for address in report.executed}
        return Baseline(frozenset(executed), max(report.total for report in reports))

    def symptom(self, code: bytes, budget: int) -> tuple[str, str]:
        failures = self._failures(code, budget)
        return failures[0] if failures else ("", "")
