"""Ends process groups when the process that named them is gone, however it went.

A script of the standard library alone, started by `aot.workers.groups` with a pipe as its stdin. A line `+N` names the
group N, `-N` says that it has ended. When the pipe closes, its writer is gone: every group still named is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # it ends when there is nothing left to guard
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        group = int(line[1:])
        if line.startswith(b"+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
