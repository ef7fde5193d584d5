"""The stable name of an identity: 20 bytes that never depend on Python, numpy, machine or process.

    digest   = first 20 bytes of SHA-256(record)
    record   = TAG, then every field of `Identity` in declaration order:
                 text  16 bytes, the front of SHA-256 of its UTF-8 form
                 int    4 bytes, little-endian, signed
                 bool   1 byte, 0 or 1

A change of this layout, of the field list or of its order changes every digest, so it needs a new TAG.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from cache_schema.identity import FIELD_KIND, FIELDS, Identity
from cache_schema.table import IdentityTable, is_constant

DIGEST_BYTES = 20
TAG = b"rocke-identity-1"
WORD_BYTES = 16
FIELD_BYTES = {"str": WORD_BYTES, "int": 4, "bool": 1}
#: Rows assembled at a time: about 16 MB of records, whatever the length of the table.
CHUNK_ROWS = 1 << 16


@lru_cache(maxsize=4096)
def word_bytes(word: str) -> bytes:
    """How a text value enters the record."""
    return hashlib.sha256(word.encode()).digest()[:WORD_BYTES]


def identity_digest(identity: Identity) -> bytes:
    """Digest of one identity; OverflowError if an integer exceeds 32 bits."""
    parts = [TAG]
    for name in FIELDS:
        value, kind = getattr(identity, name), FIELD_KIND[name]
        if kind == "str":
            parts.append(word_bytes(value))
        else:
            parts.append(int(value).to_bytes(FIELD_BYTES[kind], "little", signed=kind == "int"))
    return hashlib.sha256(b"".join(parts)).digest()[:DIGEST_BYTES]


def table_digests(table: IdentityTable) -> npt.NDArray[np.uint8]:
    """Digests of all rows, shape (rows, 20); row i equals `identity_digest(table.row(i))`."""
    digests = np.empty((len(table), DIGEST_BYTES), dtype=np.uint8)
    for start in range(0, len(table), CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, len(table))
        records = _records(table, start, stop)
        width = records.shape[1]
        flat = records.reshape(-1).data
        sha256 = hashlib.sha256
        joined = b"".join(
            [sha256(flat[at : at + width]).digest()[:DIGEST_BYTES] for at in range(0, (stop - start) * width, width)]
        )
        digests[start:stop] = np.frombuffer(joined, dtype=np.uint8).reshape(-1, DIGEST_BYTES)
    return digests


def _records(table: IdentityTable, start: int, stop: int) -> npt.NDArray[np.uint8]:
    width = len(TAG) + sum(FIELD_BYTES[FIELD_KIND[name]] for name in FIELDS)
    records = np.empty((stop - start, width), dtype=np.uint8)
    records[:, : len(TAG)] = np.frombuffer(TAG, dtype=np.uint8)
    at = len(TAG)
    for name in FIELDS:
        size = FIELD_BYTES[FIELD_KIND[name]]
        column = table.columns[name]
        part = column[:1] if is_constant(column) else column[start:stop]
        if name in table.vocab:
            words = np.frombuffer(b"".join(map(word_bytes, table.vocab[name])), dtype=np.uint8).reshape(-1, size)
            records[:, at : at + size] = words[part]
        else:
            wide = np.ascontiguousarray(part, dtype="<i4" if size == 4 else "<u1")
            records[:, at : at + size] = wide.view(np.uint8).reshape(-1, size)
        at += size
    return records
