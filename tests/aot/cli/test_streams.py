"""Commands on a poor machine: closed and full streams, and few open files, change no result and hide no cause."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = f"exec {sys.executable} -m aot.cli.main"
BUILD = f"{RUN} compile-all --arch gfx950 --dtype bf16 --direction fwd --limit 2 --jobs 1 --out"


def _shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)  # noqa: S607


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_a_build_needs_no_streams(streams: str, tmp_path: Path) -> None:
    """The file is there, with exit code 0, whatever can be said about it."""
    assert _shell(f"{BUILD} {tmp_path} {streams}").returncode == 0
    assert (tmp_path / "gfx950-bf16.rocke").exists()


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_a_verification_needs_no_stderr(streams: str, quick_cache: Path, tmp_path: Path) -> None:
    """It runs, and its JSON is whole."""
    done = _shell(f"{RUN} verify {quick_cache} --jobs 1 --sample 1 --json --evidence {tmp_path}/e.jsonl {streams}")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["right"] == 1


@pytest.mark.parametrize("files", [6, 8, 9, 10, 11])
def test_few_open_files_are_named(files: int, tmp_path: Path) -> None:
    """Too few files to build with: the cause in one line, and in JSON."""
    done = _shell(f"ulimit -n {files}; {BUILD} {tmp_path / 'out'} --json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert "Too many open files" in answer["error"]
    assert answer["exit_code"] == 1
    assert done.stderr == f"rocke-aot: error: {answer['error']}\n"


def test_fewer_files_than_workers_want(tmp_path: Path) -> None:
    """With files for some of the workers, these do the work."""
    done = _shell(f"ulimit -n 16; {BUILD.replace('--jobs 1', '--jobs 2').replace('--limit 2', '--limit 4')} {tmp_path}")
    assert done.returncode == 0, done.stderr
