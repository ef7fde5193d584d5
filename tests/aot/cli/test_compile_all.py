"""`rocke-aot compile-all`: what it prints and how it ends."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aot.cli.main import run
from aot.cli.progress import BarProgress, LineProgress, progress_for
from aot.farm import build as build_module
from aot.farm.build import BuildRequest
from aot.farm.progress import Counts, Silent
from aot.farm.selection import GridScope, select
from cache_schema.cache_check import check_cache
from cache_schema.cache_reader import Cache
from tests.aot.farm import fake_unit
from tests.aot.farm.fake_unit import Behaviour
from tests.aot.farm.test_build import AXES

GRID = ["--arch", "gfx950", "--dtype", "bf16", "--direction", "fwd"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Behaviour:
    """The command over a unit without a compiler; every request is recorded."""
    behaviour = Behaviour(tmp_path / "log", faults={})
    real = build_module.build

    def build(request: BuildRequest, *rest: Any) -> Any:
        return real(replace(request, unit=fake_unit.unit(behaviour)), *rest)

    monkeypatch.setattr("aot.cli.compile_all.build", build)
    return behaviour


def _command(tmp_path: Path, *more: str) -> list[str]:
    axes = tmp_path / "axes.yaml"
    axes.write_text(AXES)
    return ["compile-all", *GRID, "--axes", str(axes), "--limit", "30", "--out", str(tmp_path / "out"), *more]


def test_json_summary(tmp_path: Path, fake: Behaviour, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON document on stdout, nothing on stderr, and the numbers add up; a second run reuses everything."""
    assert run(_command(tmp_path, "--json")) == 0
    captured = capsys.readouterr()
    first = json.loads(captured.out)
    assert captured.err == ""
    assert first["identities"] == 30 == first["built"] + first["duplicates"]
    assert (first["failed"], first["timed_out"], first["reused"]) == (0, 0, 0)
    assert first["rejected"] > 0
    assert Path(first["cache"]) == tmp_path / "out/gfx950-bf16.rocke"
    assert set(first["stages"]) >= {"enumerate", "emission", "codegen", "link", "store", "pack"}
    assert fake.log.exists()
    assert run(_command(tmp_path, "--json")) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["reused"], second["built"], second["sha256"]) == (30, 0, first["sha256"])


def test_text_summary(tmp_path: Path, fake: Behaviour, capsys: pytest.CaptureFixture[str]) -> None:
    """File, digest and counts for a person; a second run says that nothing changed."""
    assert run(_command(tmp_path)) == 0
    text = capsys.readouterr().out
    assert "gfx950-bf16.rocke: " in text
    assert "30 identities" in text
    assert run(_command(tmp_path)) == 0
    assert "(unchanged)" in capsys.readouterr().out
    assert fake.log.exists()


def test_failures_make_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Behaviour, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that cannot be built: exit code 1, its label and reason, and a file with all the others."""
    (tmp_path / "axes.yaml").write_text(AXES)
    scope = GridScope("gfx950", ("fwd",), axes_file=tmp_path / "axes.yaml", limit=30)
    digest = select(scope, "bf16").digests[4].tobytes().hex()
    broken = replace(fake, faults={digest: "codegen"})
    real = build_module.build
    monkeypatch.setattr(
        "aot.cli.compile_all.build", lambda request, *rest: real(replace(request, unit=fake_unit.unit(broken)), *rest)
    )
    assert run(_command(tmp_path)) == 1
    captured = capsys.readouterr()
    assert "1 failed" in captured.out
    assert "failed: fwd:implicit_gemm:gfx950:bf16:" in captured.err
    assert "codegen: Cannot select" in captured.err
    with Cache.open(tmp_path / "out/gfx950-bf16.rocke") as cache:
        assert len(cache) == 29


def test_real_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A few kernels through the whole chain with this machine's compiler: all built, and the file is sound."""
    assert run(["compile-all", *GRID, "--limit", "4", "--out", str(tmp_path), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["built"] + summary["duplicates"] == 4
    assert check_cache(summary["cache"]) == ()


def test_progress_fits_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing with --json, a bar on a terminal, lines elsewhere."""
    assert isinstance(progress_for(as_json=True), Silent)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(progress_for(as_json=False), BarProgress)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert isinstance(progress_for(as_json=False), LineProgress)


def test_lines_have_rate_failures_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    """A line says how far, how fast, what failed and how long still; and lines are rare."""
    progress = LineProgress(line_seconds=0.0)
    progress.stage("gfx950 bf16", 200)
    progress.advance(50, Counts(total=200, built=40, duplicates=8, failed=1, timed_out=1))
    line = capsys.readouterr().err
    assert line.startswith("gfx950 bf16: 50/200, ")
    assert "/s, 40 built, 8 duplicates, 2 failed, " in line
    assert line.endswith(" s left\n")
    seldom = LineProgress()
    seldom.stage("gfx950 bf16", 200)
    for done in range(200):
        seldom.advance(done, Counts(total=200, built=done))
    assert capsys.readouterr().err == ""


def test_a_bar_shows_the_counts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """tqdm's bar with our counts, closed when the next stage begins."""
    monkeypatch.setattr("aot.cli.progress._BAR_SECONDS", 0.0)
    progress = BarProgress()
    progress.stage("gfx950 bf16", 10)
    for done in (1, 5, 10):
        progress.advance(done, Counts(total=10, built=done, failed=0))
    progress.stage("gfx950 fp16", 0)
    progress.advance(0, Counts())
    progress.close()
    text = capsys.readouterr().err
    assert "gfx950 bf16: 100%" in text
    assert "10 built, 0 duplicates, 0 failed" in text
