"""A verifier's unit that dies at one kernel, importable by worker processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any


def dying_work(payload: tuple[Any, tuple[tuple[int, Any], ...]], claim: Callable[[int, Any], bool]) -> Iterator[Any]:  # noqa: ARG001
    """Right verdicts without running anything; entry 0 takes its process with it."""
    for row, group in payload[1]:
        if group == (0,):
            os.kill(os.getpid(), signal.SIGSEGV)
        yield row, {"verdict": "right", "digests": [str(row)]}
