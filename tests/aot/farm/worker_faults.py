"""Unit functions that misbehave on request, importable by worker processes."""

from __future__ import annotations

import os
import signal
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
