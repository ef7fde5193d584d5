"""`plan` and `inspect` on the accuracy of backward weights, over a small real cache of every family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aot.cli.main import run
from aot.toolchain import Toolchain
from tests.aot.kernels.wgrad_machine import wgrad
from tests.aot.samples import fix_up_identity, reduce_identity
from tests.aot.small_cache import write_small_cache

LONG = ("--problem", "n=2 c=16 h=128 w=128 k=16 y=1 x=1")
SMALL = {"tile_m": 16, "tile_n": 16, "warp_m": 1, "warp_n": 1}
ATOMIC = wgrad(split_k=2, epilogue="cshuffle", vector_size_c=4, **SMALL)
OTHERS = [
    wgrad(split_k=2, two_stage=True, ws_replicas=8),
    wgrad(stream_k=True),
    reduce_identity("gfx950", "bf16", 8),
    fix_up_identity("gfx950", "bf16"),
]


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory, local_toolchain: Toolchain) -> tuple[Path, Path]:
    """One cache of all families, one of atomics alone."""
    folder = tmp_path_factory.mktemp("accuracy")
    everything = write_small_cache(folder / "all.rocke", local_toolchain, [ATOMIC, *OTHERS])
    return everything, write_small_cache(folder / "atomics.rocke", local_toolchain, [ATOMIC])


def plan(capsys: pytest.CaptureFixture[str], cache: Path, *options: str) -> Any:
    """The plan of the long gradient as JSON."""
    assert run(["plan", str(cache), *LONG, *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], cache: Path, *options: str) -> tuple[int, str]:
    """Exit code and the one line of an error."""
    code = run(["plan", str(cache), *LONG, *options])
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return code, line


def test_the_default_is_right_to_one_rounding(caches: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """No plan adds more than two 16-bit slices unasked; fast and a limit allow more, and the plan says so."""
    for cache in caches:
        found = plan(capsys, cache)
        assert found["rounded_sums"] <= 2
        assert found["accuracy"]["expected_ulps"] < 0.58
    fast = plan(capsys, caches[1], "--accuracy", "fast")
    assert fast["rounded_sums"] > 100
    assert fast["accuracy"]["expected_ulps"] > 10
    assert fast["requirements"]["coarse_grained"] == ["dw"]
    limited = plan(capsys, caches[1], "--max-error", "2")
    assert 2 < limited["rounded_sums"] < 20
    assert limited["accuracy"]["expected_ulps"] <= 2


def test_deterministic_plans(caches: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Every cache has some: slices that commute, parts that are added up in order."""
    for cache in caches:
        assert plan(capsys, cache, "--deterministic")["deterministic"] is True


def test_what_cannot_be_had_is_one_line(caches: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Too little error for what there is, degrees that contradict the demand, demands that contradict each other."""
    assert refused(capsys, caches[1], "--split-k", "8", "--max-error", "1")[0] == 1
    code, line = refused(capsys, caches[1], "--split-k", "8", "--deterministic")
    assert code == 1
    assert "equal bits" in line
    assert "fast" in refused(capsys, caches[1], "--max-error", "1", "--accuracy", "fast")[1]
    assert refused(capsys, caches[1], "--max-error", "0.1")[0] == 2


def test_people_are_told(caches: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Errors, equal bits and what to keep stand in the text; listings show the expected error of every kernel."""
    assert run(["plan", str(caches[1]), *LONG]) == 0
    shown = capsys.readouterr().out
    for words in ("0.408 ulps", "equal runs give equal bits  yes", "multiples of 16 bytes", "overlap", "dw"):
        assert words in shown
    assert run(["inspect", str(caches[0]), *LONG, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["candidates"]
    assert {candidate["expected_ulps"] for candidate in listed} == {0.289, 0.408}
    assert plan(capsys, caches[0])["steps"][-1]["kind"] == "launch"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--inputs", "ones"), 0, "right"),
        (("--inputs", "ones", "--split-k", "512"), 1, "16384.0, right is"),
        (("--inputs", "uniform", "--split-k", "512"), 1, "not judged"),
    ],
)
def test_verify_judges_what_can_be_judged(
    caches: tuple[Path, Path], capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int, words: str
) -> None:
    """Half the result is wrong, and a bound that is wider than the results shows nothing to be right."""
    line = "direction=wgrad n=2 c=16 h=128 w=128 k=16 y=1 x=1"
    assert run(["verify", str(caches[1]), "--problem", line, "--jobs", "1", *options]) == code
    assert words in capsys.readouterr().out
