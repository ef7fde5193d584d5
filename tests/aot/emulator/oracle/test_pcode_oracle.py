"""The emulator's instruction table against AMD's own pseudocode, bit for bit, on corner and random operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

from tests.aot.emulator.oracle.coverage import (
    ELSEWHERE,
    OWN_STATEMENT,
    WITHOUT_RESULT,
    judged_by_pseudocode,
    memory_cases_of_table,
    scalar_cases,
    vector_cases,
)
from tests.aot.emulator.oracle.engines import table_names
from tests.aot.emulator.oracle.judge import check_memory, check_scalar, check_vector

#: Cases per kernel: many, so that few kernels are assembled, and few enough to keep the kernels small.
CHUNK = 100
PARTS = 4

Case = TypeVar("Case")


def chunks(cases: Sequence[Case]) -> list[Sequence[Case]]:
    return [cases[start : start + CHUNK] for start in range(0, len(cases), CHUNK)]


def report(failures: list[str]) -> None:
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures)


def test_every_instruction_is_judged_by_something() -> None:
    """Each entry of the table is covered by the pseudocode or by a named test of our own, and no name is stale."""
    judged = judged_by_pseudocode()
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()} | set(OWN_STATEMENT) | WITHOUT_RESULT
    assert judged.isdisjoint(elsewhere), judged & elsewhere
    matrix = {name for name in table_names() if name.startswith("v_mfma")}
    assert table_names() - judged - elsewhere - matrix == set()
    assert elsewhere - table_names() == set()
    assert len(judged) > 800


@pytest.mark.parametrize("part", range(PARTS))
def test_vector_instructions(part: int) -> None:
    """Vector instructions with their source modifiers, packed selections, clamp and masks."""
    report([f for chunk in chunks(vector_cases()[part::PARTS]) for f in check_vector(chunk, groups=2, seed=1)])


def test_scalar_instructions() -> None:
    """Scalar instructions with SCC and EXEC in and out."""
    report([f for chunk in chunks(scalar_cases()) for f in check_scalar(chunk, groups=32, seed=1)])


def test_memory_instructions() -> None:
    """LDS, global, flat, buffer and scratch accesses and atomics, with what they return and what they leave."""
    report([f for chunk in chunks(memory_cases_of_table()) for f in check_memory(chunk, groups=2, seed=1)])


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 10))
def test_exhaustive(seed: int) -> None:
    """The same over many more operands."""
    failures = [f for chunk in chunks(vector_cases()) for f in check_vector(chunk, groups=4, seed=seed)]
    failures += [f for chunk in chunks(scalar_cases()) for f in check_scalar(chunk, groups=256, seed=seed)]
    failures += [f for chunk in chunks(memory_cases_of_table()) for f in check_memory(chunk, groups=4, seed=seed)]
    report(failures)
