"""Unit functions that misbehave on request, importable by worker processes."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def square(payload: list[int], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:
    """Well behaved: asks for every row, and reports the square of those it was granted."""
    for row in payload:
        yield row, row * row if claim(row, row) else None


def faulty(payload: tuple[str, list[tuple[int, str]]], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:
    """Each row brings its fault: "", "segv", "exit", "abort", "hang", "raise", "silent", "oom", "kill", "kill-once"."""
    folder, rows = payload
    for row, fault in rows:
        claim(row, fault)
        match fault:
            case "segv":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "abort":
                os.write(2, b"LLVM ERROR: Cannot select: t5\n")
                os.abort()
            case "exit":
                os._exit(7)
            case "hang":
                time.sleep(600)
            case "raise":
                raise ValueError("the unit has a bug")
            case "silent":
                return
            case "oom":
                bytearray(64 << 30)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill-once":
                marker = Path(folder) / f"killed-{row}"
                if not marker.exists():
                    marker.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        yield row, "done"


def always_dies(payload: list[int], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:  # noqa: ARG001
    os._exit(3)
    yield 0, 0


def process_ids(payload: list[int], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:  # noqa: ARG001
    for row in payload:
        yield row, (os.getpid(), os.getppid(), signal.getsignal(signal.SIGINT) is not None)


def surroundings(names: list[int], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:  # noqa: ARG001
    """What a worker imports, and from where."""
    modules = ("struct", "json", "aot", "numpy")
    found = {name: importlib.import_module(name).__file__ for name in modules}
    flags = {name: getattr(sys.flags, name) for name in ("optimize", "isolated", "no_user_site", "ignore_environment")}
    for row in names:
        yield row, (found, tuple(sys.path), flags)


def with_grandchild(payload: list[int], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:
    """Starts a tool that starts another one, tells its process number, and never ends."""
    for row in payload:
        tool = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)  # noqa: S607
        assert tool.stdout is not None
        claim(row, (os.getpid(), tool.pid, int(tool.stdout.readline())))
        time.sleep(600)
        yield row, None


def data_limit(payload: list[int], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:  # noqa: ARG001
    """The hard limit of a worker's data, in bytes."""
    for row in payload:
        yield row, resource.getrlimit(resource.RLIMIT_DATA)[1]


def endless(payload: Any, claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:  # noqa: ARG001
    """Starts a tool that hangs, says so in a file, and hangs itself."""
    subprocess.Popen(["sleep", "600"])  # noqa: S607
    Path(os.environ["ROCKE_TEST_MARK"]).touch()
    time.sleep(600)
    yield 0, None
