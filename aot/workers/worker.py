"""A warm worker: a process of its own that runs unit functions over chunks until its parent closes the pipe.

Started as `python -I -S worker.py FD PARENT_PID MEMORY_LIMIT`, never forked: it carries nothing of a big parent, and
nothing of the parent's folder and environment decides what it imports. A limit of 0 bytes is none.
A unit function takes (payload, claim) and yields exactly one (row, value) for each row of the payload, in order; it
may call claim(row, value), which asks the parent and returns its yes or no. Messages:

    parent -> worker: `setup.first_message` (JSON bytes), then ("run", function, payload) and one bool per claim
    worker -> parent: ("ready",) . ("begun",) . ("claim", row, value) . ("result", row, value) . ("raised", text) .
                      ("done", resident_bytes) . ("broken", text)
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PAGE_BYTES = resource.getpagesize()


def main(arguments: list[str]) -> None:
    descriptor, parent, memory_limit = map(int, arguments)
    _die_with(parent)
    if memory_limit:
        _limit(resource.RLIMIT_DATA, memory_limit)
    _limit(resource.RLIMIT_CORE, 0)
    connection: Connection[Any, Any] = Connection(descriptor)
    try:
        # Behind the standard library, which nothing replaces.
        told = json.loads(connection.recv_bytes())
        sys.path += told["path"]
        from aot.workers.groups import enter_worker
        from aot.workers.setup import call

        enter_worker()
        try:
            call(told["call"])
        except Exception as error:
            connection.send(("broken", f"{type(error).__name__}: {error}"))
            return
        connection.send(("ready",))
        while True:
            try:
                _, function, payload = connection.recv()
            except EOFError:
                return
            except Exception as error:  # the function cannot be imported here: no kernel is to blame
                connection.send(("broken", f"{type(error).__name__}: {error}"))
                return
            connection.send(("begun",))  # whatever had to be imported for the function is there
            _run(connection, function, payload)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone


def _run(connection: Connection[Any, Any], function: Any, payload: Any) -> None:
    def claim(row: int, value: Any) -> bool:
        connection.send(("claim", row, value))
        return bool(connection.recv())

    try:
        for row, value in function(payload, claim):
            connection.send(("result", row, value))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        connection.send(("raised", f"{type(error).__name__}: {error}"))
    # Everything that a kernel made is garbage now; a collection in the middle of the next kernel costs more.
    gc.collect()
    connection.send(("done", _resident_bytes()))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when the parent dies, however it dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)


def _limit(what: int, most: int) -> None:
    """Lower a limit, where the parent's own is not lower still."""
    soft, hard = (most if value == resource.RLIM_INFINITY else min(value, most) for value in resource.getrlimit(what))
    resource.setrlimit(what, (soft, hard))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


if __name__ == "__main__":
    main(sys.argv[1:])
