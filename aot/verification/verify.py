"""Verify the kernels of a cache: hazards of the code, cases per kernel, runs on the emulator, verdicts as evidence."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from aot.families import family_of
from aot.family import Helper
from aot.hazards import check_code
from aot.inspection.load_code import load_code
from aot.runtime.emulator_device import EmulatorDevice
from aot.runtime.plan import make_plan
from aot.runtime.problem_text import problem_text
from aot.verification.edge_case import EdgeCase
from aot.verification.evidence_format import ERROR, RIGHT, WRONG
from aot.verification.kernel_cases import Launcher, kernel_cases
from aot.verification.memory import KEPT_BYTES, peak_bytes
from aot.verification.run_case import CaseResult, run_case
from aot.workers.admission import WORKER_BYTES
from aot.workers.pool import Lost, Pool, Work
from cache_schema.cache_reader import Cache, Entry
from cache_schema.errors import CacheError, DeliveryError
from cache_schema.label import encode

#: A kernel that is still run after this many seconds never ends: budgets of instructions end the slowest in minutes,
#: and a file of problems has hundreds of them at the most.
KERNEL_SECONDS = 6 * 3600.0
#: So few are verified in this process: starting others would take longer. Problems beyond these limits take seconds
#: in native code, during which this process would answer no signal.
FEW_KERNELS = 8
_QUICK_FLOPS, _QUICK_BYTES = 100_000_000, 64 << 20

Verdict = dict[str, Any]
#: Entries that share a code object.
Group = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What every worker knows. Without `cases` each kernel gets those of its edges; `static` runs none.

    `seal` is that of the cache when its entries were chosen; "" is that of whatever the file holds.
    """

    cache: Path
    cases: tuple[EdgeCase, ...] | None
    engine: str
    seed: int
    static: bool = False
    seal: str = ""


def verify_groups(task: Task, groups: Sequence[Group], jobs: int) -> Generator[Verdict, None, None]:
    """One verdict per code object, as they come, from as many processes as there are jobs, or this one for a few.

    A worker that dies or hangs takes only the kernel with it that it worked on; that kernel's verdict is an error.
    Raises DeliveryError when workers cannot work at all, or the file is replaced while they do.
    """
    if len(groups) <= FEW_KERNELS and all(map(_is_quick, task.cases or ())):
        with _open(task.cache, task.seal) as cache:
            for group in groups:
                yield verify_group(task, cache, group)
        return

    def payload_of(rows: Sequence[int]) -> Any:
        return task, tuple((row, groups[row]) for row in rows)

    verdicts = _Verdicts(task, groups)
    # They inherit the environment: one thread each for the reference's matrix products, as there is a worker per core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with Pool(jobs, time_limit=KERNEL_SECONDS, worker_bytes=WORKER_BYTES + KEPT_BYTES) as pool:
        for _ in pool.steps(Work(_work, payload_of, range(len(groups))), verdicts):
            yield from verdicts.take()
    yield from verdicts.take()


def _is_quick(case: EdgeCase) -> bool:
    return case.problem.flops <= _QUICK_FLOPS and peak_bytes(case.problem, case.inputs) <= _QUICK_BYTES


def verify_group(task: Task, cache: Cache, group: Group) -> Verdict:
    """The verdict of one code object for all identities that share it; whatever goes wrong is part of it."""
    entries = [cache.entry(number) for number in group]
    record = _verdict(entries, RIGHT, "")
    worst_use = 0.0
    try:
        hazards = check_code(load_code(cache, group[0]), entries[0].block_size)
        if hazards:
            more = f" and {len(hazards) - 1} more" if len(hazards) > 1 else ""
            record.update(verdict=WRONG, message=f"hazard: {hazards[0]}{more}")
            record["hazards"] = [finding.to_json() for finding in hazards]
        if hazards or task.static:
            return record
        launcher = Launcher(cache)
        for entry, case in kernel_cases(entries, task.cases, launcher):
            devices = _devices(task, entries[0], case)
            role = family_of(entry.identity).role
            if isinstance(role, Helper):
                result = role.run(case, entry, devices, launcher.code, task.seed)
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


def _open(path: Path, seal: str) -> Cache:
    """The cache of a task. Raises CacheError if the file is another one by now."""
    cache = Cache.open(path)
    if seal and cache.seal != seal:
        cache.close()
        raise CacheError(f"{path} was replaced while it was verified; run the same command again")
    return cache


#: For the life of a worker.
_kept_open = lru_cache(maxsize=1)(_open)


def _work(
    payload: tuple[Task, tuple[tuple[int, Group], ...]],
    claim: Callable[[int, Any], bool],  # noqa: ARG001 - of units, which may share work
) -> Iterator[tuple[int, Verdict]]:
    """A worker's unit: a row is the number of a group."""
    task, groups = payload
    cache = _kept_open(task.cache, task.seal)
    for row, group in groups:
        yield row, verify_group(task, cache, group)


class _Verdicts:
    """Takes what the workers say, as a `Listener`."""

    def __init__(self, task: Task, groups: Sequence[Group]) -> None:
        self._task, self._groups = task, groups
        self._news: list[Verdict] = []

    def take(self) -> list[Verdict]:
        """The verdicts since the last call."""
        news, self._news = self._news, []
        return news

    def on_claim(self, row: int, value: Any) -> bool:  # noqa: ARG002 - nothing is shared
        return True

    def on_result(self, row: int, value: Any) -> None:  # noqa: ARG002
        self._news.append(value)

    def on_lost(self, row: int, kind: Lost, message: str) -> None:
        """Raises DeliveryError for what is no kernel's doing: `verify_group` answers for those."""
        if kind is Lost.RAISED:
            raise DeliveryError(message)
        with _open(self._task.cache, self._task.seal) as cache:
            entries = [cache.entry(number) for number in self._groups[row]]
        self._news.append(_verdict(entries, ERROR, message))
