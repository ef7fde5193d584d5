"""The check of a whole cache file: reads every byte and every claim."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import numpy as np

from cache_schema.cache_format import SEAL_BYTES
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
    if cache.kernels.rows and int(cache.kernels["layout"].max()) >= len(cache.layouts):
        findings.append(f"{where}: a kernel has no argument list")
    end = 0
    for offset, length in zip(cache.blocks["offset"].tolist(), cache.blocks["bytes"].tolist(), strict=True):
        if offset != end:
            findings.append(f"{where}: blocks are not contiguous at byte {offset}")
        end = offset + length
    if end != cache.header.frames_bytes:
        findings.append(f"{where}: {cache.header.frames_bytes} bytes of frames, of which blocks claim {end}")
    _ = cache.ledger, cache.provenance
    return findings


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
    with cache.path.open("rb") as file:
        left = cache.header.file_bytes - SEAL_BYTES
        while left and (chunk := file.read(min(_CHUNK, left))):
            hasher.update(chunk)
            left -= len(chunk)
        seal = file.read()
    if seal != hasher.digest():
        raise CacheError(f"{cache.path}: the seal does not match the content; some part of the file is damaged")
    hasher.update(seal)
    return hasher.hexdigest()
