"""What a build knows: for each requested identity its content key, for each key its code object or why there is none.

It answers the workers' claims, so that every key is compiled once over the whole build, and writes all news to the
store. Which identity of a key counts as built and which as its duplicates follows from the digests, not from who was
first: rows are in digest order, and the first row of a key is the built one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.farm.progress import Counts
from aot.farm.results import Compiled, Emission, Failure, Lapse, StoredCode, UnitResult
from aot.farm.store import Store
from aot.workers.pool import Lost
from cache_schema.arguments import ArgumentList
from cache_schema.errors import DeliveryError
from cache_schema.outcome import OutcomeKind

_UNKNOWN = -1
# When the machine has failed so many kernels and built none, it will build none.
_HOPELESS = 32
_KIND_OF_LOSS = {
    Lost.DIED: OutcomeKind.FAILED,
    Lost.RAISED: OutcomeKind.FAILED,
    Lost.TIMED_OUT: OutcomeKind.TIMED_OUT,
    Lost.KILLED: OutcomeKind.DISTURBED,
}


@dataclass(slots=True)
class Kernel:
    """One distinct content key. At most one of `code` and `lapse` is set; with neither it is still to be compiled."""

    key: bytes
    emission: Emission | None = None  # None while nothing but code of an earlier run has the key
    claimant: int = _UNKNOWN  # the row whose worker compiles it
    code: StoredCode | None = None
    lapse: Lapse | None = None
    fresh: bool = False  # compiled by this run


class Collector:
    """Rows are numbers of the requested identities, in digest order."""

    def __init__(self, digests: npt.NDArray[np.uint8], known: Callable[[bytes], StoredCode | None]) -> None:
        """`digests` has shape (rows, 20); `known` finds a key in the cache file of the last build."""
        self.digests = digests
        self.kernels: list[Kernel] = []
        self.kernel_of = np.full(len(digests), _UNKNOWN, np.int32)
        self.seconds: Counter[str] = Counter()
        self.counts = Counts(total=len(digests))
        self._lapse_of: dict[int, Lapse] = {}  # of rows whose key is unknown or cannot be trusted
        self._known = known
        self._number_of: dict[bytes, int] = {}
        self._argument_lists: dict[ArgumentList, ArgumentList] = {}
        self._store: Store | None = None

    # -- what earlier runs knew

    def recall_code(self, key: bytes, code: StoredCode) -> None:
        """A key is compiled, whoever asks for it later."""
        kernel = self.kernels[self._number(key)]
        kernel.code, kernel.lapse = code, None

    def recall_emission(self, row: int, emission: Emission) -> None:
        """A row's key is known without emitting it again."""
        self._assign(row, emission)

    def recall_lapse(self, row: int, key: bytes, lapse: Lapse) -> None:
        """A row failed before; by its key's fault, or its own when `key` is empty."""
        if not key:
            self._lapse_of[row] = lapse
        elif self.kernels[self._number(key)].code is None:
            self.kernels[self._number(key)].lapse = lapse

    def pending(self) -> npt.NDArray[np.int64]:
        """Rows to hand out: those without a known key, and of each key with neither code nor lapse the first."""
        wanted = self.kernel_of == _UNKNOWN
        missing = np.array([k.code is None and k.lapse is None for k in self.kernels], dtype=bool)
        first = self.first_rows()
        wanted[first[missing & (first < len(self.digests))]] = True
        wanted[list(self._lapse_of)] = False
        return np.flatnonzero(wanted)

    def first_rows(self) -> npt.NDArray[np.int64]:
        """For each kernel the smallest row that has it; the number of rows where none has."""
        first = np.full(len(self.kernels), len(self.digests), np.int64)
        rows = np.flatnonzero(self.kernel_of != _UNKNOWN)
        np.minimum.at(first, self.kernel_of[rows], rows)
        return first

    # -- what the workers say

    def write_to(self, store: Store) -> None:
        """From now on news go to the store."""
        self._store = store

    def on_claim(self, row: int, value: Any) -> bool:
        """A worker has emitted a kernel: may it compile it?"""
        emission: Emission = value
        first_time = self.kernel_of[row] == _UNKNOWN
        if first_time:
            self._assign(row, emission)
        kernel = self.kernels[self.kernel_of[row]]
        if kernel.emission != emission:
            # The same identity with another key, or the same key with other arguments.
            self._settle_row(row, Lapse(OutcomeKind.FAILED, "emission: the emitter contradicts itself"))
            return False
        if first_time and self._store:
            self._store.put_emission(self.digests[row].tobytes(), emission)
        if kernel.code is None and kernel.lapse is None and kernel.claimant in (_UNKNOWN, row):
            kernel.claimant = row
            return True
        self._count(kernel)
        return False

    def on_result(self, row: int, value: Any) -> None:
        """A worker is done with a row."""
        result: UnitResult = value
        self.seconds.update(result.seconds)
        match result.made:
            case Compiled() if self._store:
                kernel = self.kernels[self.kernel_of[row]]
                kernel.code = self._store.put_code(kernel.key, result.made)
                kernel.fresh = True
                self.counts.built += 1
            case Failure(stage, message, passing):
                kind = OutcomeKind.DISTURBED if passing else OutcomeKind.FAILED
                self._lapse(row, Lapse(kind, f"{stage}: {message}"))

    def on_lost(self, row: int, kind: Lost, message: str) -> None:
        """A worker died on a row, or was ended."""
        self._lapse(row, Lapse(_KIND_OF_LOSS[kind], message))

    # -- what came of it

    def lapses(self) -> Iterator[tuple[int, Lapse]]:
        """Every row without code, in order, and why."""
        numbers = [number for number, kernel in enumerate(self.kernels) if kernel.lapse]
        rows = set(np.flatnonzero(np.isin(self.kernel_of, numbers)).tolist())
        for row in sorted(rows | self._lapse_of.keys()):
            lapse = self._lapse_of.get(row) or self.kernels[self.kernel_of[row]].lapse
            assert lapse is not None
            yield row, lapse

    def delivered(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows that have code."""
        has_code = np.array([*(kernel.code is not None for kernel in self.kernels), False])
        mask = has_code[self.kernel_of]  # an unknown kernel is the last element
        mask[list(self._lapse_of)] = False
        return mask

    def recount(self) -> Counts:
        """The exact counts of this moment. Between two calls `counts` is what has been seen going by."""
        fresh = np.array([*(kernel.fresh for kernel in self.kernels), False])[self.kernel_of]
        delivered = self.delivered()
        kinds = Counter(lapse.kind for _, lapse in self.lapses())
        built = len(np.unique(self.kernel_of[fresh & delivered]))
        self.counts = Counts(
            total=len(self.digests),
            built=built,
            duplicates=int(np.count_nonzero(fresh & delivered)) - built,
            reused=int(np.count_nonzero(delivered & ~fresh)),
            failed=kinds[OutcomeKind.FAILED],
            timed_out=kinds[OutcomeKind.TIMED_OUT],
            disturbed=kinds[OutcomeKind.DISTURBED],
        )
        return self.counts

    def _lapse(self, row: int, lapse: Lapse) -> None:
        """No code for this row: its key's fault where the row was to compile it, else its own."""
        kernel = self.kernels[self.kernel_of[row]] if self.kernel_of[row] != _UNKNOWN else None
        if kernel is None:
            self._settle_row(row, lapse)
        elif kernel.claimant == row:
            kernel.lapse = lapse
            self._put_failure(row, kernel.key, lapse)

    def _settle_row(self, row: int, lapse: Lapse) -> None:
        self._lapse_of[row] = lapse
        self._put_failure(row, b"", lapse)

    def _put_failure(self, row: int, key: bytes, lapse: Lapse) -> None:
        match lapse.kind:
            case OutcomeKind.TIMED_OUT:
                self.counts.timed_out += 1
            case OutcomeKind.DISTURBED:
                self.counts.disturbed += 1
            case _:
                self.counts.failed += 1
        if self._store:
            self._store.put_failure(self.digests[row].tobytes(), key, lapse)
        if self.counts.disturbed >= _HOPELESS and not (self.counts.built or self.counts.reused):
            raise DeliveryError(f"this machine compiles nothing: {lapse.detail}; the same command tries again")

    def _count(self, kernel: Kernel) -> None:
        """A row goes by whose key somebody else has."""
        if kernel.lapse:
            self.counts.failed += 1
        elif kernel.code and not kernel.fresh:
            self.counts.reused += 1
        else:
            self.counts.duplicates += 1

    def _number(self, key: bytes) -> int:
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self.kernels)
            self.kernels.append(Kernel(key, code=self._known(key)))
        return number

    def _assign(self, row: int, emission: Emission) -> None:
        number = self._number(emission.key)
        if self.kernels[number].emission is None:
            # Few argument lists serve all kernels; every message brings a copy of its own.
            shared = self._argument_lists.setdefault(emission.arguments, emission.arguments)
            self.kernels[number].emission = replace(emission, arguments=shared)
        self.kernel_of[row] = number
