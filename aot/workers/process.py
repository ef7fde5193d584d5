"""Starting one worker process and ending it, with everything that it started."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, Any

from aot.workers import groups
from aot.workers.setup import first_message

_SCRIPT = Path(__file__).with_name("worker.py")
_ROOT = Path(__file__).parents[2]
#: What the project stands on. A worker imports the copies that its parent does.
DEPENDENCIES = ("click", "llvmlite", "msgpack", "numpy", "tqdm", "yaml", "zstandard")
_STDERR_TAIL_BYTES = 4096
_POLL_SECONDS = 0.01


class WorkerProcess:
    """A running worker."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection[Any, Any], stderr: IO[bytes]) -> None:
        self._process, self.connection, self._stderr = process, connection, stderr
        self.last_words = ""  #: from its stderr, once it has ended

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int:
        """How it ended: exit code, or less than zero the signal."""
        return self._process.returncode

    def end(self, patience: float = 0.0) -> None:
        """End it and all that it started, after waiting so many seconds for it to end by itself."""
        self.connection.close()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            time.sleep(_POLL_SECONDS)
        groups.kill(self.pid)
        self._process.wait()
        with self._stderr:
            self.last_words = _last_words(self._stderr)


@cache
def search_path() -> list[str]:
    """Where a worker finds this project and what it stands on, and nothing else but the standard library.

    Not this process's own path: the folder that a command is started in, and whatever PYTHONPATH and the user's site
    have, must not give a worker another `struct` or `aot` than this process runs.
    """
    places = [str(_ROOT)]
    for name in DEPENDENCIES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin)
            places.append(str(file.parents[1] if spec.submodule_search_locations else file.parent))
    return list(dict.fromkeys(places))


def start_worker(memory_limit: int | None) -> WorkerProcess:
    """A worker that may hold so many bytes of data of its own. Raises OSError where the machine gives no process."""
    groups.prepare()
    ours, theirs = Pipe()
    try:
        with theirs:
            stderr = os.fdopen(os.memfd_create("worker"), "w+b")  # needs no folder, and no room in one
            arguments = map(str, (theirs.fileno(), os.getpid(), memory_limit or 0))
            process = subprocess.Popen(
                [sys.executable, *groups.ISOLATED, str(_SCRIPT), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C is for the parent, which decides
            )
    except OSError:
        ours.close()
        raise
    groups.watch(process.pid)
    with contextlib.suppress(ConnectionError):  # whoever reads will see that it is dead
        ours.send_bytes(json.dumps(first_message(search_path())).encode())
    return WorkerProcess(process, ours, stderr)


def _last_words(stderr: IO[bytes]) -> str:
    """The last line of what a worker wrote, by preference the compiler's own fatal error."""
    stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, stderr.tell() - _STDERR_TAIL_BYTES))
    lines = [line.strip() for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if "ERROR" in line]
    return (fatal or lines or [""])[-1]


def describe_status(status: int) -> str:
    """An exit status in words."""
    if status < 0:
        return signal.Signals(-status).name
    return f"exit code {status}"
