"""A cache file gives back what was written, by every way in, and is the same file for the same content."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cache_schema import cache_writer
from cache_schema.blobs import BLOCK_BYTES, BLOCK_KERNELS, block_starts, compress_block, decompress_block
from cache_schema.cache_check import check_cache
from cache_schema.cache_reader import Cache
from cache_schema.digest import identity_digest, table_digests
from cache_schema.errors import DeliveryError, RequestError
from cache_schema.facts import EntryFacts
from cache_schema.ledger import Ledger
from cache_schema.outcome import OutcomeKind
from cache_schema.table import IdentityTable, concat
from tests.cache_schema.samples import PROVENANCE, geometry, sample


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample cache on disk."""
    path = tmp_path_factory.mktemp("cache") / "gfx950_bf16.rocke"
    sample().write(path)
    return path


def test_everything_comes_back(written: Path) -> None:
    """Identity, facts and code of every entry, by digest and by row, as they went in."""
    content = sample()
    with Cache.open(written) as cache:
        assert (cache.arch, cache.dtype, len(cache)) == ("gfx950", "bf16", len(content.table))
        assert cache.provenance == PROVENANCE
        for row, record in enumerate(content.records):
            identity = content.table.row(row)
            number = cache.find(identity_digest(identity))
            assert number is not None
            assert number == cache.find_identity(identity)
            entry = cache.entry(number)
            assert entry.identity == cache.table.row(number) == cache.identity(number) == identity
            assert entry.digest == bytes(cache.digests[number]) == identity_digest(identity)
            code = cache.code_object(number)
            assert code == content.blobs[bytes.fromhex(record.blob_digest)]
            for name in ("symbol", "content_key", "blob_digest", "arguments"):
                assert getattr(entry, name) == getattr(record, name)
            for name in ("code_bytes", "block_size", "lds_bytes", "vgprs", "agprs", "sgprs", "scratch_bytes"):
                assert getattr(entry, name) == getattr(record, name) == cache.facts[name][number]
            assert entry.spills == (record.vgpr_spills, record.sgpr_spills)
            assert cache.layouts[cache.facts["layout"][number]] == record.arguments
    assert check_cache(written) == ()


def test_digests_ascend_and_unknown_ones_are_not_found(written: Path) -> None:
    """The search agrees with a linear one for present, absent, extreme and malformed digests."""
    random = np.random.default_rng(3)
    with Cache.open(written) as cache:
        known = [bytes(digest) for digest in cache.digests]
        assert known == sorted(known)
        near = [known[40][:-1] + bytes([known[40][-1] ^ 1]), known[7][:9] + bytes(11)]
        for digest in [*known, *near, bytes(20), b"\xff" * 20, *(random.bytes(20) for _ in range(50))]:
            assert cache.find(digest) == (known.index(digest) if digest in known else None)
        assert cache.find(b"") is None
        assert cache.find(bytes(19)) is None


def test_search_in_clustered_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests far from uniform, as nobody but an adversary makes them, are found all the same."""

    def clustered(table: IdentityTable) -> np.ndarray[Any, Any]:
        digests = table_digests(table)
        digests[:, :9] = np.where(np.arange(len(table)) % 3 == 0, 0, 255)[:, None]
        return digests

    monkeypatch.setattr(cache_writer, "table_digests", clustered)
    path = tmp_path / "c.rocke"
    sample().write(path)
    with Cache.open(path) as cache:
        assert [cache.find(bytes(digest)) for digest in cache.digests] == list(range(len(cache)))
        assert cache.find(bytes(9) + b"\xff" * 11) is None


def test_outcome_of_every_candidate(written: Path) -> None:
    """Built, duplicate, rejected, failed and timed out are told apart; the counts cover all candidates."""
    content = sample()
    with Cache.open(written) as cache:
        kinds = [outcome.kind for i in range(len(cache)) if (outcome := cache.outcome(cache.identity(i)))]
        assert kinds.count(OutcomeKind.BUILT) == len(content.blobs) == cache.kernels.rows
        assert kinds.count(OutcomeKind.DUPLICATE) == len(cache) - len(content.blobs)
        for row in range(len(content.ledger)):
            identity = content.ledger.table.row(row)
            assert cache.outcome(identity) == content.ledger.outcome(row)
            assert cache.candidate(identity_digest(identity)) == identity
        assert cache.candidate(identity_digest(cache.identity(3))) == cache.identity(3)
        assert cache.candidate(bytes(20)) is None
        assert cache.outcome(geometry(1, 99_999).row(0)) is None
        assert sum(cache.outcome_counts().values()) == len(content.table) + len(content.ledger)


def test_same_content_same_bytes(written: Path, tmp_path: Path) -> None:
    """Order of rows, of ledger rows, of vocabularies, parallel compression and the path leave no trace."""
    content = sample()
    random = np.random.default_rng(7)
    other = tmp_path / "other.rocke"
    for _ in range(3):
        order = random.permutation(len(content.table))
        rows = random.permutation(len(content.ledger))
        place = np.argsort(rows)
        ledger = Ledger.of(
            content.ledger.table.take(rows),
            content.ledger.kind[rows],
            content.ledger.reason[rows],
            content.ledger.reasons,
            {int(place[row]): text for row, text in content.ledger.details.items()},
        )
        with ThreadPoolExecutor(2) as pool:
            digest = content.write(other, order, ledger=ledger, executor=pool)
        assert other.read_bytes() == written.read_bytes()
        assert digest == hashlib.sha256(written.read_bytes()).hexdigest()


def test_other_content_other_bytes(written: Path, tmp_path: Path) -> None:
    """The hash stands for all of the content, provenance and ledger included."""
    other = tmp_path / "other.rocke"
    digests = {hashlib.sha256(written.read_bytes()).hexdigest()}
    digests.add(sample().write(other, provenance={}))
    digests.add(sample().write(other, ledger=Ledger.empty()))
    digests.add(sample(code_bytes=401).write(other))
    assert len(digests) == 4


def test_many_blocks(tmp_path: Path) -> None:
    """Kernels that do not fit one block are found in theirs, in any order of asking; a block has its limits."""
    content = sample(entries=600, rejected=0, code_bytes=6000)
    path = tmp_path / "many.rocke"
    content.write(path)
    with Cache.open(path) as cache:
        assert cache.blocks.rows > 4
        assert int(cache.blocks["raw_bytes"].max()) <= BLOCK_BYTES
        assert np.diff(np.append(cache.blocks["first_kernel"], cache.kernels.rows)).max() <= BLOCK_KERNELS
        for number in np.random.default_rng(1).permutation(len(cache))[:150].tolist():
            code = cache.code_object(number)
            assert hashlib.sha256(code).hexdigest() == cache.entry(number).blob_digest
    assert check_cache(path) == ()


def test_block_limits() -> None:
    """Blocks end at a number of kernels or of bytes; a kernel larger than a block has one of its own."""
    assert block_starts([]) == []
    assert block_starts([1] * (2 * BLOCK_KERNELS + 1)) == [0, BLOCK_KERNELS, 2 * BLOCK_KERNELS]
    assert block_starts([BLOCK_BYTES, 1, 2 * BLOCK_BYTES, 1, 1]) == [0, 1, 2, 3]


def test_frames_are_pure() -> None:
    """The same blobs give the same frame, and only the stated length is accepted back."""
    block = [b"one" * 50, b"two" * 50]
    assert compress_block(block) == compress_block(list(block))
    assert decompress_block(compress_block(block), 300) == b"".join(block)
    for frame, length in ((compress_block(block), 299), (b"not a frame", 11), (compress_block(block)[:-3], 300)):
        with pytest.raises(ValueError, match="frame"):
            decompress_block(frame, length)


def test_each_blob_is_asked_for_once(tmp_path: Path) -> None:
    """The writer takes every code object once and block after block, so that the provider need not keep any."""
    content = sample(entries=400, rejected=0, code_bytes=4000)
    asked: list[bytes] = []

    def provide(digest: bytes) -> bytes:
        asked.append(digest)
        return content.blobs[digest]

    path = tmp_path / "once.rocke"
    content.write(path, blobs=provide)
    assert sorted(asked) == sorted(content.blobs)
    with Cache.open(path) as cache:
        assert asked == [bytes(digest) for digest in cache.kernels["blob_digest"]]


def test_symbols_without_a_rule(tmp_path: Path) -> None:
    """Symbols that do not follow from the content key are stored as they are."""
    content = sample()
    content.records[:] = [replace(r, symbol=f"{r.content_key[:5]}_kernel_{r.code_bytes}") for r in content.records]
    path = tmp_path / "symbols.rocke"
    content.write(path)
    with Cache.open(path) as cache:
        for row, record in enumerate(content.records):
            number = cache.find_identity(content.table.row(row))
            assert number is not None
            assert cache.entry(number).symbol == record.symbol


def test_empty_cache(tmp_path: Path) -> None:
    """A cache of nothing but rejections, and one of nothing, are sound files."""
    for rejected in (4, 0):
        path = tmp_path / "empty.rocke"
        sample(entries=0, rejected=rejected).write(path)
        with Cache.open(path) as cache:
            assert (len(cache), len(cache.table), len(cache.ledger)) == (0, 0, rejected)
            assert cache.find(bytes(20)) is None
        assert check_cache(path) == ()


def test_table_is_canonical(written: Path) -> None:
    """The table of an open cache can be taken apart and joined like any other."""
    with Cache.open(written) as cache:
        again = concat([cache.table.take(np.arange(50)), cache.table.take(np.arange(50, len(cache)))])
        assert all((again.columns[name] == cache.table.columns[name]).all() for name in again.columns)
        assert dict(again.vocab) == dict(cache.table.vocab)


def test_columns_outlive_the_cache(written: Path) -> None:
    """An array taken from a cache stays readable after it is closed, and cannot be written to."""
    with Cache.open(written) as cache:
        digests, codes = cache.digests, cache.table.columns["pipeline"]
        total = int(digests.sum())
    assert int(digests.sum()) == total
    with pytest.raises(ValueError, match="read-only"):
        codes[0] = 1


def test_rows_beyond_the_end(written: Path) -> None:
    """An entry that does not exist is an IndexError, not a neighbouring section."""
    with Cache.open(written) as cache:
        for number in (len(cache), -1):
            for read in (cache.entry, cache.identity, cache.code_object):
                with pytest.raises(IndexError):
                    read(number)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arch": "gfx942"}, "arch"),
        ({"dtype": "fp16"}, "dtype_a"),
        ({"ledger": Ledger.of(geometry(1), OutcomeKind.REJECTED, np.zeros(1, dtype=np.int16), ("r",))}, "both built"),
        ({"table": concat([geometry(149), geometry(1)])}, "appears twice"),
        ({"facts": EntryFacts.from_entries(sample().records[:-1])}, "kernel_of"),
    ],
)
def test_contradictions_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Input that cannot be true raises and leaves no file."""
    with pytest.raises(ValueError, match=message):
        sample().write(tmp_path / "bad.rocke", **change)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("field", "value"), [("block_size", 0), ("code_bytes", 2**25), ("vgprs", 5000)])
def test_what_no_reader_takes_is_not_written(field: str, value: int, tmp_path: Path) -> None:
    """A fact beyond the limits of the format is refused before there is a file that cannot be opened."""
    content = sample(entries=3, rejected=0)
    content.records[:] = [replace(record, **{field: value}) for record in content.records]  # type: ignore[arg-type]
    with pytest.raises((ValueError, DeliveryError), match=f"{field}|length"):
        content.write(tmp_path / "c.rocke")
    assert list(tmp_path.iterdir()) == []


def test_two_facts_for_one_key_are_refused() -> None:
    """One content key has one set of facts; anything else means that the build is not deterministic."""
    first = sample().records[0]
    with pytest.raises(ValueError, match="two sets of facts"):
        EntryFacts.from_entries([first, replace(first, vgprs=99)])


@pytest.mark.parametrize("wrong", [b"", b"other", None])
def test_wrong_blobs_are_refused(wrong: bytes | None, tmp_path: Path) -> None:
    """A provider that hands out other bytes than the digest promises stops the writer; the old file stays."""
    path = tmp_path / "cache.rocke"
    content = sample()
    content.write(path)
    before = path.read_bytes()
    victim = next(iter(content.blobs))
    content.blobs[victim] = content.blobs[victim][:-1] + b"\x00\x01" if wrong is None else wrong
    with pytest.raises(DeliveryError, match=victim.hex()):
        content.write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("function", ["fsync", "fstat"])
def test_failing_disk(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the disk is reported with the path; the old file stays and no temporary file is left."""
    path = tmp_path / "cache.rocke"
    sample().write(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(DeliveryError, match=r"cannot write .*cache\.rocke: No space left"):
        sample(entries=3).write(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_unusable_paths(tmp_path: Path) -> None:
    """A folder that is not there, or a file in its place, is a wrong request, for writing and for reading."""
    (tmp_path / "file").write_bytes(b"x")
    for path in (tmp_path / "none" / "c.rocke", tmp_path / "file" / "c.rocke"):
        with pytest.raises(RequestError, match="cannot write"):
            sample(entries=3).write(path)
        with pytest.raises(RequestError, match="cannot read"):
            Cache.open(path)
    with pytest.raises(RequestError, match="cannot read"):
        Cache.open(tmp_path)
