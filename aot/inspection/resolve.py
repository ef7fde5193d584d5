"""From what a person writes to an identity: a label, a digest, or the beginning of a digest."""

from __future__ import annotations

import re

import numpy as np

from cache_schema.cache_reader import Cache
from cache_schema.digest import DIGEST_BYTES
from cache_schema.errors import RequestError
from cache_schema.identity import Identity
from cache_schema.label import decode

#: Shorter beginnings are refused: they say too little to be meant.
MIN_DIGEST_DIGITS = 6


def resolve(cache: Cache, text: str) -> Identity:
    """The identity meant by `text`; a label may be of any identity, a digest must be of a candidate of the cache.

    Raises LabelError, or RequestError for a digest that is unknown or the beginning of several.
    """
    if ":" in text:
        return decode(text)
    digits = text.lower()
    if not re.fullmatch(rf"[0-9a-f]{{{MIN_DIGEST_DIGITS},{2 * DIGEST_BYTES}}}", digits):
        raise RequestError(
            f"{text!r} is neither a label (direction:family:arch:dtype:...) nor a digest or its first "
            f"{MIN_DIGEST_DIGITS} or more hex digits"
        )
    if len(digits) == 2 * DIGEST_BYTES:
        candidate = cache.candidate(bytes.fromhex(digits))
        if candidate is None:
            raise RequestError(f"no candidate of {cache.path} has digest {digits}; its label says which one you mean")
        return candidate
    rows = _entries_from(cache, digits)
    if len(rows) != 1:
        what = "no entry has" if not rows else f"{len(rows)} entries have"
        raise RequestError(f"{what} a digest that begins with {digits}")
    return cache.identity(rows[0])


def _entries_from(cache: Cache, digits: str) -> range:
    """Entries whose digest begins so; digests are sorted, so they are neighbours."""
    keys = np.ascontiguousarray(cache.digests).view(f"S{DIGEST_BYTES}").reshape(-1)
    low = bytes.fromhex(digits.ljust(2 * DIGEST_BYTES, "0"))
    high = bytes.fromhex(digits.ljust(2 * DIGEST_BYTES, "f"))
    start = int(np.searchsorted(keys, np.array(low, dtype=keys.dtype), side="left"))
    end = int(np.searchsorted(keys, np.array(high, dtype=keys.dtype), side="right"))
    return range(start, end)
