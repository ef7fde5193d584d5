"""The cache file, version 2. One immutable file per (architecture, dtype), opened by mmap. Little-endian throughout.

    file       = header directory page-table pad index frames seal
    header     = magic version u32, header-bytes u32, file-bytes u64, index-offset u64, index-bytes u64,
                 directory-bytes u32, directory-crc u32, page-table-crc u32, header-crc u32
                                        56 bytes; header-crc is the CRC-32 of the bytes before it
    magic      = "\\x89ROCKE\\r\\n"       8 bytes; the odd ones catch transfers in text mode
    page-table = { u32 }                CRC-32 of each page of the index
    pad        = zeros up to a multiple of PAGE
    index      = { section pad64 }      a whole number of pages; every section starts at a multiple of 64
    frames     = { frame }              one zstd frame per block of kernels, without gaps, up to the seal
    seal       = sha256                 of everything before it

    directory  = JSON object:
      arch, dtype      strings
      families         the families of the file and their fields (`file_families`)
      groups           {name: group}
        group          {rows, columns: {column: [dtype, items, offset] | ["const", value]}, vocab?: [offset, bytes]}
                         `items` values per row; offsets are from the start of the index; vocab is a section of JSON
                         {text column: [words, ascending]}
          identity       family (its position among the families, ascending by name) and one column per field of
                         them, in digest order; rows of families that lack a field hold 0, false or ""
          entry          digest (20 x u1, ascending), kernel (number of the kernel)
          kernel         content_key, blob_digest (32 x u1), layout (number of the argument list), the resources and,
                         if `symbol` is null, symbol (bytes padded with zeros); kernels stand in similarity order
          block          first_kernel; offset (from the start of the frames), bytes and crc of the frame; raw_bytes
      layouts          argument lists
      symbol           [prefix, digits]: a symbol is the prefix and the first hex digits of its content key; or null
      provenance       [offset, bytes] of a JSON section
      ledger           [offset, bytes] of a JSON section {identity, outcome, vocab, frame: [offset, bytes, raw bytes],
                         reasons, details: [[row, text]]}; the section at `frame` is one zstd frame that unpacks to the
                         columns of both groups (those of an identity; kind and reason), with offsets from its own start

Whatever the checksums say, a count, size or offset is held against the file and its neighbours before it is used
(`cache_directory`), a value against what its column may hold (`cache_rules`).

What a reader relies on is checked before use: header, directory and page table when the file is opened (they stand
together in front, so that this is one read), a page of the index when it is first touched, a frame by its CRC before
it is decoded, a code object by its SHA-256. The seal is for a check of the whole file, the only one that reads all.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from cache_schema.errors import CacheError
from cache_schema.strict_json import loads

MAGIC = b"\x89ROCKE\r\n"
VERSION = 2
SUFFIX = ".rocke"
_HEADER = struct.Struct("<8sIIQQQIIII")
HEADER_BYTES = _HEADER.size
SEAL_BYTES = 32
#: Small enough that one lookup checks little, large enough that the table is a thousandth of the index.
PAGE = 4096
SECTION_ALIGN = 64
#: The directory names columns and argument lists, never rows: a hundred times what it takes.
DIRECTORY_BYTES = 1 << 20
#: Read at once when a file is opened: header, directory and page table of a cache of half a million entries.
FRONT_BYTES = 1 << 16


class NewerFormatError(CacheError):
    """A file of a later release."""


@dataclass(frozen=True, slots=True)
class Header:
    """Where things are; offsets are from the start of the file."""

    file_bytes: int
    index_offset: int
    index_bytes: int
    directory_bytes: int
    directory_crc: int
    page_table_crc: int

    @property
    def pages(self) -> int:
        """Pages of the index."""
        return self.index_bytes // PAGE

    @property
    def page_table_offset(self) -> int:
        """Start of the page table, behind the directory."""
        return HEADER_BYTES + self.directory_bytes

    @property
    def front_bytes(self) -> int:
        """End of the page table."""
        return self.page_table_offset + 4 * self.pages

    @property
    def frames_offset(self) -> int:
        """Start of the frames, behind the index."""
        return self.index_offset + self.index_bytes

    @property
    def frames_bytes(self) -> int:
        """Bytes of all frames."""
        return self.file_bytes - SEAL_BYTES - self.frames_offset

    def to_bytes(self) -> bytes:
        """The bytes at the start of the file."""
        numbers = (self.file_bytes, self.index_offset, self.index_bytes)
        checksums = (self.directory_bytes, self.directory_crc, self.page_table_crc)
        packed = _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, *numbers, *checksums, 0)[:-4]
        return packed + zlib.crc32(packed).to_bytes(4, "little")


def read_header(data: bytes, file_bytes: int, where: str) -> Header:
    """The header at the front of `data` for a file of `file_bytes`; CacheError says what is wrong with it."""
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise CacheError(f"{where}: not a kernel cache (foreign magic)")
    if len(data) < HEADER_BYTES:
        raise CacheError(f"{where}: truncated inside the header ({file_bytes} bytes)")
    _magic, version, header_bytes, *numbers, crc = _HEADER.unpack(data[:HEADER_BYTES])
    if version > VERSION:
        raise NewerFormatError(
            f"{where}: format version {version} is newer than version {VERSION}, which this release of rocke-aot "
            "reads; use a newer release"
        )
    if version != VERSION:
        raise CacheError(
            f"{where}: format version {version} is older than version {VERSION}, which this release reads; "
            "build the cache again"
        )
    if zlib.crc32(data[: HEADER_BYTES - 4]) != crc or header_bytes != HEADER_BYTES:
        raise CacheError(f"{where}: damaged header")
    header = Header(*numbers)
    if header.file_bytes != file_bytes:
        state = "truncated" if file_bytes < header.file_bytes else "longer than written"
        raise CacheError(f"{where}: {state}: {file_bytes} bytes, the header says {header.file_bytes}")
    if (
        header.directory_bytes > DIRECTORY_BYTES
        or header.index_bytes % PAGE
        or header.index_offset != header.front_bytes + -header.front_bytes % PAGE
        or header.frames_bytes < 0
    ):
        raise CacheError(f"{where}: damaged header (its lengths contradict each other)")
    return header


def read_front(front: bytes, header: Header, where: str) -> tuple[Any, bytes]:
    """(directory, page table) from the first `front_bytes` of the file, checked."""
    directory = front[HEADER_BYTES : header.page_table_offset]
    page_table = front[header.page_table_offset : header.front_bytes]
    for name, part, crc in (
        ("directory", directory, header.directory_crc),
        ("page table", page_table, header.page_table_crc),
    ):
        if zlib.crc32(part) != crc:
            raise CacheError(f"{where}: damaged {name}")
    try:
        return loads(directory), page_table
    except ValueError as error:
        raise CacheError(f"{where}: malformed directory: {error}") from error


def to_json(data: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no blanks, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")
