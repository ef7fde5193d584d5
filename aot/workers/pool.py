"""Warm workers over chunks of rows: hands out work, answers claims, and survives workers that die or hang.

What a worker is doing is always known: it works through its rows in order and reports each. So when it dies or runs
over the time limit, only the row at the head is lost and the rest of its chunk goes to another worker.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from aot.workers.admission import WORKER_BYTES
from aot.workers.child import OWN_SIGNALS, lacks_memory
from aot.workers.interrupt import StopFlag
from aot.workers.process import WorkerProcess, describe_status, start_worker
from cache_schema.errors import DeliveryError

# A chunk costs about a millisecond to hand out and 32 kernels are a second of work; short chunks at the end keep
# all workers busy.
_LONGEST_CHUNK = 32
_CHUNKS_PER_WORKER = 4
# How long the parent sleeps when nothing happens; bounds the delay of Ctrl-C and of the time limit.
_TICK_SECONDS = 0.2
# Importing everything on a cold disk takes seconds; a worker that is not up after this never will be.
_START_SECONDS = 120.0
# When this many workers die before any kernel succeeds, the toolchain is broken and not a kernel.
_HOPELESS_DEATHS = 8
# A worker that has hung up is about to end, and how it ends is worth waiting for; one that does not is killed.
_LAST_WORDS_SECONDS = 5.0

Claim = Callable[[int, Any], bool]
UnitFunction = Callable[[Any, Claim], Iterable[tuple[int, Any]]]


class Lost(StrEnum):
    """Why a row has no result."""

    DIED = "died"
    KILLED = "killed"  # from outside, or for want of memory
    TIMED_OUT = "timed_out"
    RAISED = "raised"


class Listener(Protocol):
    """Who asked for the work. Called in the parent, one call at a time."""

    def on_claim(self, row: int, value: Any) -> bool: ...

    def on_result(self, row: int, value: Any) -> None: ...

    def on_lost(self, row: int, kind: Lost, message: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Work:
    """Rows to work on, and how a chunk of them becomes what the unit function takes."""

    function: UnitFunction
    payload_of: Callable[[Sequence[int]], Any]
    rows: Sequence[int]


@dataclass(slots=True)
class _Worker:
    process: WorkerProcess
    deadline: float
    ready: bool = False
    rows: deque[int] = field(default_factory=deque)  # handed out and not yet reported, in working order
    busy: bool = True  # until ready, and from a chunk's start to its "done"


class Pool:
    """Up to `workers` processes, started when there is work and kept warm until the pool is closed."""

    def __init__(
        self,
        workers: int,
        *,
        time_limit: float,
        stop: StopFlag | None = None,
        memory_limit: int | None = None,
        worker_bytes: int = WORKER_BYTES,
    ) -> None:
        """`time_limit` in seconds of wall time per row, `memory_limit` in bytes of a worker's own data.

        A worker that holds more than `worker_bytes` when it is done with a chunk is replaced.
        """
        self._worker_bytes = worker_bytes
        self._limit = workers
        self._time_limit = time_limit
        self._memory_limit = memory_limit
        self._stop = stop or StopFlag()
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._deaths = 0
        self._results = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        return self._limit

    def close(self) -> None:
        """End every worker at once; they hold nothing that the parent does not have."""
        while self._workers:
            self._forget(self._workers[-1])
        self._selector.close()

    def run(self, work: Work, listener: Listener, tick: Callable[[], None] = lambda: None) -> None:
        """Bring every row to a result or a loss.

        Raises BuildInterruptedError when told to stop, DeliveryError when workers cannot work at all.
        """
        for _ in self.steps(work, listener):
            tick()

    def steps(self, work: Work, listener: Listener) -> Iterator[None]:
        """The same, step by step: comes back a few times a second, and after every news."""
        queue = _Queue(work.rows)
        while True:
            self._stop.check()
            self._hand_out(work, queue)
            if not any(worker.busy for worker in self._workers):
                return
            for selected, _ in self._selector.select(_TICK_SECONDS):
                self._receive(selected.data, queue, listener)
            self._enforce_limits(queue, listener)
            yield

    def _hand_out(self, work: Work, queue: _Queue) -> None:
        idle = [w for w in self._workers if not w.busy]
        starting = sum(not w.ready for w in self._workers)
        wanted = min(self._limit - len(self._workers), queue.chunks(self._limit) - len(idle) - starting)
        for _ in range(wanted):
            try:
                worker = _Worker(start_worker(self._memory_limit), time.monotonic() + _START_SECONDS)
            except OSError as error:
                if not self._workers:
                    raise DeliveryError(f"cannot start a worker: {error.strerror or error}") from error
                self._limit = len(self._workers)  # those that are there do the work
                break
            self._workers.append(worker)
            self._selector.register(worker.process.connection, selectors.EVENT_READ, worker)
        for worker in idle:
            rows = queue.take(self._limit)
            if not rows:
                return
            worker.rows.extend(rows)
            worker.busy = True
            worker.deadline = time.monotonic() + _START_SECONDS + self._time_limit
            with contextlib.suppress(ConnectionError):  # it died while it was idle, and is buried when that is read
                worker.process.connection.send(("run", work.function, work.payload_of(rows)))

    def _receive(self, worker: _Worker, queue: _Queue, listener: Listener) -> None:
        try:
            message = worker.process.connection.recv()
            match message:
                case ("claim", row, value):
                    worker.process.connection.send(listener.on_claim(row, value))
                case ("begun",):
                    worker.deadline = time.monotonic() + self._time_limit
                case ("result", row, value):
                    worker.rows.popleft()
                    worker.deadline = time.monotonic() + self._time_limit
                    self._results += 1
                    listener.on_result(row, value)
                case ("raised", text):
                    self._lose_head(worker, queue, listener, Lost.RAISED, text)
                case ("done", resident_bytes):
                    self._lose_head(worker, queue, listener, Lost.RAISED, "the unit function reported nothing")
                    worker.busy = False
                    if resident_bytes > self._worker_bytes:
                        self._forget(worker)
                case ("ready",):
                    worker.ready, worker.busy = True, False
                case ("broken", text):
                    raise DeliveryError(f"a worker cannot run its task: {text}")
        except (EOFError, ConnectionError):
            self._bury(worker, queue, listener)

    def _bury(self, worker: _Worker, queue: _Queue, listener: Listener) -> None:
        """A worker died by itself: blame the row at its head, unless it was killed from outside for the first time."""
        self._forget(worker, _LAST_WORDS_SECONDS)
        status, words = worker.process.status, worker.process.last_words
        reason = f"worker died: {describe_status(status)}" + (f": {words}" if words else "")
        self._deaths += 1
        if not worker.ready or (self._deaths >= _HOPELESS_DEATHS and not self._results):
            raise DeliveryError(f"workers do not come up: {reason}; see `rocke-aot doctor`")
        # SIGKILL is how the kernel's memory killer ends a process, and it may have picked an innocent one.
        if status == -signal.SIGKILL and worker.rows and queue.put_alone(worker.rows[0]):
            worker.rows.popleft()
            queue.put_back(worker.rows)
            return
        killed = (status < 0 and -status not in OWN_SIGNALS) or lacks_memory(words)
        self._lose_head(worker, queue, listener, Lost.KILLED if killed else Lost.DIED, reason)

    def _enforce_limits(self, queue: _Queue, listener: Listener) -> None:
        now = time.monotonic()
        for worker in [w for w in self._workers if w.busy and now > w.deadline]:
            if worker.process.connection.poll():  # it has reported; the parent was the slow one
                continue
            self._forget(worker)
            if not worker.ready:
                words = worker.process.last_words
                raise DeliveryError(f"a worker did not start within {_START_SECONDS:.0f} s: {words}")
            self._lose_head(worker, queue, listener, Lost.TIMED_OUT, f"took longer than {self._time_limit:g} s")

    @staticmethod
    def _lose_head(worker: _Worker, queue: _Queue, listener: Listener, kind: Lost, message: str) -> None:
        """Report the row that the worker was on, if any, and give the rest of its chunk to others."""
        if worker.rows:
            row = worker.rows.popleft()
            queue.put_back(worker.rows)
            worker.rows.clear()
            listener.on_lost(row, kind, message)

    def _forget(self, worker: _Worker, patience: float = 0.0) -> None:
        self._selector.unregister(worker.process.connection)
        worker.process.end(patience)
        self._workers.remove(worker)


class _Queue:
    """Rows still to be handed out. Rows that came back go first."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = rows
        self._next = 0
        self._returned: deque[int] = deque()
        self._alone: deque[int] = deque()
        self._second_try: set[int] = set()

    def _left(self) -> int:
        return len(self._rows) - self._next + len(self._returned)

    def _chunk_length(self, workers: int) -> int:
        return max(1, min(_LONGEST_CHUNK, self._left() // (_CHUNKS_PER_WORKER * workers)))

    def chunks(self, workers: int) -> int:
        """How many chunks can be handed out now, at least approximately."""
        return -(-self._left() // self._chunk_length(workers)) + len(self._alone)

    def take(self, workers: int) -> list[int]:
        """The next chunk; empty when nothing is left."""
        length = self._chunk_length(workers)
        if self._returned:
            return [self._returned.popleft() for _ in range(min(length, len(self._returned)))]
        if self._next < len(self._rows):
            start, self._next = self._next, min(self._next + length, len(self._rows))
            return [int(row) for row in self._rows[start : self._next]]
        return [self._alone.popleft()] if self._alone else []

    def put_back(self, rows: Iterable[int]) -> None:
        self._returned.extend(rows)

    def put_alone(self, row: int) -> bool:
        """Keep a row for a second try as a chunk of its own at the end; False when it had that already."""
        if row in self._second_try:
            return False
        self._second_try.add(row)
        self._alone.append(row)
        return True
