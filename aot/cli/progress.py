"""Progress of a build on stderr: a bar on a terminal, a line now and then anywhere else, nothing with --json."""

from __future__ import annotations

import sys
import time
from typing import Any

from tqdm import tqdm

from aot.farm.progress import Counts, Progress, Silent

#: At most a few updates a second: a terminal over a slow line must not slow the build down.
_BAR_SECONDS = 0.3
_LINE_SECONDS = 30.0


def progress_for(as_json: bool) -> Progress:
    """What suits this process's stderr."""
    if as_json:
        return Silent()
    return BarProgress() if sys.stderr.isatty() else LineProgress()


class BarProgress:
    """One tqdm bar per stage, with rate, failures and time left."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None

    def stage(self, name: str, total: int) -> None:
        self.close()
        if total:
            self._bar = tqdm(total=total, desc=name, unit="kernel", mininterval=_BAR_SECONDS, dynamic_ncols=True)

    def advance(self, done: int, counts: Counts) -> None:
        if self._bar is None:
            return
        # Set before the update, which decides whether it is time to draw.
        self._bar.set_postfix_str(_state(counts), refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class LineProgress:
    """A line when a stage begins to take long, and every half minute after that."""

    def __init__(self, line_seconds: float = _LINE_SECONDS) -> None:
        self._line_seconds = line_seconds
        self._name, self._total = "", 0
        self._started = self._last = time.monotonic()

    def stage(self, name: str, total: int) -> None:
        self._name, self._total = name, total
        self._started = self._last = time.monotonic()

    def advance(self, done: int, counts: Counts) -> None:
        now = time.monotonic()
        if now - self._last < self._line_seconds:
            return
        self._last = now
        rate = done / (now - self._started)
        left = (self._total - done) / rate if rate else float("inf")
        line = f"{self._name}: {done}/{self._total}, {rate:.1f}/s, {_state(counts)}, {left:.0f} s left"
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None: ...


def _state(counts: Counts) -> str:
    failures = counts.failed + counts.timed_out + counts.disturbed
    return f"{counts.built} built, {counts.duplicates} duplicates, {failures} failed"
