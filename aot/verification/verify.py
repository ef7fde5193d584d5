"""Verify the kernels of a cache: cases per kernel, runs on the emulator, verdicts as evidence."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.runtime.device import EmulatorDevice
from aot.runtime.plan import make_plan
from aot.runtime.plan_data import PlanError
from aot.runtime.plan_wgrad import AUTOMATIC_DEGREE, WgradOptions
from aot.verification.edge_case import EdgeCase
from aot.verification.edges import edge_cases
from aot.verification.evidence import ERROR, RIGHT, WRONG
from aot.verification.problem_file import served_cases
from aot.verification.run_case import CaseResult, run_case
from cache_schema.cache_reader import Cache, Entry
from cache_schema.identity import REDUCE, Identity
from cache_schema.label import encode
from cache_schema.table import IdentityTable

#: Entries handed to a worker at a time, and chunks that wait per worker.
CHUNK_ENTRIES = 4
CHUNKS_PER_WORKER = 2
#: So few are verified in this process: starting others would take longer.
FEW_ENTRIES = 8

Verdict = dict[str, Any]
_Chunk = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What every worker knows. Without `cases` each kernel gets those of its edges."""

    cache: Path
    cases: tuple[EdgeCase, ...] | None
    engine: str
    seed: int


def verify_entries(task: Task, entries: Sequence[int], jobs: int) -> Iterator[Verdict]:
    """One verdict per entry, as they come, from as many processes as there are jobs, or this one for a few.

    A worker that dies takes only the kernel with it that it worked on; that kernel's verdict is an error.
    """
    if len(entries) <= FEW_ENTRIES:
        with Cache.open(task.cache) as cache:
            for number in entries:
                yield verify_entry(task, cache, number)
        return
    chunks = [tuple(entries[i : i + CHUNK_ENTRIES]) for i in range(0, len(entries), CHUNK_ENTRIES)]
    while chunks:
        lost, chunks = yield from _in_processes(task, chunks, jobs)
        for number in lost:
            yield _alone(task, number)


def verify_entry(task: Task, cache: Cache, number: int) -> Verdict:
    """The verdict of one entry; whatever goes wrong is part of it."""
    entry = cache.entry(number)
    record = _verdict(entry, RIGHT, "")
    devices = (EmulatorDevice(task.seed, task.engine), EmulatorDevice(task.seed + 1, task.engine))
    try:
        launched = _launched(cache, number)
        codes = {entry.blob_digest: cache.code_object(number), launched.blob_digest: _code(cache, launched)}

        def helper(identity: Identity) -> Entry | None:
            found = cache.find_identity(identity)
            if found is None:
                return None
            step = cache.entry(found)
            codes[step.blob_digest] = cache.code_object(found)
            return step

        table = IdentityTable.from_identities([launched.identity])
        cases = edge_cases(launched.identity) if task.cases is None else served_cases(task.cases, table)
        for case in cases:
            options = WgradOptions(case.split_k if launched.identity.split_k > 1 else AUTOMATIC_DEGREE, helper=helper)
            plan = make_plan(launched, case.problem, options)
            result = run_case(case, plan, devices, codes.__getitem__, task.seed)
            record["cases"].append(result.to_json())
            if result.failure and record["verdict"] == RIGHT:
                record.update(verdict=WRONG, message=f"{case.name}: {result.failure}", **_reproduce(result))
    except Exception as error:  # one kernel's trouble must not end the night's run
        record.update(verdict=ERROR, message=f"{type(error).__name__}: {error}")
    return record


def _launched(cache: Cache, number: int) -> Entry:
    """The kernel whose plans an entry is verified by: itself, or for a second stage the first that needs it."""
    entry = cache.entry(number)
    if entry.identity.algorithm != REDUCE:
        return entry
    columns = cache.table.columns
    users = np.flatnonzero(columns["two_stage"] & (columns["ws_replicas"] == entry.identity.ws_replicas))
    if not len(users):
        raise PlanError("no two-stage kernel of the cache needs it")
    return cache.entry(int(users[0]))


def _code(cache: Cache, entry: Entry) -> bytes:
    number = cache.find(entry.digest)
    assert number is not None
    return cache.code_object(number)


def _verdict(entry: Entry, verdict: str, message: str) -> Verdict:
    return {
        "digest": entry.digest.hex(),
        "label": encode(entry.identity),
        "code_object": entry.blob_digest,
        "verdict": verdict,
        "message": message,
        "cases": [],
    }


def _reproduce(result: CaseResult) -> dict[str, Any]:
    return {"failing": {"problem": result.to_json()["problem"], "inputs": result.inputs, "seed": result.seed}}


class _Worker:
    """State of a worker process."""

    task: Task
    cache: Cache


def _start_worker(task: Task) -> None:
    # Ctrl-C is for the parent, which keeps what is proven.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker.task, _Worker.cache = task, Cache.open(task.cache)


def _work(entries: tuple[int, ...]) -> list[Verdict]:
    return [verify_entry(_Worker.task, _Worker.cache, number) for number in entries]


def _pool(task: Task, jobs: int) -> ProcessPoolExecutor:
    # Not forked: the parent's heap and threads stay out of the workers. They inherit the environment: one thread each
    # for the reference's matrix products, as there is a worker per core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(task,))


def _in_processes(
    task: Task, chunks: Sequence[_Chunk], jobs: int
) -> Generator[Verdict, None, tuple[list[int], list[_Chunk]]]:
    """Verdicts of all chunks. When a worker dies: the entries that were worked on, and the chunks that still wait."""
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
        return [number for chunk in running.values() for number in chunk], waiting[::-1]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return [], []


def _alone(task: Task, number: int) -> Verdict:
    """The verdict of one entry from a process of its own."""
    with _pool(task, 1) as pool:
        try:
            return pool.submit(_work, (number,)).result()[0]
        except BrokenProcessPool:
            with Cache.open(task.cache) as cache:
                return _verdict(cache.entry(number), ERROR, "the process that emulated it died")
