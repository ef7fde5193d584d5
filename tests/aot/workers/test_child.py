"""Tools that are run once: what they say comes back, and what they do wrong ends in one error and no process."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from aot.workers.child import MachineError, run_child
from tests.aot.workers.alive import left_over


def test_output_and_exit_code_come_back() -> None:
    """Input reaches the tool, both outputs and the code come back, and an error of its own is no exception."""
    done = run_child(["sh", "-c", "cat; echo wrong >&2; exit 3"], seconds=30, stdin=b"text")
    assert (done.code, done.stdout, done.message) == (3, b"text", "wrong")


def test_a_tool_that_hangs_ends_with_all_it_started(tmp_path: Path) -> None:
    """The time limit holds though a grandchild keeps the output open, and the grandchild is ended too."""
    started = time.monotonic()
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(MachineError, match=r"^sh took longer than 0.5 s$"):
        run_child(["sh", "-c", script], seconds=0.5)
    assert time.monotonic() - started < 10
    assert left_over([int((tmp_path / "pid").read_text())]) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -9 $$", "was ended by SIGKILL"),
        ("exec /nowhere/clang", "cannot run: .*/nowhere/clang"),
        ("echo 'LLVM ERROR: out of memory' >&2; exit 1", "out of memory"),
        ("echo 'x.so: failed to map segment from shared object' >&2; exit 1", "failed to map segment"),
    ],
)
def test_faults_of_the_machine_are_told_apart(script: str, message: str) -> None:
    """Killed from outside, without a file, without memory: nothing that the input of the tool is to blame for."""
    with pytest.raises(MachineError, match=message):
        run_child(["sh", "-c", script], seconds=30)


def test_a_tool_that_is_not_there() -> None:
    """Cannot be started at all: the same kind, and the name of the file."""
    with pytest.raises(MachineError, match=r"cannot run /nowhere/ld.lld: No such file"):
        run_child(["/nowhere/ld.lld"], seconds=30)


def test_a_crash_of_its_own_is_no_fault_of_the_machine() -> None:
    """A segmentation fault says something of what the tool was given."""
    assert run_child(["sh", "-c", "kill -SEGV $$"], seconds=30).code == -11
