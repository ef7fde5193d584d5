"""The ledger section of a cache file, read."""

from __future__ import annotations

from typing import Any

from cache_schema.blobs import decompress_block
from cache_schema.cache_columns import ColumnGroup, Source, rows_of
from cache_schema.cache_rules import LEDGER_BYTES, LEDGER_ROWS, checked_vocabulary, outcome_rules, require_own
from cache_schema.errors import CacheError
from cache_schema.file_families import FileFamilies
from cache_schema.ledger import Ledger

_NAMES = {"identity", "outcome", "vocab", "frame", "reasons", "details"}


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


def read_ledger(index: Source, families: FileFamilies, description: Any, arch: str, dtype: str) -> Ledger:
    """The ledger of an index, from its JSON description; CacheError for one that cannot be."""
    where = index.where
    if not isinstance(description, dict) or description.keys() != _NAMES:
        raise CacheError(f"{where}: malformed ledger: not its parts")
    frame, reasons, details = description["frame"], description["reasons"], description["details"]
    if not (isinstance(frame, list) and len(frame) == 3 and all(type(number) is int for number in frame)):
        raise CacheError(f"{where}: malformed ledger: no frame")
    offset, length, raw_bytes = frame
    rows = {rows_of(where, "ledger", description[name]) for name in ("identity", "outcome")}
    if not 0 <= raw_bytes <= LEDGER_BYTES or max(rows) > LEDGER_ROWS or len(rows) > 1:
        raise CacheError(
            f"{where}: a ledger of more than {LEDGER_ROWS} rows or {LEDGER_BYTES} bytes, or of two lengths"
        )
    if not isinstance(reasons, list) or not all(type(reason) is str for reason in reasons):
        raise CacheError(f"{where}: malformed ledger: reasons that are no words")
    vocab = checked_vocabulary(where, families, description["vocab"])
    require_own(where, vocab, arch, dtype)
    try:
        unpacked = _Unpacked(where, decompress_block(index.view(offset, length), raw_bytes))
        identity = ColumnGroup(unpacked, "ledger", description["identity"], families.rules(vocab), raw_bytes)
        outcome = ColumnGroup(unpacked, "ledger", description["outcome"], outcome_rules(len(reasons)), raw_bytes)
        table = families.table(identity, vocab)
        return Ledger.of(table, outcome["kind"], outcome["reason"], reasons, _details(where, details))
    except ValueError as error:
        raise CacheError(f"{where}: malformed ledger: {error}") from error


def _details(where: str, details: Any) -> dict[int, str]:
    if not isinstance(details, list) or not all(
        isinstance(pair, list) and list(map(type, pair)) == [int, str] for pair in details
    ):
        raise CacheError(f"{where}: malformed ledger: details that are no [row, text]")
    found = dict(details)
    if len(found) != len(details):
        raise CacheError(f"{where}: malformed ledger: two details of one row")
    return found
