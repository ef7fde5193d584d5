"""The journal: what a build has done so far, append-only, so that a build killed at any point loses nothing.

    journal  := header record*
    header   := magic "ROCKEJNL" . version:u32 . zero:u32
    record   := head meta data
    head     := kind:u32 . meta_length:u32 . data_length:u32 . body_crc:u32 . head_crc:u32
    meta     := msgpack map                  (meta_length bytes)
    data     := raw bytes                    (data_length bytes; a code object, or nothing)

All integers are little-endian. `body_crc` is the CRC-32 of meta and data, `head_crc` that of the sixteen bytes before
it. Reading: a head that is cut off or does not check ends the journal (the tail is dropped and overwritten); a body
that does not check loses that one record. The kinds belong to `aot.farm.store`.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from cache_schema.errors import DeliveryError

MAGIC = b"ROCKEJNL"
VERSION = 2
_HEADER = struct.Struct("<8sII")
_HEAD = struct.Struct("<IIIII")
_HEAD_CHECKED = _HEAD.size - 4


class JournalError(DeliveryError):
    """The working store cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Record:
    kind: int
    meta: dict[str, Any]
    data_offset: int  # of `data` in the file
    data_length: int


class Journal:
    """An open journal. One process writes; `flock` on the folder is the caller's business."""

    def __init__(self, path: Path, visit: Callable[[Record], None], lost: Callable[[], None] = lambda: None) -> None:
        """Open or create, drop a damaged tail, and show every sound record to `visit`, oldest first.

        `lost` is called in place of a record whose body is damaged: what follows may build on it.

        Raises JournalError for a version that this code does not know and for what the disk refuses.
        """
        self.path = path
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._end = self._recover(visit, lost)
        except OSError as error:
            self.close()
            raise JournalError(_write_failure(path, error)) from error

    def _recover(self, visit: Callable[[Record], None], lost: Callable[[], None]) -> int:
        header = os.pread(self._fd, _HEADER.size, 0)
        if len(header) < _HEADER.size:  # new, or killed while being created
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, _HEADER.pack(MAGIC, VERSION, 0), 0)
            return _HEADER.size
        magic, version, _ = _HEADER.unpack(header)
        if magic != MAGIC or version != VERSION:
            raise JournalError(f"{self.path}: not a journal of version {VERSION}; remove {self.path.parent}")
        end = _HEADER.size
        for record, after in _scan(self._fd, end):
            if record is not None:
                visit(record)
            else:
                lost()
            end = after
        os.ftruncate(self._fd, end)
        return end

    def append(self, kind: int, meta: dict[str, Any], data: bytes = b"") -> int:
        """Write one record; returns the offset of its data. On an error the file is as it was before."""
        packed = msgpack.packb(meta)
        head = struct.pack("<IIII", kind, len(packed), len(data), zlib.crc32(data, zlib.crc32(packed)))
        view = memoryview(b"".join((head, struct.pack("<I", zlib.crc32(head)), packed, data)))
        start = self._end
        try:
            written = 0
            while written < len(view):
                written += os.pwrite(self._fd, view[written:], start + written)
        except OSError as error:
            os.ftruncate(self._fd, start)
            raise JournalError(_write_failure(self.path, error)) from error
        self._end = start + len(view)
        return self._end - len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of a record's data; the caller checks them against its own digest."""
        return os.pread(self._fd, length, offset)

    def sync(self) -> None:
        """Bring everything to the disk, against a loss of power."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise JournalError(_write_failure(self.path, error)) from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _scan(fd: int, offset: int) -> Iterator[tuple[Record | None, int]]:
    """Records from `offset`, each with the offset after it; None where a body is damaged."""
    size = os.fstat(fd).st_size
    while True:
        head = os.pread(fd, _HEAD.size, offset)
        if len(head) < _HEAD.size:
            return
        kind, meta_length, data_length, body_crc, head_crc = _HEAD.unpack(head)
        body_offset = offset + _HEAD.size
        after = body_offset + meta_length + data_length
        if zlib.crc32(head[:_HEAD_CHECKED]) != head_crc or after > size:
            return
        body = os.pread(fd, meta_length + data_length, body_offset)
        record = None
        if zlib.crc32(body) == body_crc:
            meta = msgpack.unpackb(body[:meta_length])
            record = Record(kind, meta, body_offset + meta_length, data_length)
        yield record, after
        offset = after


def _write_failure(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path}: the disk is full; what was built is kept, free some space and run the same command again"
    return f"{path}: {error.strerror}; what was built is kept"
