"""The ledger answers for every candidate and has one canonical form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cache_schema.ledger import Ledger, concat_ledgers
from cache_schema.outcome import Outcome, OutcomeKind
from cache_schema.table import IdentityTable, concat
from tests.cache_schema.samples import geometry, sample


def test_find_and_counts() -> None:
    """Each candidate is found with its kind, reason and detail; the counts add up."""
    ledger = sample().ledger
    for row in range(len(ledger)):
        assert ledger.find(ledger.table.row(row)) == ledger.outcome(row)
    assert ledger.outcome(0) == Outcome(OutcomeKind.FAILED, "compile", "error: no such intrinsic")
    assert ledger.find(geometry(1, 10_000).row(0)) is None
    outcomes = [ledger.outcome(row) for row in range(len(ledger))]
    assert ledger.counts() == Counter((outcome.kind, outcome.reason) for outcome in outcomes)
    assert not Ledger.empty().counts()


def test_canonical_form_does_not_depend_on_order() -> None:
    """Shuffled rows, split and joined ledgers and another reason vocabulary lead to the same columns."""
    ledger = sample().ledger
    wanted = ledger.canonical()
    random = np.random.default_rng(11)
    for _ in range(5):
        order = random.permutation(len(ledger))
        place = np.argsort(order)
        parts = []
        for rows in np.split(order, [7, 40]):
            details = {int(place[row]): text for row, text in ledger.details.items() if row in rows}
            start = int(place[rows[0]])
            parts.append(
                Ledger.of(
                    ledger.table.take(rows),
                    ledger.kind[rows],
                    ledger.reason[rows] + 1,
                    ("unused", *ledger.reasons),
                    {row - start: text for row, text in details.items()},
                )
            )
        again = concat_ledgers(parts).canonical()
        assert again.reasons == wanted.reasons
        assert again.details == wanted.details
        assert again.kind.tolist() == wanted.kind.tolist()
        assert again.reason.tolist() == wanted.reason.tolist()
        assert all((again.table.columns[n] == c).all() for n, c in wanted.table.columns.items())


def test_canonical_form_keeps_every_fact() -> None:
    """Sorting loses nothing."""
    ledger = sample().ledger
    canonical = ledger.canonical()
    assert {canonical.table.row(i): canonical.outcome(i) for i in range(len(canonical))} == {
        ledger.table.row(i): ledger.outcome(i) for i in range(len(ledger))
    }


def test_contradictions_are_refused() -> None:
    """A candidate twice, a kind that has a kernel, a reason outside the vocabulary, a detail of no row."""
    table = geometry(3)
    none = np.zeros(3, dtype=np.int16)
    twice = Ledger.of(concat([table, table]), OutcomeKind.REJECTED, np.zeros(6, dtype=np.int16), ("r",))
    with pytest.raises(ValueError, match="twice"):
        twice.canonical()
    with pytest.raises(ValueError, match="kinds"):
        Ledger.of(table, OutcomeKind.BUILT, none, ("r",))
    with pytest.raises(ValueError, match="vocabulary"):
        Ledger.of(table, OutcomeKind.REJECTED, none + 1, ("r",))
    with pytest.raises(ValueError, match="no row"):
        Ledger.of(table, OutcomeKind.FAILED, none, ("r",), {3: "x"})
    with pytest.raises(ValueError, match="reasons for"):
        Ledger.of(table, OutcomeKind.FAILED, none[:2], ("r",))


def test_single_rows() -> None:
    """Ledgers of one row and of none pass through."""
    one = Ledger.of(geometry(1), OutcomeKind.TIMED_OUT, np.zeros(1, dtype=np.int16), ("slow",), {0: "60 s"}).canonical()
    assert one.outcome(0) == Outcome(OutcomeKind.TIMED_OUT, "slow", "60 s")
    assert len(concat_ledgers([Ledger.empty(), one])) == 1
    assert len(concat_ledgers([]).canonical()) == 0
    assert len(IdentityTable.from_identities(())) == 0


def test_kinds_say_what_they_mean() -> None:
    """Every kind is delivered, a failure or a rejection, and only one of them."""
    for kind in OutcomeKind:
        assert kind.delivered + kind.failure + (kind is OutcomeKind.REJECTED) == 1
