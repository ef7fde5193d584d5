"""Digests are stable, distinct and the same one by one and in bulk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_schema.digest import CHUNK_ROWS, DIGEST_BYTES, identity_digest, table_digests
from cache_schema.identity import Identity, axis, schema_of
from cache_schema.table import IdentityTable
from tests.cache_schema.records import Alpha, Bare, Beta
from tests.cache_schema.samples import geometry
from tests.cache_schema.strategies import STEADY, identities

ALPHA = Alpha("gfx950", "bf16", "bf16", "bf16", tile_m=128, tile_n=64, pipeline="compv4", deep=False, cpg=3)
BETA = Beta("gfx942", "fp16", "fp16", "fp32", split_k=-7)
BARE = Bare("gfx942", "fp16", "fp16", "fp16")

#: Recorded once. A digest that changes makes every cache in the field unreadable by name: bump digest.TAG instead.
GOLDEN = {
    ALPHA: "53ee31ea2582ecdfafa71f8cfb8e850ce0ed0554",
    BETA: "fbb1794775626fd385d438e06edbef06d78ecf2b",
    BARE: "b535143a148a4ad5695d34e2a9f8bbcbd81d6316",
}


def test_golden() -> None:
    """These digests never change."""
    assert {identity: identity_digest(identity).hex() for identity in GOLDEN} == GOLDEN


def _word(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


@pytest.mark.parametrize("identity", GOLDEN)
def test_record_is_as_described(identity: Identity) -> None:
    """The digest follows from the description in the module, written out here a second time."""
    parts = [b"rocke-identity-2", _word(identity.family)]
    for field in sorted(fields(identity), key=lambda field: field.name):
        value: Any = getattr(identity, field.name)
        if field.init and value != field.default:
            parts.append(_word(f"{field.name}={int(value) if isinstance(value, bool) else value}"))
    assert identity_digest(identity) == hashlib.sha256(b"".join(parts)).digest()[:20]


@settings(STEADY, max_examples=60)
@given(st.lists(identities(), max_size=5))
def test_bulk_equals_single(given_identities: list[Identity]) -> None:
    """Row i of `table_digests` is `identity_digest` of row i, whatever the identities."""
    digests = table_digests(IdentityTable.from_identities(given_identities))
    assert [bytes(row) for row in digests] == [identity_digest(identity) for identity in given_identities]


def test_bulk_over_chunks() -> None:
    """Rows on both sides of the internal chunk border get their own digest, and all digests differ."""
    table = geometry(CHUNK_ROWS + 3)
    digests = table_digests(table)
    assert digests.shape == (CHUNK_ROWS + 3, DIGEST_BYTES)
    for row in (0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 2):
        assert bytes(digests[row]) == identity_digest(table.row(row))
    assert len(np.unique(digests, axis=0)) == len(table)


@pytest.mark.parametrize("identity", GOLDEN)
def test_every_field_counts(identity: Identity) -> None:
    """Changing any one field changes the digest, and so does the family."""
    others: list[Identity] = [Bare(identity.arch, "x", "y", "z")]
    for field in schema_of(identity).fields:
        value: Any = getattr(identity, field.name)
        changed: Any = {"str": "other", "bool": value is False, "int": value if field.kind != "int" else value + 1}
        others.append(replace(identity, **{field.name: changed[field.kind]}))
    assert len({identity_digest(other) for other in [identity, *others]}) == len(others) + 1


def test_a_new_axis_changes_no_digest() -> None:
    """A field that is added with a default is in no digest until it is set; where it stands does not matter."""

    @dataclass(frozen=True, slots=True)
    class Later(Identity):
        family, direction = "beta", "wgrad"

        first: int = axis("first", 5, "new")
        pipeline: str = axis("pipe", "late", "schedule")
        zebra: bool = axis("zebra", True, "new")
        unroll_k: bool = axis("unroll", True, "two-fold")
        split_k: int = axis("sk", 2, "slices")
        epilogue: str = axis("epi", "cshuffle", "stores")

    later = Later("gfx942", "fp16", "fp16", "fp32", split_k=-7)
    assert identity_digest(later) == identity_digest(BETA)
    assert identity_digest(replace(later, first=6)) != identity_digest(BETA)
    assert identity_digest(replace(later, zebra=False)) != identity_digest(BETA)
    table = IdentityTable.from_identities([later, replace(later, first=6)])
    assert [bytes(row) for row in table_digests(table)] == [identity_digest(table.row(row)) for row in range(2)]


def test_integers_beyond_32_bits() -> None:
    """They have no digest."""
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(OverflowError):
            identity_digest(replace(ALPHA, cpg=value))
