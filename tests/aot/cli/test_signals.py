"""Commands that are told to stop, or killed: one line, the signal's exit code, valid JSON, and no process left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.aot.workers.alive import descendants, left_over

ROOT = Path(__file__).parents[3]
GRID = ("--arch", "gfx950", "--dtype", "bf16", "--direction", "fwd", "--limit", "12")
#: The command line over workers that never finish: each kind of command that has any.
COMMANDS = {
    "verify": """
        import aot.verification.verify as module
        from tests.aot.workers import worker_faults
        module.FEW_KERNELS = 0
        module._work = worker_faults.endless
    """,
    "compile-all": """
        import aot.farm.build as module
        from tests.aot.workers import worker_faults
        module.build_chunk = worker_faults.endless
    """,
}


def _start(name: str, cache: Path, folder: Path) -> subprocess.Popen[str]:
    arguments = {
        "verify": ["verify", str(cache), "--evidence", str(folder / "evidence.jsonl")],
        "compile-all": ["compile-all", *GRID, "--out", str(folder / "out")],
    }[name]
    script = f"{textwrap.dedent(COMMANDS[name])}\nimport sys\nfrom aot.cli.main import main\nmain()"
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments, "--jobs", "2", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ROCKE_TEST_MARK": str(folder / "mark")},
    )


def _working(folder: Path, process: subprocess.Popen[str]) -> list[int]:
    """All processes of a command, once a worker works."""
    while not (folder / "mark").exists():
        assert process.poll() is None
        time.sleep(0.02)
    return descendants(process.pid)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_is_one_line(name: str, number: signal.Signals, quick_cache: Path, tmp_path: Path) -> None:
    """Exit code 128+n, one line, one JSON value, and neither workers nor what they started."""
    process = _start(name, quick_cache, tmp_path)
    pids = _working(tmp_path, process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert stderr.startswith("rocke-aot: error: stopped")
    assert stderr.count("\n") == 1
    assert json.loads(stdout)["exit_code"] == 128 + number
    assert len(pids) >= 4
    assert left_over(pids) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_nothing(name: str, quick_cache: Path, tmp_path: Path) -> None:
    """After kill -9 the reader of its output sees the end, since nobody holds it any more."""
    process = _start(name, quick_cache, tmp_path)
    pids = _working(tmp_path, process)
    process.kill()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert len(pids) >= 4
    assert left_over(pids) == []


def test_nohup_is_respected(quick_cache: Path, tmp_path: Path) -> None:
    """A command that was started with SIGHUP ignored goes on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = _start("verify", quick_cache, tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    _working(tmp_path, process)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_long_launch_does_not_hold_a_signal_up(quick_cache: Path) -> None:
    """One problem that takes seconds in native code: the command ends at once all the same."""
    problem = "n=32 c=64 h=56 w=56 k=64 y=3 x=3 pad=1"
    command = [sys.executable, "-m", "aot.cli.main", "verify", str(quick_cache), "--problem", problem, "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(pids := descendants(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    started = time.monotonic()
    process.terminate()
    stdout, _ = process.communicate(timeout=30)
    assert time.monotonic() - started < 2
    assert (process.returncode, json.loads(stdout)["exit_code"]) == (143, 143)
    assert left_over(pids) == []
