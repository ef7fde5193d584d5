"""One verification: which kernels, which problems, what came of it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aot.inspection.resolve import resolve
from aot.runtime.problem_text import problem_text
from aot.toolchain.disassemble import find_disassembler
from aot.verification.edge_case import EdgeCase
from aot.verification.edges import EDGES
from aot.verification.evidence import SUFFIX, Evidence
from aot.verification.evidence_format import RIGHT as VERDICT_RIGHT
from aot.verification.evidence_format import Conditions, Head
from aot.verification.evidence_reading import default_path
from aot.verification.memory import bytes_to_have, peak_bytes, room_for
from aot.verification.problem_file import SKIPPED, Decision, decide
from aot.verification.verifier import VERIFIER
from aot.verification.verify import Group, Task, Verdict, verify_groups
from aot.workers.admission import WORKER_BYTES
from cache_schema.cache_check import sealed_sha256
from cache_schema.cache_reader import Cache
from cache_schema.errors import RequestError
from cache_schema.problem_parse import load_problem_file
from cache_schema.table import IdentityTable
from grids.catalogue import buildable
from grids.selection import in_shard, spread


@dataclass(frozen=True)
class VerifyRequest:
    """What to verify.

    Entries: those of `identities` (labels or digests), else all of the shard, of which `sample` spreads a number over
    all axes. Problems: `cases`, else those of `problems`, else the edges of each kernel. `evidence` is where verdicts
    are kept; None keeps none. `strict` excuses no problem of a file that is not served. `static` looks for hazards of
    the code and runs nothing.
    """

    cache: Path
    identities: tuple[str, ...] = ()
    sample: int | None = None
    shard: tuple[int, int] = (1, 1)
    cases: tuple[EdgeCase, ...] | None = None
    problems: Path | None = None
    engine: str = "llvm"
    seed: int = 1
    jobs: int = 1
    evidence: Path | None = None
    strict: bool = False
    static: bool = False


@dataclass
class VerifySummary:
    """Counts of kernels, one per identity, and everything that is not right."""

    cache: str
    evidence: str | None
    strict: bool = False
    static: bool = False
    entries: int = 0
    code_objects: int = 0
    right: int = 0
    wrong: int = 0
    error: int = 0
    reused: int = 0  #: of `right`, those that earlier evidence shows
    without_cases: int = 0  #: of `right`, those that serve none of the problems, or none that can be judged
    runs: int = 0
    unjudged: int = 0  #: of `runs`, those whose bound is wider than their results
    instructions: int = 0
    seconds: float = 0.0
    failures: list[Verdict] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    kernels_per_problem: dict[str, int] = field(default_factory=dict)

    @property
    def delivered(self) -> bool:
        """Whether all that was asked for is shown to be right."""
        problems_fail = any(decision.fails(self.strict) for decision in self.decisions)
        return not (self.wrong or self.error or problems_fail) and self.without_cases < max(self.entries, 1)

    @property
    def kernels_per_second(self) -> float:
        """Code objects of this run."""
        return self.code_objects / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        record = asdict(self)
        record["decisions"] = [
            {
                "id": d.id,
                "status": d.status,
                "excuse": d.excuse,
                "fails": d.fails(self.strict),
                "reason": d.reason,
                "kernels": self.kernels_per_problem.get(d.id, 0),
            }
            for d in self.decisions
        ]
        del record["kernels_per_problem"]
        record["failures"] = [{k: v for k, v in f.items() if k != "cases"} for f in self.failures]
        return {**record, "seconds": round(self.seconds, 3), "delivered": self.delivered} | (
            {"kernels_per_second": round(self.kernels_per_second, 1)} if self.static else {}
        )


def evidence_path(cache: Path, problems: Path | None) -> Path:
    """Where the evidence goes unless told otherwise: beside the cache, one file per file of problems."""
    return default_path(cache) if problems is None else cache.parent / f"{cache.name}.{problems.stem}{SUFFIX}"


def verify(request: VerifyRequest, watch: Callable[[int, VerifySummary], None]) -> VerifySummary:
    """Run it all; `watch` is told the number of verdicts still to come, and the counts so far, at every verdict.

    Raises RequestError for a request without kernels or a problem that memory does not hold, ToolchainMissingError
    where nothing disassembles, and what opening the files raises.
    """
    started = time.monotonic()
    room = bytes_to_have()
    _refuse_too_large(request.cases or (), room)
    summary = VerifySummary(str(request.cache), str(request.evidence) if request.evidence else None)
    with Cache.open(request.cache) as cache:
        sealed_sha256(cache)  # earlier evidence says nothing of a file that was damaged since
        entries = _entries(cache, request)
        cases = request.cases
        problems = EDGES
        # A kernel that was wanted and could not be built is no excuse.
        failed = any(kind.failure for kind, _ in cache.outcome_counts())
        summary.strict, summary.static = request.strict or failed, request.static
        if request.problems is not None:
            problems = hashlib.sha256(request.problems.read_bytes()).hexdigest() if request.problems.is_file() else ""
            table = cache.table.take(np.array(entries))
            whole = _grid(cache.arch, cache.dtype)
            summary.decisions = decide(load_problem_file(request.problems), table, cache.dtype, whole)
            summary.decisions = [_within(decision, room) for decision in summary.decisions]
            cases = tuple(decision.case for decision in summary.decisions if decision.case is not None)
        head = Head(cache.seal, cache.arch, cache.dtype)
        conditions = Conditions(VERIFIER, request.engine, request.seed, problems)
        groups = _groups(cache, entries)
        wanted = {group: [cache.digests[number].tobytes().hex() for number in group] for group in groups}
        codes = {group: cache.entry(group[0]).blob_digest for group in groups}
    evidence = Evidence.resume(request.evidence, head, conditions) if request.evidence is not None else None
    proven = evidence.proven() if evidence else {}
    left: list[Group] = []
    summary.entries, summary.code_objects = len(entries), len(groups)
    for group in groups:
        found = proven.get(codes[group], [])
        verdict = next((v for v in found if set(wanted[group]) <= set(v["digests"])), None)
        if verdict:
            _count(summary, verdict, len(group))
        else:
            left.append(group)
    summary.reused = summary.right
    summary.runs = summary.unjudged = summary.instructions = 0  # of this run
    if left:
        find_disassembler(None)  # the emulator reads by it: better one error than one per kernel
    waiting = sum(map(len, left))
    jobs = max(1, min(request.jobs, room // (WORKER_BYTES + room_for(cases or ()))))
    task = Task(request.cache, cases, request.engine, request.seed, request.static, head.cache)
    watch(waiting, summary)
    try:
        with contextlib.closing(verify_groups(task, left, jobs)) as verdicts:
            for verdict in verdicts:
                if evidence:
                    evidence.add(verdict)
                _count(summary, verdict, len(verdict["digests"]))
                summary.seconds = time.monotonic() - started
                waiting -= len(verdict["digests"])
                watch(waiting, summary)
    finally:
        if evidence:
            evidence.settle()
    summary.failures.sort(key=lambda verdict: str(verdict["digests"]))
    summary.seconds = time.monotonic() - started
    return summary


def _refuse_too_large(cases: Sequence[EdgeCase], room: int) -> None:
    for case in cases:
        if told := _too_large(case, room):
            raise RequestError(f"problem {problem_text(case.problem)}: {told}")


def _within(decision: Decision, room: int) -> Decision:
    """The decision, unless its problem does not fit into so many bytes."""
    told = _too_large(decision.case, room) if decision.case else ""
    return replace(decision, status=SKIPPED, reason=told, case=None) if told else decision


def _too_large(case: EdgeCase, room: int) -> str:
    needed = peak_bytes(case.problem, case.inputs)
    if needed <= room:
        return ""
    return f"verifying it takes {needed / 1e9:.1f} GB of memory, and this process may have {room / 1e9:.1f} GB"


def _grid(arch: str, dtype: str) -> Callable[[str], IdentityTable]:
    """All kernels of the grid by direction, made when asked for."""

    @functools.cache
    def whole(direction: str) -> IdentityTable:
        return buildable(arch, [dtype], [direction], None, None, None)

    return whole


def _groups(cache: Cache, entries: Sequence[int]) -> list[Group]:
    """Entries by the code object that they share. Similar kernels stand together: they share problems."""
    groups: dict[int, list[int]] = {}
    for number in entries:
        groups.setdefault(cache.kernel_of(number), []).append(number)
    return [tuple(groups[kernel]) for kernel in sorted(groups)]


def _entries(cache: Cache, request: VerifyRequest) -> list[int]:
    """Numbers of the entries to verify, ascending."""
    if request.identities:
        entries = []
        for text in request.identities:
            number = cache.find_identity(resolve(cache, text))
            if number is None:
                raise RequestError(f"{cache.path} has no kernel for {text}")
            entries.append(number)
        return sorted(set(entries))
    index, count = request.shard
    if not 1 <= index <= count:
        raise RequestError(f"shard {index}/{count} does not exist; shards are 1/N to N/N")
    rows = np.flatnonzero(in_shard(cache.digests, index, count))
    if request.sample is not None and request.sample < len(rows):
        sampled = spread(cache.table.take(rows), request.sample)
        chosen = [cache.find_identity(sampled.row(i)) for i in range(len(sampled))]
        return sorted(number for number in chosen if number is not None)
    return [int(row) for row in rows]


def _count(summary: VerifySummary, verdict: Verdict, identities: int) -> None:
    setattr(summary, verdict["verdict"], getattr(summary, verdict["verdict"]) + identities)
    cases: Sequence[dict[str, Any]] = verdict["cases"]
    if verdict["verdict"] != VERDICT_RIGHT:
        summary.failures.append(verdict)
    elif not summary.static and not any(case.get("judged", True) for case in cases):
        summary.without_cases += identities
    summary.runs += len(cases)
    summary.unjudged += sum(not case.get("judged", True) for case in cases)
    summary.instructions += verdict["instructions"]
    for case in cases:
        summary.kernels_per_problem[case["name"]] = summary.kernels_per_problem.get(case["name"], 0) + 1
