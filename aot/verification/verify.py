"""Verify the kernels of a cache: hazards of the code, cases per kernel, runs on the emulator, verdicts as evidence."""

from __future__ import annotations

import multiprocessing
import os
import signal
import zlib
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot.hazards import check_code
from aot.runtime.device import EmulatorDevice
from aot.runtime.plan import make_plan
from aot.runtime.problem_text import problem_text
from aot.verification.edge_case import EdgeCase
from aot.verification.evidence import ERROR, RIGHT, WRONG
from aot.verification.kernel_cases import Launcher, kernel_cases
from aot.verification.run_case import CaseResult, run_case
from aot.verification.run_reduce import run_reduce
from cache_schema.cache_reader import Cache, Entry
from cache_schema.identity import REDUCE
from cache_schema.label import encode

#: Kernels handed to a worker at a time, and chunks that wait per worker.
CHUNK_KERNELS = 4
CHUNKS_PER_WORKER = 2
#: So few are verified in this process: starting others would take longer.
FEW_KERNELS = 8

Verdict = dict[str, Any]
#: Entries that share a code object.
Group = tuple[int, ...]
_Chunk = tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What every worker knows. Without `cases` each kernel gets those of its edges; `static` runs none."""

    cache: Path
    cases: tuple[EdgeCase, ...] | None
    engine: str
    seed: int
    static: bool = False


def verify_groups(task: Task, groups: Sequence[Group], jobs: int) -> Iterator[Verdict]:
    """One verdict per code object, as they come, from as many processes as there are jobs, or this one for a few.

    A worker that dies takes only the kernel with it that it worked on; that kernel's verdict is an error.
    """
    if len(groups) <= FEW_KERNELS:
        with Cache.open(task.cache) as cache:
            for group in groups:
                yield verify_group(task, cache, group)
        return
    chunks = [tuple(groups[i : i + CHUNK_KERNELS]) for i in range(0, len(groups), CHUNK_KERNELS)]
    while chunks:
        lost, chunks = yield from _in_processes(task, chunks, jobs)
        for group in lost:
            yield _alone(task, group)


def verify_group(task: Task, cache: Cache, group: Group) -> Verdict:
    """The verdict of one code object for all identities that share it; whatever goes wrong is part of it."""
    entries = [cache.entry(number) for number in group]
    record = _verdict(entries, RIGHT, "")
    worst_use = 0.0
    try:
        hazards = check_code(cache.code_object(group[0]), entries[0].block_size)
        if hazards:
            more = f" and {len(hazards) - 1} more" if len(hazards) > 1 else ""
            record.update(verdict=WRONG, message=f"hazard: {hazards[0]}{more}")
            record["hazards"] = [finding.to_json() for finding in hazards]
        if hazards or task.static:
            return record
        launcher = Launcher(cache)
        for entry, case in kernel_cases(entries, task.cases, launcher):
            devices = _devices(task, entries[0], case)
            if entry.identity.algorithm == REDUCE:
                result = run_reduce(case, entry, devices, launcher.code, task.seed)
            else:
                plan = make_plan(entry, case.problem, launcher.options(entry, case))
                result = run_case(case, plan, devices, launcher.code, task.seed)
            record["cases"].append(result.to_json())
            record["instructions"] += result.instructions
            worst_use = max(worst_use, result.comparison.worst_use)
            if result.failure and record["verdict"] == RIGHT:
                record.update(verdict=WRONG, message=f"{case.name}: {result.failure}", **_reproduce(result))
                record["label"] = encode(entry.identity)
    except Exception as error:  # one kernel's trouble must not end the night's run
        record.update(verdict=ERROR, message=f"{type(error).__name__}: {error}")
    record["use"] = float(f"{worst_use:.2g}")
    return record


def _devices(task: Task, entry: Entry, case: EdgeCase) -> tuple[EmulatorDevice, EmulatorDevice]:
    """The devices of one case: the second, for cases that repeat, reads the range check of buffers the other way."""
    counts = scalar_counts_first(entry, case)
    first = EmulatorDevice(task.seed, task.engine, scalar_counts=counts)
    return first, EmulatorDevice(task.seed + 1, task.engine, scalar_counts=not counts)


def scalar_counts_first(entry: Entry, case: EdgeCase) -> bool:
    """Which reading of the range check comes first, drawn from code and problem.

    So about half the edges of a kernel meet either, every edge meets both in some kernel, and a problem that is run by
    itself meets the same again.
    """
    drawn = f"{entry.blob_digest} {problem_text(case.problem)} {case.inputs}"
    return zlib.crc32(drawn.encode()) % 2 == 0


def _verdict(entries: Sequence[Entry], verdict: str, message: str) -> Verdict:
    return {
        "code": entries[0].blob_digest,
        "digests": [entry.digest.hex() for entry in entries],
        "label": encode(entries[0].identity),
        "verdict": verdict,
        "message": message,
        "cases": [],
        "instructions": 0,
        "use": 0.0,
    }


def _reproduce(result: CaseResult) -> dict[str, Any]:
    """How to see it again."""
    case, told = result.case, result.to_json()
    return {"failing": {"problem": told["problem"], "inputs": case.inputs, "seed": result.seed, "degree": case.degree}}


class _Worker:
    """State of a worker process."""

    task: Task
    cache: Cache


def _start_worker(task: Task) -> None:
    # Ctrl-C is for the parent, which keeps what is proven.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker.task, _Worker.cache = task, Cache.open(task.cache)


def _work(chunk: _Chunk) -> list[Verdict]:
    return [verify_group(_Worker.task, _Worker.cache, group) for group in chunk]


def _pool(task: Task, jobs: int) -> ProcessPoolExecutor:
    # Not forked: the parent's heap and threads stay out of the workers. They inherit the environment: one thread each
    # for the reference's matrix products, as there is a worker per core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(task,))


def _in_processes(
    task: Task, chunks: Sequence[_Chunk], jobs: int
) -> Generator[Verdict, None, tuple[list[Group], list[_Chunk]]]:
    """Verdicts of all chunks. When a worker dies: the groups that were worked on, and the chunks that still wait."""
    waiting = list(reversed(chunks))
    running: dict[Future[list[Verdict]], _Chunk] = {}
    pool = _pool(task, min(jobs, len(chunks)))
    try:
        while waiting or running:
            while waiting and len(running) < jobs * CHUNKS_PER_WORKER:
                chunk = waiting.pop()
                running[pool.submit(_work, chunk)] = chunk
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                verdicts = future.result()
                del running[future]
                yield from verdicts
    except BrokenProcessPool:
        return [group for chunk in running.values() for group in chunk], waiting[::-1]
    finally:
        # Idle workers end at once; those of a run that is given up are not waited for.
        pool.shutdown(wait=not running, cancel_futures=True)
    return [], []


def _alone(task: Task, group: Group) -> Verdict:
    """The verdict of one code object from a process of its own."""
    with _pool(task, 1) as pool:
        try:
            return pool.submit(_work, (group,)).result()[0]
        except BrokenProcessPool:
            with Cache.open(task.cache) as cache:
                entries = [cache.entry(number) for number in group]
                return _verdict(entries, ERROR, "the process that emulated it died")
