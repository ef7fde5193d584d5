"""Instructions that the pseudocode does not settle, against statements of our own that share nothing with the table."""

from __future__ import annotations

import numpy as np
import pytest

from tests.aot.emulator.oracle import operand_pools
from tests.aot.emulator.oracle.compare import same
from tests.aot.emulator.oracle.coverage import OWN_STATEMENT
from tests.aot.emulator.oracle.engines import ARCHITECTURES, ENGINES, table_targets
from tests.aot.emulator.oracle.machine import ALL_LANES, LANES, Words, accepted, run_lane_cases
from tests.aot.emulator.oracle.own_statements import OWN_CASES, OwnCase


def operands(case: OwnCase, groups: int, seed: int) -> Words:
    rng = np.random.default_rng([seed, *case.lane.key.encode()])
    planes = []
    for kind, words in zip((*case.kinds, case.result_kind), (*case.lane.sources, case.lane.result), strict=True):
        drawn = operand_pools.draw(rng, kind, 32 * words, groups * LANES)
        planes += [(drawn >> np.uint64(32 * i)).astype(np.uint32).reshape(groups, LANES) for i in range(words)]
    return np.stack(planes, axis=1)


def check_lane(case: OwnCase, column: list[int], got: list[int]) -> bool:
    """Whether one lane's result is as stated; a statement of -1 leaves the value open."""
    values, at = [], 0
    for words in (*case.lane.sources, case.lane.result):
        values.append(sum(word << 32 * i for i, word in enumerate(column[at : at + words])))
        at += words
    width = 32 * case.lane.result
    result = sum(word << 32 * i for i, word in enumerate(got[: case.lane.result]))
    want, flag = case.statement(values[:-1], values[-1])
    if case.bound is not None:
        return case.bound(values[:-1], result, want)
    if want == -1:
        return True
    if case.lane.mask_out and got[-1] != flag:
        return False
    return same(case.result_kind, result, want, width)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_own_statements(arch: str, engine: str) -> None:
    """256 operand sets of every such instruction give the stated result."""
    lines = accepted(arch, [case.lane.text for case in OWN_CASES])
    cases = [c for c, good in zip(OWN_CASES, lines, strict=True) if good and arch in table_targets(c.mnemonic)]
    planes = [operands(case, 4, 5) for case in cases]
    results = run_lane_cases(arch, [case.lane for case in cases], planes, [ALL_LANES] * 4, engine=engine)
    failures = []
    for case, given, got in zip(cases, planes, results, strict=True):
        wrong = [
            (group, lane)
            for group in range(4)
            for lane in range(LANES)
            if not check_lane(case, given[group, :, lane].tolist(), got[group, :, lane].tolist())
        ]
        if wrong:
            group, lane = wrong[0]
            shown = [[f"{word:#x}" for word in part[group, :, lane].tolist()] for part in (given, got)]
            failures.append(f"{case.lane.text}: {len(wrong)} lanes: operands {shown[0]} got {shown[1]}")
    assert not failures, "\n".join(failures)


def test_every_exception_has_a_statement() -> None:
    """Each instruction that is exempt from the pseudocode is stated here."""
    assert {case.mnemonic for case in OWN_CASES} == set(OWN_STATEMENT)
