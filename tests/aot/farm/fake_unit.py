"""A unit without a compiler: keys, code and faults follow from the identity alone. Importable by workers.

Like the real one, it gives equal code for the load widths of the direct-to-LDS loop. What it does is written to a log
outside of the build, one short line per emission and compilation, so that a test can count them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aot.farm.results import STAGES, Chunk, Compiled, Emission, Facts, Failure, UnitResult
from aot.workers.pool import UnitFunction
from cache_schema.arguments import Argument, ArgumentList
from cache_schema.digest import identity_digest

ARGUMENTS = ArgumentList((Argument("a", "ptr"), Argument("b", "ptr"), Argument("m", "i32")))


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the unit behaves; `faults` are by the first hex digits of an identity's digest."""

    log: Path
    faults: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    salt: str = ""  # stands for the emitter's sources: another salt, other IR


def unit(behaviour: Behaviour) -> UnitFunction:
    """The unit function for a build request."""
    return functools.partial(fake_chunk, behaviour=behaviour)


def key_of(identity: Any, salt: str = "") -> bytes:
    """The content key: what the code depends on."""
    if identity.async_dma:
        identity = replace(identity, vector_size_a=1, vector_size_b=1)
    return hashlib.sha256(salt.encode() + identity_digest(identity)).digest()


def code_of(key: bytes) -> bytes:
    """A code object of a few kilobytes, half of it noise."""
    source = random.Random(key)
    return source.randbytes(source.randrange(200, 2000)) + key * 40


def fake_chunk(
    chunk: Chunk, claim: Callable[[int, Emission], bool], behaviour: Behaviour
) -> Iterator[tuple[int, UnitResult]]:
    for index, row in enumerate(chunk.rows):
        yield row, _fake(chunk.identities.row(index), row, claim, behaviour)


def _fake(identity: Any, row: int, claim: Callable[[int, Emission], bool], behaviour: Behaviour) -> UnitResult:
    digest = identity_digest(identity).hex()
    fault = next((fault for prefix, fault in behaviour.faults.items() if digest.startswith(prefix)), "")
    seconds = dict.fromkeys(STAGES, 0.001)
    _log(behaviour, f"emit {digest}")
    if fault == "emission":
        return UnitResult(None, Failure("emission", "no such tile"), seconds)
    key = key_of(identity, behaviour.salt)
    if fault == "random":
        key = os.urandom(32)
    emission = Emission(key, ARGUMENTS, 64 * identity.warp_m * identity.warp_n)
    if not claim(row, emission):
        return UnitResult(emission, None, seconds)
    _log(behaviour, f"compile {key.hex()}")
    time.sleep(behaviour.seconds)
    match fault:
        case "random":
            _log(behaviour, f"random {digest}")
            time.sleep(5)
        case "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hang":
            time.sleep(600)
        case "memory":
            return UnitResult(emission, Failure("codegen", "MemoryError: ", passing=True), seconds)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "abort":
            os.write(2, b"LLVM ERROR: out of memory\n")
            os.abort()
        case "codegen":
            return UnitResult(emission, Failure("codegen", "Cannot select"), seconds)
    return UnitResult(emission, Compiled(Facts(1024, 64, 0, 32, 0, 0, 0), code_of(key)), seconds)


def _log(behaviour: Behaviour, line: str) -> None:
    descriptor = os.open(behaviour.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def logged(behaviour: Behaviour, verb: str) -> list[str]:
    """What was done since the log was last taken away: digests for "emit", keys for "compile"."""
    if not behaviour.log.exists():
        return []
    return [line.split()[1] for line in behaviour.log.read_text().splitlines() if line.startswith(verb)]
