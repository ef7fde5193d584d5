"""A tool that is run once: with a time limit, and in a process group that ends as a whole."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from aot.workers import groups
from cache_schema.errors import DeliveryError

# What a shell, and a wrapper written for one, ends with when there is nothing it could start.
_NOT_STARTED = (126, 127)
# Signals by which a program ends itself, for a fault of its own; any other came from outside.
OWN_SIGNALS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
# What a program says that was given too little memory, in LLVM's words, the C++ library's, the loader's and libc's.
_TOO_LITTLE = ("out of memory", "bad_alloc", "failed to map segment", "Cannot allocate memory")


class MachineError(DeliveryError):
    """A failure of this machine at this moment: another one, or a later try, may do better."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a tool that ran by itself to its end left: exit code, negative for a signal, and its output."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def message(self) -> str:
        """What it says is wrong."""
        return self.stderr.decode("utf-8", "replace").strip()


def run_child(command: Sequence[str], *, seconds: float, stdin: bytes = b"") -> Finished:
    """Run a command to its end.

    Raises MachineError when it cannot be started, takes longer than `seconds` (it is killed then, with all that it
    started), is killed from outside, or lacks memory or a file.
    """
    own_group = not groups.inside_worker()
    try:
        if own_group:
            groups.prepare()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0 if own_group else None,
        )
    except OSError as error:
        raise MachineError(f"cannot run {command[0]}: {error.strerror or error}") from error
    try:
        if own_group:
            groups.watch(process.pid)
        stdout, stderr = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise MachineError(f"{command[0]} took longer than {seconds:g} s") from None
    except OSError as error:
        raise MachineError(f"cannot run {command[0]}: {error.strerror or error}") from error
    finally:
        _end(process, own_group)
    finished = Finished(process.returncode, stdout, stderr)
    if reason := _fault_of_the_machine(finished):
        raise MachineError(f"{command[0]} {reason}")
    return finished


def lacks_memory(text: str) -> bool:
    """Whether the last words of a program are that it was given too little memory."""
    return any(words in text for words in _TOO_LITTLE)


def _end(process: subprocess.Popen[bytes], own_group: bool) -> None:
    """Leave nothing of it behind. The pipes are closed and not read: what it started may hold their other ends."""
    if process.returncode is not None:
        if own_group:
            groups.release(process.pid)
    elif own_group:
        groups.kill(process.pid)
    else:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _fault_of_the_machine(finished: Finished) -> str:
    if finished.code < 0 and -finished.code not in OWN_SIGNALS:
        return f"was ended by {signal.Signals(-finished.code).name}"
    if finished.code in _NOT_STARTED or (finished.code != 0 and lacks_memory(finished.message)):
        return f"cannot run: {finished.message or f'exit code {finished.code}'}"
    return ""
