"""The outcomes of all candidates that have no kernel in the cache, as columns, so that "why not" can be answered.

A candidate with a kernel is an entry of the cache and needs no ledger row; the cache reports it as built or duplicate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cache_schema.identity import Identity
from cache_schema.outcome import Outcome, OutcomeKind
from cache_schema.table import IdentityTable, concat, is_constant

STORED_KINDS = (OutcomeKind.REJECTED, OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.DISTURBED)


@dataclass(frozen=True, eq=False)
class Ledger:
    """Row i: candidate `table.row(i)`, its kind, its reason `reasons[reason[i]]` and, for few, `details[i]`."""

    table: IdentityTable
    kind: npt.NDArray[np.uint8]
    reason: npt.NDArray[np.int16]
    reasons: tuple[str, ...]
    details: Mapping[int, str]

    @classmethod
    def of(
        cls,
        table: IdentityTable,
        kind: OutcomeKind | npt.NDArray[np.uint8],
        reason: npt.NDArray[np.integer],
        reasons: Sequence[str],
        details: Mapping[int, str] | None = None,
    ) -> Ledger:
        """Check and bring to form; a single kind holds for all rows. Raises ValueError for kinds that have a kernel."""
        kinds = np.broadcast_to(np.asarray(kind, dtype=np.uint8), len(table))
        codes = np.asarray(reason).astype(np.int16)
        if codes.shape != (len(table),):
            raise ValueError(f"ledger: {codes.shape} reasons for {len(table)} rows")
        if not np.isin(np.unique(kinds), STORED_KINDS).all():
            raise ValueError(f"ledger: kinds must be among {[k.name for k in STORED_KINDS]}")
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(reasons):
            raise ValueError("ledger: a reason code is outside its vocabulary")
        given = dict(details or {})
        if any(not 0 <= row < len(table) for row in given):
            raise ValueError("ledger: a detail belongs to no row")
        return cls(table, kinds, codes, tuple(reasons), given)

    @classmethod
    def empty(cls) -> Ledger:
        """No rows."""
        return cls.of(IdentityTable.from_identities(()), OutcomeKind.REJECTED, np.empty(0, dtype=np.int16), ())

    def __len__(self) -> int:
        return len(self.table)

    def outcome(self, row: int) -> Outcome:
        """Outcome of one row."""
        return Outcome(OutcomeKind(int(self.kind[row])), self.reasons[int(self.reason[row])], self.details.get(row, ""))

    def find(self, identity: Identity) -> Outcome | None:
        """Outcome of this candidate, None if the ledger does not know it."""
        rows = self.table.rows_equal_to(identity)
        return self.outcome(int(rows[0])) if len(rows) else None

    def counts(self) -> dict[tuple[OutcomeKind, str], int]:
        """Rows per (kind, reason), most frequent first."""
        if not len(self):
            return {}
        both = self.kind.astype(np.int64) << 16 | self.reason.astype(np.int64)
        pairs = zip(*(column.tolist() for column in np.unique(both, return_counts=True)), strict=True)
        counter = Counter({(OutcomeKind(code >> 16), self.reasons[code & 0xFFFF]): count for code, count in pairs})
        return dict(counter.most_common())

    def canonical(self) -> Ledger:
        """The same facts in the one order that does not depend on how they were gathered.

        Rows are sorted by their fields, which also makes the columns compress to next to nothing. Raises ValueError
        when a candidate appears twice.
        """
        used = np.unique(self.reason)
        words = sorted({self.reasons[int(code)] for code in used})
        recode = np.zeros(max(len(self.reasons), 1), dtype=np.int16)
        recode[used] = [words.index(self.reasons[int(code)]) for code in used]
        # Text codes follow sorted vocabularies, so that sorting by code is sorting by text.
        table = concat([self.table])
        varying = [column for column in table.columns.values() if not is_constant(column)]
        order = np.lexsort(varying[::-1]) if varying and len(table) else np.arange(len(table))
        if len(table) > 1:
            same = np.ones(len(table) - 1, dtype=np.bool_)
            for column in varying:
                sorted_column = column[order]
                same &= sorted_column[1:] == sorted_column[:-1]
            if same.any():
                raise ValueError(f"ledger: a candidate appears twice: {table.row(int(order[np.argmax(same)]))}")
        place = np.empty(len(table), dtype=np.int64)
        place[order] = np.arange(len(table))
        details = {int(place[row]): text for row, text in self.details.items() if text}
        return Ledger(
            table.take(order), self.kind[order], recode[self.reason[order]], tuple(words), dict(sorted(details.items()))
        )


def concat_ledgers(ledgers: Sequence[Ledger]) -> Ledger:
    """All rows of all ledgers, in order."""
    filled = [ledger for ledger in ledgers if len(ledger)]
    if not filled:
        return Ledger.empty()
    reasons = sorted({reason for ledger in filled for reason in ledger.reasons})
    code = {reason: position for position, reason in enumerate(reasons)}
    details: dict[int, str] = {}
    parts, start = [], 0
    for ledger in filled:
        parts.append(np.array([code[reason] for reason in ledger.reasons], dtype=np.int16)[ledger.reason])
        details.update({start + row: text for row, text in ledger.details.items()})
        start += len(ledger)
    return Ledger.of(
        concat([ledger.table for ledger in filled]),
        np.concatenate([ledger.kind for ledger in filled]),
        np.concatenate(parts),
        reasons,
        details,
    )
