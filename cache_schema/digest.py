"""The stable name of an identity: 20 bytes that never depend on Python, numpy, machine or process.

    digest = first 20 bytes of SHA-256(record)
    record = TAG, word(family), then word(name "=" value) of every field that is not at its default, ascending by name
    word   = first 16 bytes of SHA-256 of a text in UTF-8
    value  = text as it is, an integer in decimal, a flag as 0 or 1

Key fields have no default and are always there. A new field with a default changes no digest, and neither does a new
family; a changed default does, which is why there are none. A change of this layout needs a new TAG.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from cache_schema.identity import INT_RANGE, Field, Identity, Schema, Value, schema_of
from cache_schema.table import Column, IdentityTable, is_constant

DIGEST_BYTES = 20
TAG = b"rocke-identity-2"
WORD_BYTES = 16
#: Rows assembled at a time: about 20 MB of records, whatever the length of the table.
CHUNK_ROWS = 1 << 16
#: One word, as numpy moves it around.
_WORD = np.dtype(f"V{WORD_BYTES}")

Words = npt.NDArray[np.void]
Mask = npt.NDArray[np.bool_]


@lru_cache(maxsize=1 << 14)
def word_bytes(text: str) -> bytes:
    """How a family, and a field with its value, enter the record."""
    return hashlib.sha256(text.encode()).digest()[:WORD_BYTES]


def identity_digest(identity: Identity) -> bytes:
    """Digest of one identity; OverflowError if an integer exceeds 32 bits."""
    schema = schema_of(identity)
    parts = [TAG, word_bytes(schema.family)]
    for field in schema.by_name.values():
        value = getattr(identity, field.name)
        if value != field.default:
            parts.append(_field_word(field, value))
    return hashlib.sha256(b"".join(parts)).digest()[:DIGEST_BYTES]


def table_digests(table: IdentityTable) -> npt.NDArray[np.uint8]:
    """Digests of all rows, shape (rows, 20); row i equals `identity_digest(table.row(i))`."""
    digests = np.empty((len(table), DIGEST_BYTES), dtype=np.uint8)
    for schema, rows, part in table.parts():
        chunks = (_hashes(part, schema, start) for start in range(0, len(part), CHUNK_ROWS))
        joined = b"".join(digest for chunk in chunks for digest in chunk)
        digests[rows] = np.frombuffer(joined, dtype=np.uint8).reshape(-1, DIGEST_BYTES)
    return digests


def _field_word(field: Field, value: Value) -> bytes:
    if field.kind == "str":
        return word_bytes(f"{field.name}={value}")
    if not INT_RANGE[0] <= int(value) <= INT_RANGE[1]:
        raise OverflowError(f"{field.name} {value} exceeds 32 bits")
    return word_bytes(f"{field.name}={int(value)}")


def _hashes(part: IdentityTable, schema: Schema, start: int) -> Iterator[bytes]:
    """The digests of the rows of one family from `start` on, a chunk at most."""
    stop = min(start + CHUNK_ROWS, len(part))
    columns: list[tuple[Words, Mask]] = []
    for field in schema.by_name.values():
        column = part.columns[field.name]
        values = column[:1] if is_constant(column) else column[start:stop]
        words, differs = _column_words(field, values, part.vocab.get(field.name))
        if differs.any():
            columns.append((words, differs))
    records = np.empty((stop - start, 2 + len(columns)), dtype=_WORD)
    kept: Mask = np.ones(records.shape, dtype=np.bool_)
    records[:, 0], records[:, 1] = _word(TAG), _word(word_bytes(schema.family))
    for place, (words, differs) in enumerate(columns, start=2):
        records[:, place], kept[:, place] = words, differs
    content = records[kept].tobytes()
    sha256, begin = hashlib.sha256, 0
    for end in (WORD_BYTES * np.cumsum(kept.sum(axis=1))).tolist():
        yield sha256(content[begin:end]).digest()[:DIGEST_BYTES]
        begin = end


def _column_words(field: Field, values: Column, vocabulary: tuple[str, ...] | None) -> tuple[Words, Mask]:
    """The word of every value, and where it differs from the default."""
    used, place = np.unique(values, return_inverse=True)
    meant: list[Value] = [vocabulary[int(code)] for code in used] if vocabulary is not None else used.tolist()
    words = np.array([_word(_field_word(field, value)) for value in meant], dtype=_WORD)
    differs = np.array([value != field.default for value in meant], dtype=np.bool_)
    return words[place], differs[place]


def _word(content: bytes) -> np.void:
    return np.void(content)
