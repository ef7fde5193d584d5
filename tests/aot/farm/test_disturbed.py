"""Builds that are killed, interrupted or run out of disk end, after a rerun, in the bytes of an undisturbed build."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aot.farm.build import BuildRequest, build
from aot.farm.selection import GridScope
from cache_schema.errors import DeliveryError
from tests.aot.farm import fake_unit
from tests.aot.farm.fake_unit import Behaviour, logged
from tests.aot.farm.test_build import AXES, TOOLCHAIN
from tests.needs import lacking

ROOT = Path(__file__).parents[3]
LIMIT = 400
WORKERS = 2


def _request(folder: Path, out: Path, seconds: float = 0.0) -> BuildRequest:
    axes = folder / "axes.yaml"
    axes.write_text(AXES)
    scope = GridScope("gfx950", ("fwd",), axes_file=axes, limit=LIMIT)
    unit = fake_unit.unit(Behaviour(folder / "log", seconds=seconds))
    return BuildRequest(scope, ("bf16",), TOOLCHAIN, out, jobs=WORKERS, unit=unit)


def _start(folder: Path, out: Path, seconds: float) -> subprocess.Popen[bytes]:
    """The same build as a process of its own, through the command line's error handling."""
    script = f"""
        import sys
        from pathlib import Path
        from aot.cli.errors import guarded
        from aot.farm.build import build
        from aot.workers.interrupt import StopFlag
        from tests.aot.farm.test_disturbed import _request

        def run():
            with StopFlag() as stop:
                build(_request(Path({str(folder)!r}), Path({str(out)!r}), {seconds}), stop=stop)

        sys.exit(guarded(run))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": "random"})


@pytest.fixture
def undisturbed(tmp_path: Path) -> bytes:
    """The file of a build that nobody disturbs."""
    (tmp_path / "calm").mkdir()
    return build(_request(tmp_path / "calm", tmp_path / "calm/out"))[0].cache.read_bytes()


def _wait_for_work(folder: Path, amount: int, process: subprocess.Popen[bytes]) -> None:
    while len(logged(Behaviour(folder / "log"), "compile")) < amount and process.poll() is None:
        time.sleep(0.005)


def test_kill_9_at_any_point(tmp_path: Path, undisturbed: bytes) -> None:
    """Killed again and again, at random times after some work was done, the build still ends in the same bytes.

    What was compiled before is not compiled again, except for what was on its way to the journal.
    """
    source = random.Random(11)
    out, kills = tmp_path / "out", 0
    while True:
        process = _start(tmp_path, out, seconds=0.003)
        _wait_for_work(
            tmp_path, len(logged(Behaviour(tmp_path / "log"), "compile")) + source.randrange(20, 120), process
        )
        time.sleep(source.random() * 0.05)
        process.kill()
        _, stderr = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, stderr.decode()
        kills += 1
    assert kills >= 3
    assert next(out.glob("*.rocke")).read_bytes() == undisturbed
    compiled = logged(Behaviour(tmp_path / "log"), "compile")
    assert len(compiled) <= len(set(compiled)) + kills * WORKERS


def test_kill_9_while_packing(tmp_path: Path, undisturbed: bytes) -> None:
    """Killed when everything is compiled: no half file, no second compilation, and no litter in the end."""
    out = tmp_path / "out"
    total = len(set(logged(Behaviour(tmp_path / "calm/log"), "compile")))
    for delay in (0.0, 0.03, 0.06, 0.1):
        process = _start(tmp_path, out, seconds=0.0)
        _wait_for_work(tmp_path, total, process)
        time.sleep(delay)
        process.kill()
        process.communicate()
        for file in out.glob("*.rocke"):
            assert file.read_bytes() == undisturbed
    summary = build(_request(tmp_path, out))[0]
    assert summary.cache.read_bytes() == undisturbed
    assert [path.name for path in out.iterdir()] == [summary.cache.name]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly(tmp_path: Path, undisturbed: bytes, number: signal.Signals) -> None:
    """One clear line, an exit code that names the signal, no worker left, and nothing lost."""
    out = tmp_path / "out"
    process = _start(tmp_path, out, seconds=0.01)
    _wait_for_work(tmp_path, 60, process)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    line = f"rocke-aot: error: stopped by {number.name}; what was built is kept, run the same command again to go on\n"
    assert stderr.decode() == line
    assert workers
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    before = len(logged(Behaviour(tmp_path / "log"), "compile"))
    assert build(_request(tmp_path, out))[0].cache.read_bytes() == undisturbed
    compiled = logged(Behaviour(tmp_path / "log"), "compile")
    assert before >= 60
    assert len(compiled) <= len(set(compiled)) + WORKERS


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB; less than the journal, more than nothing."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        lacking("root, who may mount a small file system; the journal's own test covers a failing write")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)  # noqa: S607


def test_a_full_disk(tmp_path: Path, small_disk: Path, undisturbed: bytes) -> None:
    """One error that says what to do; with more room the build goes on where it was."""
    with pytest.raises(DeliveryError, match="the disk is full; what was built is kept, free some space"):
        build(_request(tmp_path, small_disk / "out"))
    before = len(logged(Behaviour(tmp_path / "log"), "compile"))
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)  # noqa: S607
    assert build(_request(tmp_path, small_disk / "out"))[0].cache.read_bytes() == undisturbed
    compiled = logged(Behaviour(tmp_path / "log"), "compile")
    assert 0 < before < len(set(compiled))
    assert len(compiled) <= len(set(compiled)) + 2 * WORKERS
