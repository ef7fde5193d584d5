"""The check of a whole cache file: reads every byte and every claim."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.cache_format import PAGE, SECTION_ALIGN
from cache_schema.cache_reader import Cache
from cache_schema.digest import table_digests
from cache_schema.errors import CacheError

_CHUNK = 1 << 20


def check_cache(path: Path | str) -> tuple[str, ...]:
    """Everything that is wrong with a cache file, worst first; empty when it is sound.

    Raises RequestError when the file cannot be read at all.
    """
    findings: list[str] = []
    try:
        cache = Cache.open(path)
    except CacheError as error:
        return (str(error),)
    with cache:
        for check in (_check_pages, _check_claims, _check_code, _check_seal):
            try:
                findings += check(cache)
            except CacheError as error:
                findings.append(str(error))
    return tuple(dict.fromkeys(findings))


def _check_pages(cache: Cache) -> list[str]:
    findings = []
    for page in range(cache.index.pages):
        try:
            cache.index.verify(page)
        except CacheError as error:
            findings.append(str(error))
    return findings


def _check_claims(cache: Cache) -> list[str]:
    """What the index says about itself."""
    where, findings = cache.path, []
    digests = cache.digests
    if not np.array_equal(table_digests(cache.table), digests):
        findings.append(f"{where}: a digest is not that of its identity")
    keys = [bytes(digest) for digest in digests]
    if any(left >= right for left, right in itertools.pairwise(keys)):
        findings.append(f"{where}: digests do not ascend")
    kernels = np.unique(cache.entries["kernel"])
    if not np.array_equal(kernels, np.arange(cache.kernels.rows)):
        findings.append(f"{where}: entries and kernels do not match")
    findings += _check_sections(cache)
    findings += _check_ledger(cache)
    _ = cache.provenance, [cache.symbol(kernel) for kernel in range(cache.kernels.rows)]
    for group in (cache.kernels, cache.blocks):
        _ = [group[name] for name in group]
    return findings


def _check_sections(cache: Cache) -> list[str]:
    """Sections stand one behind the other and fill the index."""
    end = 0
    for offset, length in sorted(cache.sections()):
        if offset != end + -end % SECTION_ALIGN:
            return [f"{cache.path}: the section at {offset} of the index does not follow the one that ends at {end}"]
        end = offset + length
    if end + -end % PAGE != cache.header.index_bytes:
        return [f"{cache.path}: {cache.header.index_bytes} bytes of index, of which sections claim {end}"]
    return []


def _check_ledger(cache: Cache) -> list[str]:
    """The ledger is in its one order and names nothing twice, and nothing that is built."""
    ledger = cache.ledger
    try:
        canonical = ledger.canonical()
    except ValueError as error:
        return [f"{cache.path}: {error}"]
    digests = table_digests(ledger.table)
    pairs: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = [
        (table_digests(canonical.table), digests),
        (canonical.kind, ledger.kind),
    ]
    pairs.append((canonical.reason, ledger.reason))
    same = canonical.reasons == ledger.reasons and canonical.details == dict(ledger.details)
    if not same or not all(np.array_equal(ours, theirs) for ours, theirs in pairs):
        return [f"{cache.path}: the ledger is not in its order"]
    built = {bytes(digest) for digest in cache.digests}
    if any(bytes(digest) in built for digest in digests):
        return [f"{cache.path}: an identity is both built and not"]
    return []


def _check_code(cache: Cache) -> list[str]:
    findings = []
    for kernel in range(cache.kernels.rows):
        try:
            cache.kernel_code(kernel)
        except CacheError as error:
            findings.append(str(error))
    return findings


def _check_seal(cache: Cache) -> list[str]:
    sealed_sha256(cache)
    return []


def sealed_sha256(cache: Cache) -> str:
    """SHA-256 of the whole file, in hex. Raises CacheError unless the file is what was sealed, byte for byte."""
    hasher = hashlib.sha256()
    for chunk in cache.content(_CHUNK):
        hasher.update(chunk)
    if cache.seal != hasher.hexdigest():
        raise CacheError(f"{cache.path}: the seal does not match the content; some part of the file is damaged")
    hasher.update(bytes.fromhex(cache.seal))
    return hasher.hexdigest()
