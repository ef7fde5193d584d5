"""The ledger section of a cache file, read."""

from __future__ import annotations

from typing import Any

from cache_schema.blobs import decompress_block
from cache_schema.cache_columns import ColumnGroup, Source
from cache_schema.errors import CacheError
from cache_schema.identity import FIELDS
from cache_schema.ledger import Ledger
from cache_schema.table import IdentityTable


class _Unpacked:
    """The content of a verified frame as a source of columns."""

    def __init__(self, where: str, content: bytes) -> None:
        self.where = where
        self._content = memoryview(content)

    def view(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes; CacheError when they lie outside."""
        if offset < 0 or offset + length > len(self._content):
            raise CacheError(f"{self.where}: a ledger column lies outside its frame")
        return self._content[offset : offset + length]


def read_ledger(index: Source, description: Any) -> Ledger:
    """The ledger of an index, from its JSON description."""
    try:
        offset, length, raw_bytes = description["frame"]
        content = decompress_block(index.view(offset, length), raw_bytes)
        group = ColumnGroup(_Unpacked(index.where, content), "ledger", description["group"])
        vocab = {name: tuple(words) for name, words in description["vocab"].items()}
        table = IdentityTable(group.rows, {name: group[name] for name in FIELDS}, vocab)
        details = {int(row): str(text) for row, text in description["details"]}
        return Ledger.of(table, group["kind"], group["reason"], description["reasons"], details)
    except (KeyError, TypeError, ValueError) as error:
        raise CacheError(f"{index.where}: malformed ledger ({error})") from error
