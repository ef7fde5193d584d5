"""The index of an open cache file: pages are verified against their checksums when first touched."""

from __future__ import annotations

import zlib

import numpy as np

from cache_schema.cache_format import PAGE, Header
from cache_schema.errors import CacheError


class CheckedIndex:
    """Access to the index by offset from its start. The page table has been verified by the caller."""

    def __init__(self, file: memoryview, header: Header, page_table: bytes, where: str) -> None:
        self.where = where
        self._index = file[header.index_offset : header.frames_offset]
        self._checksums = np.frombuffer(page_table, dtype="<u4")
        self._verified = bytearray(header.pages)

    def view(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes; CacheError when they lie outside or a page of them is damaged."""
        if offset < 0 or length < 0 or offset + length > len(self._index):
            raise CacheError(f"{self.where}: a section lies outside the index ({offset}, {length} bytes)")
        verified = self._verified
        for page in range(offset // PAGE, -(-(offset + length) // PAGE)):
            if not verified[page]:
                self.verify(page)
        return self._index[offset : offset + length]

    def verify(self, page: int) -> None:
        """Check one page; CacheError when it is damaged."""
        start = page * PAGE
        if zlib.crc32(self._index[start : start + PAGE]) != self._checksums[page]:
            raise CacheError(f"{self.where}: damaged index, page {page} of {len(self._verified)}")
        self._verified[page] = 1

    def release(self) -> None:
        """Let go of the file; BufferError while an array still looks into it."""
        self._index.release()

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self._verified)
