"""The journal keeps every finished record, whatever happens to the file after it or to the process during it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from aot.farm.journal import Journal, JournalError, Record


def _write(path: Path, count: int, seed: int = 7) -> list[tuple[int, dict[str, object], bytes]]:
    """A journal of `count` random records, and the records."""
    random_source = random.Random(seed)
    journal = Journal(path, lambda _: None)
    written = []
    for number in range(count):
        data = random_source.randbytes(random_source.choice([0, 1, 500, 9000]))
        meta: dict[str, object] = {"number": number, "key": random_source.randbytes(32)}
        journal.append(number % 5, meta, data)
        written.append((number % 5, meta, data))
    journal.close()
    return written


def _read(path: Path) -> list[tuple[int, dict[str, object], bytes]]:
    records: list[Record] = []
    journal = Journal(path, records.append)
    found = [(r.kind, r.meta, journal.read(r.data_offset, r.data_length)) for r in records]
    journal.close()
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Kinds, metadata and data come back equal and in order, and reading does not change the file."""
    path = tmp_path / "journal"
    written = _write(path, 50)
    before = path.read_bytes()
    assert _read(path) == written
    assert path.read_bytes() == before


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """A file cut at any byte gives exactly the records that are whole, and goes on from there."""
    path = tmp_path / "journal"
    written = _write(path, 6)
    whole = path.read_bytes()
    ends = [0]
    for count in range(len(written) + 1):
        part = tmp_path / "part"
        part.unlink(missing_ok=True)
        _write(part, count)
        ends.append(part.stat().st_size)
    cut_path = tmp_path / "cut"
    for cut in [*range(0, len(whole), 37), *(e - 1 for e in ends[1:]), *ends]:
        cut_path.write_bytes(whole[:cut])
        complete = max(sum(end <= cut for end in ends) - 2, 0)
        assert _read(cut_path) == written[:complete]
        journal = Journal(cut_path, lambda _: None)
        journal.append(4, {"more": True}, b"after the cut")
        journal.close()
        assert _read(cut_path) == [*written[:complete], (4, {"more": True}, b"after the cut")]


def test_damage_is_noticed(tmp_path: Path) -> None:
    """A flipped bit never yields a changed record: it loses the one record, or ends the journal at that place."""
    path = tmp_path / "journal"
    written = _write(path, 20)
    whole = bytearray(path.read_bytes())
    random_source = random.Random(3)
    lost_one = 0
    for _ in range(200):
        position = random_source.randrange(16, len(whole))
        damaged = bytearray(whole)
        damaged[position] ^= 1 << random_source.randrange(8)
        path.write_bytes(damaged)
        found = _read(path)
        assert len(found) < len(written)
        assert [record for record in written if record in found] == found
        lost_one += len(found) == len(written) - 1
    assert lost_one > 100  # most bytes are data, and damaged data costs one record only


def test_foreign_and_newer_files_are_refused(tmp_path: Path) -> None:
    """A file that is not a journal, or one of another version, is left alone."""
    path = tmp_path / "journal"
    for content in (b"ELF is something else entirely", b"ROCKEJNL" + (99).to_bytes(8, "little")):
        path.write_bytes(content)
        with pytest.raises(JournalError, match="not a journal of version"):
            Journal(path, lambda _: None)
        assert path.read_bytes() == content


def test_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that gets half of its bytes out and then fails is undone, and the message says what to do."""
    path = tmp_path / "journal"
    written = _write(path, 3)
    before = path.read_bytes()
    journal = Journal(path, lambda _: None)
    real, calls = os.pwrite, []

    def half_then_full(fd: int, data: bytes, offset: int) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data[: len(data) // 2]), offset)

    monkeypatch.setattr(os, "pwrite", half_then_full)
    with pytest.raises(JournalError, match="disk is full; what was built is kept"):
        journal.append(1, {}, b"x" * 1000)
    monkeypatch.undo()
    assert path.read_bytes() == before
    journal.append(1, {"again": 1}, b"y")
    journal.close()
    assert _read(path) == [*written, (1, {"again": 1}, b"y")]
