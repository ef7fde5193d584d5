"""The shared problem suites, where they lie beside this checkout."""

from __future__ import annotations

from pathlib import Path

from cache_schema.problem import ConvProblem
from cache_schema.problem_parse import load_problem_file
from tests.needs import needed

SUITES = Path(__file__).resolve().parents[2] / "shared" / "problems"
needs_suites = needed(SUITES.is_dir(), "the shared problem suites, which lie beside a checkout")


def problems_of(suite: str, direction: str, dtype: str) -> list[ConvProblem]:
    """All valid problems of one suite that kernels of this direction and type are for."""
    cases = load_problem_file(SUITES / f"{suite}.yaml")
    found = [case.problem for case in cases if case.problem is not None and case.run != "host-only"]
    return [problem for problem in found if (problem.direction, problem.dtype) == (direction, dtype)]
