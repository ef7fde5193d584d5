"""Digests are stable, distinct and the same one by one and in bulk."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import fields, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_schema.digest import CHUNK_ROWS, DIGEST_BYTES, identity_digest, table_digests
from cache_schema.identity import Identity
from cache_schema.table import IdentityTable
from tests.cache_schema.samples import geometry
from tests.cache_schema.strategies import STEADY, identities

FORWARD = Identity(
    "gfx950", "fwd", "implicit_gemm", "bf16", "bf16", "bf16",
    tile_m=128, tile_n=128, tile_k=64, warp_m=2, warp_n=2, warp_tile_m=32, warp_tile_n=32, warp_tile_k=16,
    pipeline="compv4", epilogue="cshuffle", vector_size_a=8, vector_size_b=8, vector_size_c=8, grouped=True,
)  # fmt: skip
DIRECT = Identity(
    "gfx942", "direct_fwd", "direct_depthwise", "fp16", "fp16", "fp16",
    pipeline="direct", epilogue="direct", filter_h=3, filter_w=3, stride_h=1, stride_w=1, pad_h=1, pad_w=1,
    cpg=1, kpg=1, knobs='{"block_w":4,"block_waves":2}',
)  # fmt: skip

#: Recorded once. A digest that changes makes every cache in the field unreadable by name: bump digest.TAG instead.
GOLDEN = {
    FORWARD: "85db66b450c690770030d3f86b4eef0be837705d",
    DIRECT: "785a30a46a30fd1a11b246480c1036e4d224a60f",
}


def test_golden() -> None:
    """These digests never change."""
    assert {identity: identity_digest(identity).hex() for identity in GOLDEN} == GOLDEN


def test_record_is_as_described() -> None:
    """The digest follows from the description in the module, written out here a second time."""
    parts = [b"rocke-identity-1"]
    for field in fields(FORWARD):
        value: Any = getattr(FORWARD, field.name)
        if field.type == "str":
            parts.append(hashlib.sha256(value.encode()).digest()[:16])
        else:
            parts.append(struct.pack("<?" if field.type == "bool" else "<i", value))
    assert identity_digest(FORWARD) == hashlib.sha256(b"".join(parts)).digest()[:20]


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


def test_every_field_counts() -> None:
    """Changing any one field changes the digest."""
    others = []
    for field in fields(FORWARD):
        value: Any = getattr(FORWARD, field.name)
        changed: Any = {"str": "other", "bool": value is False, "int": value if field.type != "int" else value + 1}
        others.append(replace(FORWARD, **{field.name: changed[str(field.type)]}))
    assert len({identity_digest(identity) for identity in [FORWARD, *others]}) == len(others) + 1
