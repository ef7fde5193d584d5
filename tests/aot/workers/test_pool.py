"""The pool: every row ends in exactly one result or loss, whatever the workers do."""

from __future__ import annotations

import importlib
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aot.workers.interrupt import BuildInterruptedError, StopFlag
from aot.workers.pool import Lost, Pool, UnitFunction, Work
from aot.workers.process import DEPENDENCIES
from cache_schema.errors import DeliveryError
from tests.aot.workers import worker_faults
from tests.aot.workers.alive import descendants, left_over


class Recorder:
    """Grants each claim once and writes down everything."""

    def __init__(self) -> None:
        self.claims: list[int] = []
        self.values: list[Any] = []
        self.results: dict[int, Any] = {}
        self.lost: dict[int, tuple[Lost, str]] = {}

    def on_claim(self, row: int, value: Any) -> bool:
        self.claims.append(row)
        self.values.append(value)
        return True

    def on_result(self, row: int, value: Any) -> None:
        assert row not in self.results
        assert row not in self.lost
        self.results[row] = value

    def on_lost(self, row: int, kind: Lost, message: str) -> None:
        assert row not in self.results
        assert row not in self.lost
        self.lost[row] = (kind, message)


def _faults(folder: Path, faults: list[str]) -> Work:
    def payload_of(rows: Sequence[int]) -> object:
        return str(folder), [(row, faults[row]) for row in rows]

    return Work(worker_faults.faulty, payload_of, range(len(faults)))


def _plain(function: UnitFunction, count: int) -> Work:
    return Work(function, list, range(count))


@pytest.mark.parametrize("workers", [1, 3])
def test_every_row_has_one_result(workers: int) -> None:
    """Many more rows than a chunk holds, on one and on several workers: all come back with their own value."""
    recorder = Recorder()
    with Pool(workers, time_limit=60) as pool:
        pool.run(_plain(worker_faults.square, 300), recorder)
    assert recorder.results == {row: row * row for row in range(300)}
    assert sorted(recorder.claims) == list(range(300))
    assert not recorder.lost


def test_a_refused_claim_reaches_the_worker() -> None:
    """The worker sees the parent's no, for exactly the rows that were refused."""

    class Odd(Recorder):
        def on_claim(self, row: int, value: Any) -> bool:
            super().on_claim(row, value)
            return row % 2 == 1

    recorder = Odd()
    with Pool(2, time_limit=60) as pool:
        pool.run(_plain(worker_faults.square, 50), recorder)
    assert recorder.results == {row: row * row if row % 2 else None for row in range(50)}


def test_faults_take_only_their_own_row(tmp_path: Path) -> None:
    """Crash, abort, exit, hang, exception, silence, no memory in one run: each loses its row with its reason."""
    faults = [""] * 60
    planted = {3: "segv", 11: "abort", 19: "hang", 24: "raise", 33: "silent", 41: "kill", 42: "kill-once"}
    planted |= {55: "exit", 57: "oom"}
    for row, fault in planted.items():
        faults[row] = fault
    recorder = Recorder()
    with Pool(2, time_limit=2.0) as pool:
        pool.run(_faults(tmp_path, faults), recorder)
    lost = {
        3: (Lost.DIED, "worker died: SIGSEGV"),
        11: (Lost.DIED, "worker died: SIGABRT: LLVM ERROR: Cannot select: t5"),
        19: (Lost.TIMED_OUT, "took longer than 2 s"),
        24: (Lost.RAISED, "ValueError: the unit has a bug"),
        33: (Lost.RAISED, "the unit function reported nothing"),
        41: (Lost.KILLED, "worker died: SIGKILL"),
        55: (Lost.DIED, "worker died: exit code 7"),
        57: (Lost.RAISED, "MemoryError: "),
    }
    assert recorder.lost == lost
    assert sorted(recorder.results) == [row for row in range(60) if row not in lost]
    assert recorder.claims.count(41) == recorder.claims.count(42) == 2  # a killed row has a second chance


def test_workers_stay_warm() -> None:
    """Two runs on one pool use the same processes, and they are children in a process group of their own."""
    recorder, again = Recorder(), Recorder()
    with Pool(1, time_limit=60) as pool:
        pool.run(_plain(worker_faults.process_ids, 40), recorder)
        pool.run(_plain(worker_faults.process_ids, 40), again)
    pids = {value[0] for value in [*recorder.results.values(), *again.results.values()]}
    assert len(pids) == 1
    assert {value[1] for value in recorder.results.values()} == {os.getpid()}


def test_a_hopeless_unit_ends_the_run() -> None:
    """When every worker dies and nothing ever succeeds, the run says so instead of failing each kernel."""
    with Pool(2, time_limit=60) as pool, pytest.raises(DeliveryError, match=r"do not come up: .* exit code 3"):
        pool.run(_plain(worker_faults.always_dies, 500), Recorder())


def test_a_unit_that_cannot_be_imported_ends_the_run() -> None:
    """A task that a worker cannot even unpickle is nobody's kernel."""
    work = Work(worker_faults.square, lambda _: _Unpicklable(), range(3))
    with Pool(1, time_limit=60) as pool, pytest.raises(DeliveryError, match="cannot run its task"):
        pool.run(work, Recorder())


class _Unpicklable:
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


def test_stop_ends_all_workers() -> None:
    """A set flag raises its error, and closing the pool leaves no process behind."""
    stop = StopFlag()
    recorder = Recorder()
    with Pool(2, time_limit=60, stop=stop) as pool:
        with pytest.raises(BuildInterruptedError) as caught:
            pool.run(_plain(worker_faults.square, 5000), recorder, tick=lambda: stop.set(signal.SIGTERM))
        pids = [worker.process.pid for worker in pool._workers]
    assert caught.value.signal_number == signal.SIGTERM
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_time_limit_ends_all_that_a_worker_started() -> None:
    """A compiler process that hangs, and what it started itself, end with their worker."""
    recorder = Recorder()
    with Pool(1, time_limit=1.0) as pool:
        pool.run(_plain(worker_faults.with_grandchild, 1), recorder)
    assert recorder.lost == {0: (Lost.TIMED_OUT, "took longer than 1 s")}
    (pids,) = recorder.values
    assert len(set(pids)) == 3
    assert left_over(pids) == []


def test_workers_die_with_a_killed_parent(tmp_path: Path) -> None:
    """kill -9 of the parent while a worker's tool hangs leaves neither worker nor tool nor what that has started."""
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(Path(__file__).parents[3])!r})
            from aot.workers.pool import Pool
            from tests.aot.workers import worker_faults
            from tests.aot.workers.test_pool import Recorder, _plain

            class Telling(Recorder):
                def on_claim(self, row, value):
                    print(*value, flush=True)
                    return True

            with Pool(1, time_limit=600) as pool:
                pool.run(_plain(worker_faults.with_grandchild, 1), Telling())
        """)
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    pids += descendants(parent.pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert len(set(pids)) == 4  # with the guard
    assert left_over(pids) == []


_ROOT = Path(__file__).parents[3]


def test_workers_import_what_their_parent_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No module of the current folder, of PYTHONPATH or of the user's site, and no variable that changes code."""
    site = tmp_path / ".local/lib/python{}.{}/site-packages".format(*sys.version_info)
    for folder in (tmp_path, site):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("struct", "json", "sitecustomize", "usercustomize"):
            (folder / f"{name}.py").write_text("raise SystemExit('not this one')")
        (folder / "aot").mkdir()
        (folder / "aot/__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    for name, value in {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONOPTIMIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    recorder = Recorder()
    with Pool(1, time_limit=60) as pool:
        pool.run(_plain(worker_faults.surroundings, 1), recorder)
    found, path, flags = recorder.results[0]
    assert found == {name: importlib.import_module(name).__file__ for name in ("struct", "json", "aot", "numpy")}
    assert not [entry for entry in path if entry in ("", ".") or entry.startswith(str(tmp_path))]
    assert flags == {"optimize": 0, "isolated": 1, "no_user_site": 1, "ignore_environment": 1}


def test_workers_find_all_that_the_project_stands_on() -> None:
    """The list of dependencies is the declared one."""
    declared = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split("[>=]", line)[0] for line in declared}
    assert {"pyyaml" if name == "yaml" else name for name in DEPENDENCIES} == names


@pytest.mark.parametrize("limit", [1 << 28, 1 << 33])
def test_limits_of_the_parent_stay(limit: int) -> None:
    """A hard limit below ours is no error, and one above is lowered."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    script = f"""
        import resource
        from aot.workers.pool import Pool
        from tests.aot.workers.test_pool import Recorder, _plain
        from tests.aot.workers import worker_faults
        resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
        recorder = Recorder()
        with Pool(1, time_limit=60, memory_limit=1 << 30) as pool:
            pool.run(_plain(worker_faults.data_limit, 1), recorder)
        print(recorder.results[0])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == min(limit, 1 << 30)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
