"""Files of a release with other fields and families: what can be read is read, what cannot is refused by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cache_schema.arguments import Argument, ArgumentList
from cache_schema.cache_check import check_cache
from cache_schema.cache_reader import Cache
from cache_schema.cache_writer import write_cache
from cache_schema.digest import identity_digest
from cache_schema.errors import CacheError
from cache_schema.facts import EntryFacts, KernelFacts
from cache_schema.identity import CAPABILITY, Identity, axis, forget, register
from cache_schema.label import encode
from cache_schema.ledger import Ledger
from cache_schema.outcome import OutcomeKind
from cache_schema.table import IdentityTable, concat
from tests.cache_schema.records import Alpha, Bare, Beta

KEYS = ("gfx950", "bf16", "bf16", "bf16")


@dataclass(frozen=True, slots=True)
class LaterBeta(Identity):
    """`Beta` with three more axes, of which one is text and one stands in front."""

    family, direction = "beta", "wgrad"

    ahead: int = axis("ahead", 3, "new", least=1)
    pipeline: str = axis("pipe", "late", "schedule")
    unroll_k: bool = axis("unroll", True, "two-fold")
    split_k: int = axis("sk", 2, "slices")
    epilogue: str = axis("epi", "cshuffle", "stores")
    order: str = axis("order", "rows", "new", role=CAPABILITY)
    flipped: bool = axis("flipped", True, "new")


@dataclass(frozen=True, slots=True)
class Gamma(Identity):
    """A family that only a later release has."""

    family, direction = "gamma", "dgrad"

    depth: int = axis("depth", 1, "new")
    ahead: int = axis("ahead", 3, "as that of another family")


@contextmanager
def release(*records: type[Identity]) -> Iterator[None]:
    """With these records in place of those of their names."""
    usual = {record.family: record for record in (Alpha, Beta, Bare)}
    for record in records:
        if record.family in usual:
            forget(usual[record.family])
        register(record)
    try:
        yield
    finally:
        for record in records:
            forget(record)
            if record.family in usual:
                register(usual[record.family])


def write(path: Path, built: list[Identity], rejected: list[Identity]) -> None:
    """A cache of these, each kernel with bytes of its own."""
    blobs, records = {}, []
    for number, identity in enumerate(built):
        code = f"{number} {encode(identity)}".encode()
        blobs[hashlib.sha256(code).digest()] = code
        key = hashlib.sha256(b"key" + code).hexdigest()
        records.append(
            KernelFacts(
                content_key=key,
                blob_digest=hashlib.sha256(code).hexdigest(),
                symbol=f"k_{key[:8]}",
                arguments=ArgumentList((Argument("x", "ptr"),)),
                code_bytes=len(code),
                block_size=64,
            )
        )
    table = concat([IdentityTable.from_identities([identity]) for identity in rejected])
    reasons = np.zeros(len(rejected), dtype=np.int16)
    write_cache(
        path,
        arch="gfx950",
        dtype="bf16",
        table=IdentityTable.from_identities(built),
        facts=EntryFacts.from_entries(records),
        blobs=blobs.__getitem__,
        ledger=Ledger.of(table, OutcomeKind.REJECTED, reasons, ("F1",)),
        provenance={},
    )


def identities(cache: Cache) -> set[Identity]:
    """All of them, read one by one and as a table, which agree and have the digests of the file."""
    alone = [cache.identity(entry) for entry in range(len(cache))]
    assert [cache.table.row(entry) for entry in range(len(cache))] == alone
    assert [identity_digest(identity) for identity in alone] == [bytes(digest) for digest in cache.digests]
    return set(alone)


OLD: list[Any] = [Beta(*KEYS), Beta(*KEYS, split_k=5, epilogue="x"), Alpha(*KEYS, tile_m=16), Bare(*KEYS)]
NEW: list[Any] = [LaterBeta(*KEYS), LaterBeta(*KEYS, split_k=5, epilogue="x"), Alpha(*KEYS, tile_m=16), Bare(*KEYS)]


def test_older_file(tmp_path: Path) -> None:
    """Fields that the file lacks hold their defaults, under the same digests, also in the ledger."""
    path = tmp_path / "c.rocke"
    write(path, OLD[:2], OLD[2:])
    with release(LaterBeta, Gamma), Cache.open(path) as cache:
        assert identities(cache) == set(NEW[:2])
        assert cache.table.wide("ahead").tolist() == [3, 3]
        assert cache.table.strings("order").tolist() == ["rows", "rows"]
        assert cache.table.columns["flipped"].all()
        assert cache.find_identity(NEW[1]) is not None
        assert cache.outcome(NEW[2]) is not None
        assert check_cache(path) == ()
        write(path, [*OLD[2:], *NEW[:1]], NEW[1:2])
    with Cache.open(path) as cache:
        assert identities(cache) == {*OLD[2:], OLD[0]}


def test_newer_file(tmp_path: Path) -> None:
    """New fields at their defaults are left out; a new family is shown, with all that the file says of it."""
    path = tmp_path / "c.rocke"
    gamma = Gamma(*KEYS, depth=4)
    with release(LaterBeta, Gamma):
        write(path, [*NEW[:3], gamma], [NEW[3], replace(gamma, depth=5)])
        label, digest = encode(gamma), identity_digest(gamma)
    with Cache.open(path) as cache:
        assert check_cache(path) == ()
        found = identities(cache)
        assert set(OLD[:3]) <= found
        (foreign,) = found - set(OLD)
        assert (foreign.family, foreign.direction) == ("gamma", "dgrad")
        assert encode(foreign) == label
        assert identity_digest(foreign) == digest
        assert cache.find(digest) is not None
        assert cache.code_object(cache.find(digest) or 0)
        assert cache.outcome(OLD[3]) is not None
        assert len(cache.ledger) == 2


@pytest.mark.parametrize("change", [{"ahead": 4}, {"order": "columns"}, {"flipped": False}])
def test_unknown_field_in_use(change: dict[str, Any], tmp_path: Path) -> None:
    """A field that is not known here and is set is refused by its name: its kernels cannot be told apart."""
    path = tmp_path / "c.rocke"
    (name,) = change
    with release(LaterBeta):
        write(path, [NEW[0], replace(NEW[1], **change), NEW[2]], [])
        digest = identity_digest(replace(NEW[1], **change))
    with Cache.open(path) as cache:
        with pytest.raises(CacheError, match=f"beta kernels have a field '{name}'"):
            _ = cache.table.columns["split_k"]
        changed = cache.find(digest)
        for entry in range(len(cache)):
            if entry == changed:
                with pytest.raises(CacheError, match=f"'{name}'"):
                    cache.identity(entry)
            else:
                assert cache.identity(entry) in OLD
    assert any(f"'{name}'" in finding for finding in check_cache(path))


def test_changed_meaning(tmp_path: Path) -> None:
    """A field of another kind or default under a known name is another family: refused, with the field."""

    @dataclass(frozen=True, slots=True)
    class OtherDefault(Identity):
        family, direction = "beta", "wgrad"

        split_k: int = axis("sk", 7, "slices")

    @dataclass(frozen=True, slots=True)
    class OtherKind(Identity):
        family, direction = "beta", "wgrad"

        split_k: bool = axis("sk", False, "slices")

    @dataclass(frozen=True, slots=True)
    class OtherDirection(Identity):
        family, direction = "beta", "fwd"

    path = tmp_path / "c.rocke"
    for record, word in ((OtherDefault, "split_k"), (OtherKind, "split_k"), (OtherDirection, "direction")):
        with release(record):
            write(path, [record(*KEYS)], [])
        with pytest.raises(CacheError, match=f"differ in {word}"):
            Cache.open(path)
        assert len(check_cache(path)) == 1
