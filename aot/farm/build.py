"""One command's work: enumerate, compile what is missing, and write one cache file per data type.

What need not be done again, from the cheapest down: nothing, if the file is what would be written; no emission, if
sources and toolchain are unchanged; no compilation, if the content key is known to the last cache file or to the
working store of a build that was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aot.families import known_family
from aot.farm.collector import Collector
from aot.farm.occupant import require_replaceable
from aot.farm.packing import full_ledger, pack
from aot.farm.previous import Previous
from aot.farm.progress import Progress, Silent
from aot.farm.results import Chunk, Emission, Lapse
from aot.farm.selection import GridScope, Selection, select
from aot.farm.sources import SOURCES, source_digests, unchanged
from aot.farm.store import Recovery, Store
from aot.farm.summary import CacheSummary
from aot.farm.units import build_chunk
from aot.toolchain.toolchain import Toolchain
from aot.workers.admission import WORKER_LIMIT_BYTES, admit
from aot.workers.cgroup import allowance
from aot.workers.interrupt import StopFlag
from aot.workers.pool import Pool, UnitFunction, Work
from cache_schema.cache_format import SUFFIX
from cache_schema.errors import CacheError, DeliveryError, RequestError
from cache_schema.label import encode
from cache_schema.table import FAMILY

DEFAULT_TIME_LIMIT_SECONDS = 120.0
#: A loss of power costs at most this much work; kill -9 costs none.
_SYNC_SECONDS = 15.0
_FAILURES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build, with what, and where to. `jobs` 0 means every CPU allowed."""

    scope: GridScope
    dtypes: tuple[str, ...]
    toolchain: Toolchain
    out: Path
    jobs: int = 0
    time_limit: float = DEFAULT_TIME_LIMIT_SECONDS  # seconds per kernel
    retry_failed: bool = False
    replace: bool = False  # give up kernels of the file that are not asked for
    unit: UnitFunction | None = None  # in place of `units.build_chunk`
    provenance: dict[str, Any] = field(default_factory=dict)  # what else has to be equal for files to be equal


def build(request: BuildRequest, progress: Progress | None = None, stop: StopFlag | None = None) -> list[CacheSummary]:
    """Build every data type in turn.

    Raises RequestError for a request that cannot be served, DeliveryError when nothing at all comes out,
    BuildInterruptedError when told to stop; failures of single kernels are in the summaries and in the files' ledgers.
    """
    stop, progress = stop or StopFlag(), progress or Silent()
    _make_folder(request.out)
    workers = admit(request.jobs, allowance()).workers
    try:
        with Pool(workers, time_limit=request.time_limit, stop=stop, memory_limit=WORKER_LIMIT_BYTES) as pool:
            return [_Build(request, dtype, pool, progress, stop).run() for dtype in dict.fromkeys(request.dtypes)]
    finally:
        progress.close()


def provenance_of(request: BuildRequest, families: Iterable[str]) -> dict[str, Any]:
    """What made a file with kernels of these families, as it stands in the file: equal for every machine and time."""
    toolchain = {
        "llvm": request.toolchain.llvm_version,
        "flavor": request.toolchain.flavor,
        "linker": request.toolchain.linker_version,
        "compiler_digest": request.toolchain.compiler_digest,
    }
    sources = source_digests(map(known_family, families))
    return {**request.provenance, SOURCES: sources, "toolchain": toolchain}


class _Build:
    """One cache file on its way."""

    def __init__(self, request: BuildRequest, dtype: str, pool: Pool, progress: Progress, stop: StopFlag) -> None:
        self._request, self._dtype, self._pool = request, dtype, pool
        self._progress, self._stop = progress, stop
        shard = request.scope.shard
        name = f"{request.scope.arch}-{dtype}" + (f"-{shard[0]}of{shard[1]}" if shard else "")
        self._path = request.out / f"{name}{SUFFIX}"
        self._folder = request.out / f".build-{name}"
        self._provenance: dict[str, Any] = {}
        self._summary = CacheSummary(request.scope.arch, dtype, self._path, workers=pool.size)

    def run(self) -> CacheSummary:
        """Bring the file to what was asked for, with as little work as possible."""
        started = time.perf_counter()
        selection = select(self._request.scope, self._dtype)
        self._summary.rejected, self._summary.identities = len(selection.rejected), len(selection.table)
        self._provenance = provenance_of(self._request, selection.table.family_sizes())
        self._summary.stages["enumerate"] = time.perf_counter() - started
        require_replaceable(self._path, selection.table, replace=self._request.replace)
        try:
            self._with_previous(selection)
        except CacheError as error:
            # A damaged file has nothing to say; what the working store has is kept.
            self._summary.notes.append(f"the previous cache was not used: {error}")
            self._deliver(selection, None)
        self._summary.bytes = self._path.stat().st_size
        self._summary.seconds = time.perf_counter() - started
        return self._summary

    def _with_previous(self, selection: Selection) -> None:
        if not self._path.exists():
            self._deliver(selection, None)
            return
        with closing(Previous(self._path)) as previous:
            if previous.provenance == self._provenance and previous.is_current(selection):
                self._summary.reused = len(selection.table)
                self._untouched(previous)
                self._remove_leftovers()
            else:
                self._deliver(selection, previous)

    def _deliver(self, selection: Selection, previous: Previous | None) -> None:
        collector = Collector(selection.digests, previous.code if previous else lambda _: None)
        with closing(self._open_store(selection, collector, previous)) as store:
            recalled = sum(1 for _ in collector.lapses())
            self._compile(selection, collector, store)
            counts = collector.recount()
            summary = self._summary
            summary.built, summary.duplicates, summary.reused = counts.built, counts.duplicates, counts.reused
            summary.failed, summary.timed_out, summary.disturbed = counts.failed, counts.timed_out, counts.disturbed
            advice = _advice(recalled, counts.timed_out + counts.disturbed)
            summary.notes += advice
            summary.failures = {
                encode(selection.table.row(row)): lapse.detail
                for (row, lapse), _ in zip(collector.lapses(), range(_FAILURES_SHOWN), strict=False)
            }
            summary.stages |= {**collector.seconds, "store": store.seconds}
            if not collector.delivered().any():
                first = next(iter(summary.failures.items()))
                told = f"nothing was built: {counts.settled} kernels failed, first {first[0]}: {first[1]}"
                raise DeliveryError("; ".join([told, *advice]))
            self._pack(selection, collector, store, previous)
            store.remove()

    def _open_store(self, selection: Selection, collector: Collector, previous: Previous | None) -> Store:
        """The working store, with everything that earlier runs knew told to the collector."""
        row_of = {digest.tobytes(): row for row, digest in enumerate(selection.digests)}
        keep_failures = not self._request.retry_failed
        session = {"arch": self._request.scope.arch, **self._provenance}
        family = selection.table.strings(FAMILY)
        alike: frozenset[str] = frozenset()

        def begun(theirs: dict[str, Any]) -> None:
            nonlocal alike
            alike = unchanged(session, theirs)

        def emitted(digest: bytes, emission: Emission) -> None:
            row = row_of.get(digest)
            if row is not None and family[row] in alike:
                collector.recall_emission(row, emission)

        def failed(digest: bytes, key: bytes, lapse: Lapse) -> None:
            row = row_of.get(digest)
            if row is not None and keep_failures and not lapse.kind.passing and family[row] in alike:
                collector.recall_lapse(row, key, lapse)

        if previous:
            begun({"arch": self._request.scope.arch, **previous.provenance})
            for digest, emission in previous.emissions():
                emitted(digest, emission)
            for digest, lapse in previous.lapses():
                failed(digest, b"", lapse)
        store = Store(self._folder, session, Recovery(begun, emitted, collector.recall_code, failed))
        for leftover in self._path.parent.glob(f".{self._path.name}.*.tmp"):  # of a killed writer; we have the lock
            leftover.unlink(missing_ok=True)
        collector.write_to(store)
        return store

    def _compile(self, selection: Selection, collector: Collector, store: Store) -> None:
        pending = collector.pending()
        before = collector.recount().settled
        self._progress.stage(f"{self._request.scope.arch} {self._dtype}", len(pending))
        synced = time.monotonic()

        def tick() -> None:
            nonlocal synced
            self._progress.advance(collector.counts.settled - before, collector.counts)
            if time.monotonic() - synced > _SYNC_SECONDS:
                store.sync()
                synced = time.monotonic()

        def payload_of(rows: Sequence[int]) -> Chunk:
            return Chunk(tuple(rows), selection.table.take(np.asarray(rows)), self._request.toolchain)

        started = time.perf_counter()
        if len(pending):
            self._pool.run(Work(self._request.unit or build_chunk, payload_of, pending.tolist()), collector, tick)
            store.sync()
        self._summary.stages["compile_wall"] = time.perf_counter() - started

    def _pack(self, selection: Selection, collector: Collector, store: Store, previous: Previous | None) -> None:
        if previous and self._is_current(selection, collector, previous):
            self._untouched(previous)
            return
        started = time.perf_counter()
        self._summary.sha256 = pack(
            self._path,
            (self._request.scope.arch, self._dtype),
            selection,
            collector,
            (store, previous),
            self._provenance,
            self._pool.size,
            self._stop,
        )
        self._summary.stages["pack"] = time.perf_counter() - started

    def _is_current(self, selection: Selection, collector: Collector, previous: Previous) -> bool:
        """With failures on record the file can only be compared once these are recalled."""
        digests = selection.digests[collector.delivered()]
        delivered = Selection(selection.table, digests, full_ledger(selection, collector))
        return previous.provenance == self._provenance and previous.is_current(delivered)

    def _untouched(self, previous: Previous) -> None:
        self._summary.sha256 = previous.sha256()
        self._summary.changed = False

    def _remove_leftovers(self) -> None:
        """A build that was killed after writing the file has not removed its working store."""
        if self._folder.exists():
            Store(self._folder, {}, Recovery(*[lambda *_: None] * 4)).remove()


def _advice(recalled: int, passing: int) -> list[str]:
    """What to do about failures: those `recalled` from an earlier build, and the `passing` ones of this."""
    advice = []
    if recalled:
        advice.append(f"{recalled} failed in an earlier build and were not tried again; --retry-failed tries them")
    if passing:
        advice.append(f"{passing} were lost to this machine or to the time limit; the same command tries them again")
    return advice


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"cannot write to {out}: {error.strerror}; choose another --out") from error
