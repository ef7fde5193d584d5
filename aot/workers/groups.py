"""Process groups of this command: each is ended as a whole, and none outlives the command, even one that is killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

_GUARD = Path(__file__).with_name("guard.py")
# Nothing of the caller's environment, folder or site decides what a process of ours imports.
ISOLATED = ("-I", "-S")


@dataclass(slots=True)
class _State:
    """Of this process. `pipe` leads to the guard that `guard` is the process number of."""

    pipe: int = -1
    guard: int = 0
    inside: bool = False


_state = _State()


def inside_worker() -> bool:
    """Whether this process is a worker: what it starts belongs to its own group, which its parent ends."""
    return _state.inside


def enter_worker() -> None:
    """This process is a worker from now on."""
    _state.inside = True


def prepare() -> None:
    """Start the guard, before the first group. Raises OSError where the machine gives no process."""
    if _state.pipe < 0:
        _start_guard()


def watch(group: int) -> None:
    """Have a group killed when this process dies before `kill` or `release` was called for it."""
    _tell(f"+{group}\n")


def kill(group: int) -> None:
    """Kill all processes of a group, whose leader has not been waited for yet, so that the number is still its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    release(group)


def release(group: int) -> None:
    """The group has ended by itself."""
    _tell(f"-{group}\n")


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):  # a guard that somebody killed leaves the workers' own ways of dying
        os.write(_state.pipe, line.encode())


def _start_guard() -> None:
    theirs, ours = os.pipe()
    try:
        _state.guard = os.posix_spawn(
            sys.executable,
            [sys.executable, *ISOLATED, str(_GUARD)],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    _state.pipe = ours
    atexit.register(_end_guard)


def _end_guard() -> None:
    os.close(_state.pipe)
    _state.pipe = -1
    with contextlib.suppress(ChildProcessError):
        os.waitpid(_state.guard, 0)
