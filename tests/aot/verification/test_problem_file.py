"""What becomes of problems of a file, for every way that a problem can end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aot.verification.problem_file import decide, served_cases
from cache_schema.errors import ProblemError
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from cache_schema.problem_parse import ProblemCase
from cache_schema.table import IdentityTable
from tests.aot.dgrad_kernels import dgrad
from tests.aot.kernels.wgrad_machine import wgrad
from tests.aot.samples import forward

TABLE = IdentityTable.from_identities([forward(), forward(vector_size_a=8, vector_size_b=8)])
FINE = ConvProblem("fwd", "bf16", n=1, c=4, h=4, w=4, k=4, y=1, x=1)
ODD = ConvProblem("fwd", "bf16", n=1, c=3, h=4, w=4, k=4, y=1, x=1)
HUGE = ConvProblem("fwd", "bf16", n=64, c=256, h=56, w=56, k=256, y=3, x=3)
EMPTY = ConvProblem("fwd", "bf16", n=0, c=3, h=4, w=4, k=4, y=1, x=1)
OTHER = ConvProblem("dgrad", "bf16", n=1, c=4, h=4, w=4, k=4, y=1, x=1)
HALF = ConvProblem("fwd", "fp16", n=1, c=4, h=4, w=4, k=4, y=1, x=1)
BAD = ProblemError("stride_h", "0 is less than 1")
REJECT = "rejected-with-reason"


def backward() -> Identity:
    """A backward-data kernel for any stride, that loads by elements."""
    return dgrad(vector_size_a=1, vector_size_b=1)


def wide() -> Identity:
    """One that loads by fours."""
    return dgrad(vector_size_a=1, vector_size_b=4)


def weights(**fields: int | str | bool) -> Identity:
    """A backward-weights kernel."""
    return wgrad(**{"epilogue": "cshuffle", "vector_size_c": 4, **fields})


@pytest.mark.parametrize(
    ("case", "status", "reason"),
    [
        (ProblemCase("a", FINE), "verify", ""),
        (ProblemCase("a", FINE, expect="supported", inputs="ints"), "verify", ""),
        (ProblemCase("a", EMPTY), "verify", ""),
        (ProblemCase("a", None, BAD, expect=REJECT), "refused", "stride_h"),
        (ProblemCase("a", None, BAD, expect="supported", also_accept=REJECT), "refused", "stride_h"),
        (ProblemCase("a", None, BAD, expect="supported"), "unserved", "stride_h"),
        (ProblemCase("a", ODD, expect="supported"), "unserved", "S_width_a"),
        (ProblemCase("a", ODD, expect="supported", also_accept=REJECT), "refused", "S_width_a"),
        (ProblemCase("a", ODD, expect=REJECT), "refused", "S_width_a"),
        (ProblemCase("a", FINE, expect=REJECT, reject="too odd"), "admitted", "too odd"),
        (ProblemCase("a", FINE, expect=REJECT, also_accept="supported"), "verify", ""),
        (ProblemCase("a", OTHER), "unserved", "no dgrad kernels"),
        (ProblemCase("a", HALF), "skipped", "fp16"),
        (ProblemCase("a", HUGE), "skipped", "too many"),
        (ProblemCase("a", FINE, run="host-only"), "skipped", "not to be run"),
    ],
)
def test_every_ending(case: ProblemCase, status: str, reason: str) -> None:
    """Status and reason follow from what the file expects and what the kernels serve."""
    (decision,) = decide([case], TABLE, "bf16", lambda _direction: TABLE)
    assert (decision.id, decision.status) == ("a", status)
    assert reason in decision.reason
    assert (decision.case is not None) == (status == "verify")
    if decision.case is not None:
        assert decision.case.inputs == case.inputs


def test_each_kernel_gets_what_it_serves() -> None:
    """Four channels are for the kernel of width 4 alone; an empty problem is for both."""
    decisions = decide([ProblemCase("a", FINE), ProblemCase("b", EMPTY)], TABLE, "bf16", lambda _direction: TABLE)
    cases = [decision.case for decision in decisions if decision.case is not None]
    names = [[case.name for case in served_cases(cases, TABLE.take(TABLE.equals("vector_size_a", v)))] for v in (4, 8)]
    assert names == [["a", "b"], ["b"]]


DEPTHWISE = ConvProblem("dgrad", "bf16", n=1, c=4, h=4, w=4, k=4, y=1, x=1, groups=4)


@pytest.mark.parametrize(
    ("problem", "here", "grid", "excuse"),
    [
        (OTHER, [forward()], [forward()], "outside"),  # no kernel of the direction
        (ODD, [forward()], [forward(vector_size_a=1, vector_size_b=1)], "outside"),  # a limit left the kernel out
        (ODD, [forward()], [forward()], ""),  # a hole in the grid
        (DEPTHWISE, [backward()], [backward()], "documented"),
        (replace(DEPTHWISE, groups=2), [wide()], [wide()], ""),  # widths, which nobody gave up
    ],
)
def test_excuses(problem: ConvProblem, here: list[Identity], grid: list[Identity], excuse: str) -> None:
    """A problem that nobody serves fails unless its kernels are elsewhere or its refusal is documented; or strictly."""
    table, whole = IdentityTable.from_identities(here), IdentityTable.from_identities(grid)
    (decision,) = decide([ProblemCase("a", problem)], table, "bf16", lambda _direction: whole)
    assert (decision.status, decision.excuse) == ("unserved", excuse)
    assert decision.fails(strict=False) == (not excuse)
    assert decision.fails(strict=True)


@pytest.mark.parametrize(
    ("launch", "degrees", "told"),
    [
        ({"split_k": 16}, [-1, 16, 16], "1 of 3 kernels: not a kernel that splits"),
        ({"split_k": -1}, [-1, -1, -1], ""),
        ({"split_k": 1}, [1, 1, 1], ""),
        ({"split_n": 2}, [-1, -1, -1], "3 of 3 kernels: no kernel splits the batch"),
        ({"two_stage": True, "split_k": 4}, [-1, 4, 4], "2 of 3 kernels: a kernel with one stage"),
        ({"colour": 3}, [-1, -1, -1], "3 of 3 kernels: not an option"),
    ],
)
def test_launch_options(launch: dict[str, int | bool], degrees: list[int], told: str) -> None:
    """Kernels that have a path are forced onto it, and it is said how many refuse and why; all compute the problem."""
    kernels = [weights(), weights(split_k=2, epilogue="cshuffle"), weights(split_k=2, two_stage=True, ws_replicas=8)]
    table = IdentityTable.from_identities(kernels)
    problem = ConvProblem("wgrad", "bf16", n=2, c=8, h=8, w=8, k=8, y=1, x=1)
    (decision,) = decide([ProblemCase("a", problem, launch=launch)], table, "bf16", lambda _direction: table)
    assert decision.status == "verify"
    assert told in decision.reason
    assert bool(told) == bool(decision.reason)
    assert decision.case is not None
    cases = [served_cases([decision.case], table.take(np.array([row])))[0] for row in range(3)]
    assert [case.degree for case in cases] == degrees


def test_deterministic_kernels_are_run_twice() -> None:
    """What is asked to be deterministic is repeated, except by atomics, which refuse to be."""
    table = IdentityTable.from_identities([weights(), weights(split_k=2, epilogue="cshuffle")])
    problem = ConvProblem("wgrad", "bf16", n=2, c=8, h=8, w=8, k=8, y=1, x=1)
    case = ProblemCase("a", problem, launch={"deterministic": True})
    (decision,) = decide([case], table, "bf16", lambda _direction: table)
    assert "1 of 2 kernels: 16-bit atomics" in decision.reason
    assert decision.case is not None
    assert [served_cases([decision.case], table.take(np.array([row])))[0].repeat for row in range(2)] == [True, False]
