"""What verifying a problem takes: predicted before it is tried, never too little, and refused with the number."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from aot.cli.main import run
from aot.runtime import reference as reference_module
from aot.runtime.bounds import judge, tolerance
from aot.runtime.inputs import KINDS, make_inputs
from aot.runtime.reference import reference
from aot.verification import session
from aot.verification.memory import KEPT_BYTES, keep, peak_bytes
from cache_schema.problem import ConvProblem

SHAPES = {
    "long image, few results": {"n": 1, "c": 8, "h": 1, "w": 100000, "k": 16, "y": 1, "x": 3, "stride_w": 20011},
    "many results": {"n": 2, "c": 8, "h": 40, "w": 40, "k": 128, "y": 1, "x": 1},
    "many weights": {"n": 1, "c": 256, "h": 4, "w": 4, "k": 256, "y": 3, "x": 3},
    "groups": {"n": 2, "c": 256, "h": 14, "w": 14, "k": 256, "y": 3, "x": 3, "groups": 32, "pad_h": 1, "pad_w": 1},
}


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_prediction_holds(shape: str, direction: str) -> None:
    """No kind of inputs takes more than is predicted for it, nor much less than that."""
    problem = ConvProblem(direction=direction, dtype="bf16", **SHAPES[shape])
    shares = {kind: _measured(problem, kind) / peak_bytes(problem, kind) for kind in KINDS}
    assert max(shares.values()) <= 1, shares
    assert max(shares.values()) > 0.2, shares


def _measured(problem: ConvProblem, kind: str) -> int:
    """The peak of what judging takes, but for the emulator itself."""
    tracemalloc.start()
    a, b = make_inputs(problem, kind, 1)
    exact = reference(problem, a, b)
    allowed = tolerance(exact, problem.dtype, 3, 4)
    held = a.copy(), b.copy(), np.zeros(exact.value.shape, np.uint16)
    judge(held[2], allowed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize("shape", SHAPES)
def test_pieces_change_nothing(shape: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the pieces of a reference, integers give the same sums, and each piece is met once."""
    sizes = {**SHAPES[shape], "w": min(SHAPES[shape]["w"], 50), "k": 32, "c": 32}
    problem = ConvProblem(direction=direction, dtype="fp16", **sizes)
    a, b = make_inputs(problem, "ints", 1)
    whole = reference(problem, a, b).value
    for elements in (1, 100, 1000):
        monkeypatch.setattr(reference_module, "PIECE_ELEMENTS", elements)
        assert np.array_equal(reference(problem, a, b).value, whole)


def test_too_large_is_refused_with_the_number(
    quick_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One problem is a bad request; among those of a file it is skipped, with the same words."""
    monkeypatch.setattr(session, "bytes_to_have", lambda: 3_700_000_000)
    problem = "n=1 c=8 h=1 w=60000000 k=16 y=1 x=3 stride=1,9999991"
    assert run(["verify", str(quick_cache), "--problem", problem]) == 2
    told = "verifying it takes 4.8 GB of memory, and this process may have 3.7 GB"
    assert told in capsys.readouterr().err
    file = tmp_path / "problems.json"
    sizes = {"n": 1, "c": 8, "h": 1, "w": 60000000, "k": 16, "y": 1, "x": 3, "stride": [1, 9999991]}
    small = {"n": 1, "c": 8, "h": 4, "w": 4, "k": 4, "y": 1, "x": 1}
    common = {"direction": "fwd", "dtype": "bf16"}
    file.write_text(json.dumps({"problems": [{"id": "big", **common, **sizes}, {"id": "small", **common, **small}]}))
    arguments = ["verify", str(quick_cache), "--problems", str(file), "--evidence", str(tmp_path / "e.jsonl"), "--json"]
    assert run(arguments) == 0
    decisions = {d["id"]: d for d in json.loads(capsys.readouterr().out)["decisions"]}
    assert (decisions["big"]["status"], decisions["big"]["reason"]) == ("skipped", told)
    assert decisions["small"]["status"] == "verify"


def test_what_is_kept_is_bounded() -> None:
    """Results are remembered, the last ones only, by the bytes that they hold."""
    calls: list[int] = []
    sizes = {1: KEPT_BYTES // 2, 2: KEPT_BYTES // 4, 3: KEPT_BYTES // 2}

    @keep(lambda problem: sizes[problem.n])
    def work(problem: ConvProblem) -> int:
        calls.append(problem.n)
        return problem.n

    def problem(n: int) -> ConvProblem:
        return ConvProblem("fwd", "bf16", n=n, c=1, h=1, w=1, k=1, y=1, x=1)

    assert [work(problem(n)) for n in (1, 2, 1, 2, 3, 2, 1)] == [1, 2, 1, 2, 3, 2, 1]
    assert calls == [1, 2, 3, 1]
