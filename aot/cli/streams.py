"""Standard streams that are closed or full: what cannot be said is left out, and changes nothing else."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO


def mend_streams() -> None:
    """Give a process its three streams, whatever it was started with.

    A closed one leads nowhere: else the next file that is opened takes its number, and children write into that.
    Writing to stderr never fails: progress and notes are not worth a build. Names of files need not be text, and are
    shown all the same.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = _nowhere()
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stderr = _Forgiving(sys.stderr or _nowhere())


def _nowhere() -> TextIO:
    """Lives as long as the process."""
    return Path(os.devnull).open("w")


class _Forgiving:
    """A text stream whose writes never fail."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
