"""Every identity of the grids has a label and a digest of its own, and the label leads back to it."""

from __future__ import annotations

import numpy as np
import pytest

from cache_schema.digest import table_digests
from cache_schema.label import decode, encode
from cache_schema.table import IdentityTable
from grids.catalogue import open_catalogue

ARCHES = ("gfx942", "gfx950")


def _candidates(arch: str) -> IdentityTable:
    return open_catalogue(arch, ["bf16"]).buildable()


@pytest.mark.parametrize("arch", ARCHES)
def test_digests_are_distinct(arch: str) -> None:
    """No two identities of a catalogue share a digest."""
    digests = table_digests(_candidates(arch))
    assert len(digests) > 10_000
    assert len(np.unique(digests.view("V20"))) == len(digests)


@pytest.mark.parametrize("arch", ARCHES)
def test_labels_lead_back(arch: str) -> None:
    """A sample over the whole catalogue survives encode and decode, each under a label of its own."""
    _round_trip(_candidates(arch), every=41)


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHES)
def test_all_labels_lead_back(arch: str) -> None:
    """Every identity of the catalogue does."""
    _round_trip(_candidates(arch), every=1)


def _round_trip(table: IdentityTable, every: int) -> None:
    labels = set()
    rows = range(0, len(table), every)
    for row in rows:
        identity = table.row(row)
        label = encode(identity)
        assert decode(label) == identity
        labels.add(label)
    assert len(labels) == len(rows)
