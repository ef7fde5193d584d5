"""The cache file, version 1. One immutable file per (architecture, dtype), opened by mmap. Little-endian throughout.

    file       = header frames pad index page-table seal
    header     = magic version u32, header-bytes u32, file-bytes u64, index-offset u64, index-bytes u64,
                 directory-offset u64, directory-bytes u64, page-table-crc u32, header-crc u32
                                        64 bytes; header-crc is the CRC-32 of the 60 bytes before it
    magic      = "\\x89ROCKE\\r\\n"       8 bytes; the odd bytes catch transfers in text mode
    frames     = { frame }              one zstd frame per block of kernels, no gaps, from offset 64
    pad        = zeros up to a multiple of PAGE
    index      = { section pad64 } directory pad
                                        a whole number of pages; every section starts at a multiple of 64
    page-table = { u32 }                CRC-32 of each page of the index; page-table-crc covers the table
    seal       = sha256                 of everything before it

    directory  = JSON object:
      arch, dtype      strings
      groups           {name: group}
        group          {rows, columns: {column: [dtype, items, offset] | ["const", value]}, vocab?: [offset, bytes]}
                         `items` values per row; offsets are from the start of the index; vocab is a section of JSON
                         {text column: [words, ascending]}
          identity       one column per field of Identity, in digest order
          entry          digest (20 x u1, ascending), kernel (number of the kernel)
          kernel         content_key, blob_digest (32 x u1), layout (number of the argument list), the resources and,
                         if `symbol` is null, symbol (bytes padded with zeros); kernels stand in similarity order
          block          first_kernel; offset (from the start of the file), bytes and crc of the frame; raw_bytes
      layouts          argument lists
      symbol           [prefix, digits]: a symbol is the prefix and the first hex digits of its content key; or null
      provenance       [offset, bytes] of a JSON section
      ledger           [offset, bytes] of a JSON section {group, vocab, frame: [offset, bytes, raw bytes], reasons,
                         details: [[row, text]]}; the section at `frame` is one zstd frame that unpacks to the columns
                         of the group (fields of Identity, kind, reason), whose offsets are from its own start

What a reader relies on is checked before use: the header and the page table when the file is opened, a page of the
index when it is first touched, a frame by its CRC before it is decoded, a code object by its SHA-256. The seal is for
a check of the whole file, which is the only one that reads all of it.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from cache_schema.errors import CacheError

MAGIC = b"\x89ROCKE\r\n"
VERSION = 1
SUFFIX = ".rocke"
_HEADER = struct.Struct("<8sIIQQQQQII")
HEADER_BYTES = 64
SEAL_BYTES = 32
#: Small enough that one lookup checks little, large enough that the table is a thousandth of the index.
PAGE = 4096
SECTION_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Header:
    """Where things are; all offsets are from the start of the file."""

    file_bytes: int
    index_offset: int
    index_bytes: int
    directory_offset: int
    directory_bytes: int
    page_table_crc: int

    @property
    def pages(self) -> int:
        """Pages of the index."""
        return self.index_bytes // PAGE

    @property
    def page_table_offset(self) -> int:
        """Start of the page table, which ends at the seal."""
        return self.index_offset + self.index_bytes

    def to_bytes(self) -> bytes:
        """The 64 bytes at the start of the file."""
        packed = _HEADER.pack(
            MAGIC,
            VERSION,
            HEADER_BYTES,
            self.file_bytes,
            self.index_offset,
            self.index_bytes,
            self.directory_offset,
            self.directory_bytes,
            self.page_table_crc,
            0,
        )[:-4]
        return packed + zlib.crc32(packed).to_bytes(4, "little")


def read_header(data: bytes, file_bytes: int, where: str) -> Header:
    """The header at the front of `data` for a file of `file_bytes`; CacheError says what is wrong with it."""
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise CacheError(f"{where}: not a kernel cache (foreign magic)")
    if len(data) < HEADER_BYTES:
        raise CacheError(f"{where}: truncated inside the header ({file_bytes} bytes)")
    _magic, version, header_bytes, *numbers, crc = _HEADER.unpack(data[:HEADER_BYTES])
    if version != VERSION:
        raise CacheError(f"{where}: format version {version}; this program reads version {VERSION}")
    if zlib.crc32(data[: HEADER_BYTES - 4]) != crc or header_bytes != HEADER_BYTES:
        raise CacheError(f"{where}: damaged header")
    header = Header(*numbers)
    if header.file_bytes != file_bytes:
        state = "truncated" if file_bytes < header.file_bytes else "longer than written"
        raise CacheError(f"{where}: {state}: {file_bytes} bytes, the header says {header.file_bytes}")
    directory_end = header.directory_offset + header.directory_bytes
    if (
        header.index_offset % PAGE
        or header.index_bytes % PAGE
        or header.page_table_offset + 4 * header.pages + SEAL_BYTES != file_bytes
        or not header.index_offset <= header.directory_offset <= directory_end <= header.page_table_offset
    ):
        raise CacheError(f"{where}: damaged header (its lengths contradict each other)")
    return header


def to_json(data: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no blanks, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode("ascii")
