"""What becomes of problems of a file, for every way that a problem can end."""

from __future__ import annotations

import pytest

from aot.verification.problem_file import decide, served_cases
from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from cache_schema.problem_parse import ProblemCase
from cache_schema.table import IdentityTable
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
        (ProblemCase("a", OTHER), "skipped", "dgrad"),
        (ProblemCase("a", HALF), "skipped", "fp16"),
        (ProblemCase("a", HUGE), "skipped", "too many"),
        (ProblemCase("a", FINE, run="host-only"), "skipped", "not to be run"),
    ],
)
def test_every_ending(case: ProblemCase, status: str, reason: str) -> None:
    """Status and reason follow from what the file expects and what the kernels serve."""
    (decision,) = decide([case], TABLE, "bf16")
    assert (decision.id, decision.status) == ("a", status)
    assert reason in decision.reason
    assert (decision.case is not None) == (status == "verify")
    if decision.case is not None:
        assert decision.case.inputs == case.inputs


def test_each_kernel_gets_what_it_serves() -> None:
    """Four channels are for the kernel of width 4 alone; an empty problem is for both."""
    decisions = decide([ProblemCase("a", FINE), ProblemCase("b", EMPTY)], TABLE, "bf16")
    cases = [decision.case for decision in decisions if decision.case is not None]
    names = [[case.name for case in served_cases(cases, TABLE.take(TABLE.equals("vector_size_a", v)))] for v in (4, 8)]
    assert names == [["a", "b"], ["b"]]
