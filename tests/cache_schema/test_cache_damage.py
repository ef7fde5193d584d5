"""A damaged cache is named as damaged; it never hands out a wrong byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cache_schema.cache_check import check_cache
from cache_schema.cache_format import HEADER_BYTES, MAGIC, PAGE, SEAL_BYTES, read_header
from cache_schema.cache_reader import Cache
from cache_schema.errors import CacheError
from tests.cache_schema.samples import sample


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small sound cache."""
    path = tmp_path_factory.mktemp("good") / "c.rocke"
    sample(entries=60, rejected=12, code_bytes=200).write(path)
    return path.read_bytes()


def reads(cache: Cache) -> Iterator[tuple[str, Any]]:
    """Everything that can be asked of a cache, each as a question and a way to the answer."""
    yield "table", lambda: [cache.table.row(i) for i in range(len(cache))]
    yield "columns", lambda: [column.tolist() for column in cache.table.columns.values()]
    yield "find", lambda: [cache.find(bytes(digest)) for digest in cache.digests]
    yield "ledger", lambda: [cache.ledger.outcome(i) for i in range(len(cache.ledger))]
    yield "facts", lambda: {name: column.tolist() for name, column in cache.facts.items()}
    yield "provenance", lambda: cache.provenance
    for number in range(0, len(cache), 3):
        yield f"entry {number}", lambda number=number: cache.entry(number)
        yield f"code {number}", lambda number=number: cache.code_object(number)


def answers(path: Path) -> dict[str, Any]:
    """All answers of a cache; one that is refused with CacheError is left out, any other error is raised."""
    found = {}
    try:
        cache = Cache.open(path)
    except CacheError:
        return {}
    with cache:
        for question, answer in reads(cache):
            try:
                found[question] = answer()
            except CacheError:
                continue
    return found


def structural_positions(data: bytes) -> list[int]:
    """Every byte of the header, directory, page table and seal, and the borders and a sample of all else."""
    header = read_header(data, len(data), "good")
    parts = [
        range(HEADER_BYTES),
        range(HEADER_BYTES, header.page_table_offset, 7),
        range(header.page_table_offset, header.front_bytes),
        range(header.file_bytes - SEAL_BYTES, header.file_bytes),
    ]
    starts = (header.front_bytes, header.index_offset, header.frames_offset, header.file_bytes - SEAL_BYTES)
    borders = [position + step for position in starts for step in (-1, 0)]
    random = np.random.default_rng(9)
    sampled = [
        *random.integers(header.index_offset, header.frames_offset, 250).tolist(),
        *random.integers(header.frames_offset, header.file_bytes - SEAL_BYTES, 120).tolist(),
    ]
    return sorted({position for part in parts for position in part} | set(borders) | set(sampled))


def test_flipped_bytes(good: bytes, tmp_path: Path) -> None:
    """Wherever a byte is changed, every answer is right or refused, and the full check notices."""
    path = tmp_path / "c.rocke"
    path.write_bytes(good)
    wanted = answers(path)
    random = np.random.default_rng(4)
    refused = 0
    for position in structural_positions(good):
        damaged = bytearray(good)
        damaged[position] ^= 1 << int(random.integers(8)) if position % 2 else int(random.integers(1, 256))
        path.write_bytes(damaged)
        found = answers(path)
        assert all(found[question] == wanted[question] for question in found), position
        refused += len(found) < len(wanted)
        assert check_cache(path), position
    assert refused > 100


def test_truncation(good: bytes, tmp_path: Path) -> None:
    """A file cut anywhere, or grown, does not open, and says so."""
    path = tmp_path / "c.rocke"
    cuts = [0, 1, len(MAGIC), HEADER_BYTES - 1, HEADER_BYTES, PAGE, len(good) - SEAL_BYTES, len(good) - 1]
    for length in [*cuts, *np.random.default_rng(2).integers(0, len(good), 40).tolist()]:
        path.write_bytes(good[:length])
        with pytest.raises(CacheError, match="truncated"):
            Cache.open(path)
        assert check_cache(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(CacheError, match="longer than written"):
        Cache.open(path)


def test_swapped_pages(good: bytes, tmp_path: Path) -> None:
    """Two pages of the index in each other's place are noticed, though each is sound by itself."""
    header = read_header(good, len(good), "good")
    first, second = header.index_offset, header.index_offset + PAGE
    assert header.pages >= 2
    swapped = good[:first] + good[second : second + PAGE] + good[first:second] + good[second + PAGE :]
    assert len(swapped) == len(good)
    path = tmp_path / "c.rocke"
    path.write_bytes(good)
    wanted = answers(path)
    path.write_bytes(swapped)
    found = answers(path)
    assert all(found[question] == wanted[question] for question in found)
    assert check_cache(path)


@pytest.mark.parametrize("content", [b"\x7fELF" + bytes(200), b"PK\x03\x04" * 40, b"{}", bytes(5000)])
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    """A file of another kind is named as such."""
    path = tmp_path / "c.rocke"
    path.write_bytes(content)
    with pytest.raises(CacheError, match="not a kernel cache"):
        Cache.open(path)


@pytest.mark.parametrize(("version", "words"), [(3, "version 3 is newer than version 2"), (1, "version 1 is older")])
def test_unknown_version(version: int, words: str, good: bytes, tmp_path: Path) -> None:
    """A file of another version is refused by its number and told apart, not read as far as it goes."""
    path = tmp_path / "c.rocke"
    path.write_bytes(good[:8] + version.to_bytes(4, "little") + good[12:])
    with pytest.raises(CacheError, match=words):
        Cache.open(path)


def test_check_names_each_finding(tmp_path: Path) -> None:
    """Several damages are reported together: block, page and seal."""
    path = tmp_path / "c.rocke"
    sample(entries=400).write(path)
    damaged = bytearray(path.read_bytes())
    header = read_header(bytes(damaged), len(damaged), "good")
    assert header.pages >= 4
    damaged[header.frames_offset + 3] ^= 1
    damaged[header.index_offset + 5] ^= 1
    path.write_bytes(damaged)
    findings = " / ".join(check_cache(path))
    for part in ("damaged index, page 0", "damaged block 0", "seal"):
        assert part in findings
