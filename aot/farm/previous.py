"""The cache file of the last build: what need not be done again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aot.farm.results import Emission, Facts, Lapse, Origin, StoredCode
from aot.farm.selection import Selection
from cache_schema.cache_check import sealed_sha256
from cache_schema.cache_reader import Cache
from cache_schema.digest import table_digests
from cache_schema.ledger import Ledger
from cache_schema.outcome import OutcomeKind
from cache_schema.table import IdentityTable, concat

_FACTS = ("lds_bytes", "vgprs", "agprs", "sgprs", "scratch_bytes", "vgpr_spills", "sgpr_spills")


class Previous:
    """An open cache file as a source of kernels. Every method raises CacheError where the file is damaged."""

    def __init__(self, path: Path) -> None:
        self._cache = Cache.open(path)
        self.provenance: dict[str, Any] = dict(self._cache.provenance)

    def close(self) -> None:
        self._cache.close()

    def is_current(self, selection: Selection) -> bool:
        """The file delivers exactly these identities and has exactly these rejections and no failure."""
        return np.array_equal(self._cache.digests, selection.digests) and self.has_ledger(selection.rejected)

    def has_ledger(self, ledger: Ledger) -> bool:
        """The file's ledger is this one."""
        ours, theirs = ledger.canonical(), self._cache.ledger
        return (
            len(ours) == len(theirs)
            and ours.reasons == theirs.reasons
            and ours.details == dict(theirs.details)
            and np.array_equal(ours.kind, theirs.kind)
            and np.array_equal(ours.reason, theirs.reason)
            and _same_rows(ours.table, theirs.table)
        )

    def code(self, key: bytes) -> StoredCode | None:
        """The kernel with this content key, if the file has it."""
        kernel = self._kernel_by_key.get(key)
        if kernel is None:
            return None
        at = self._cache.kernels.at
        facts = Facts(*(int(at(name, kernel)) for name in _FACTS))
        length = int(at("code_bytes", kernel))
        return StoredCode(Origin.PREVIOUS, facts, bytes(at("blob_digest", kernel)), kernel, length)

    def bytes_of(self, code: StoredCode) -> bytes:
        """The code object, verified."""
        return self._cache.kernel_code(code.position)

    def emissions(self) -> Iterator[tuple[bytes, Emission]]:
        """Identity digest and emission of every entry."""
        kernels = self._cache.kernels
        columns = (kernels["content_key"], kernels["layout"], kernels["block_size"])
        emission_of = [
            Emission(bytes(key), self._cache.layouts[int(layout)], int(block))
            for key, layout, block in zip(*columns, strict=True)
        ]
        for digest, kernel in zip(self._cache.digests, self._cache.entries["kernel"].tolist(), strict=True):
            yield digest.tobytes(), emission_of[kernel]

    def lapses(self) -> Iterator[tuple[bytes, Lapse]]:
        """Identity digest of every failure in the ledger, and its reason."""
        ledger = self._cache.ledger
        rows = np.flatnonzero(np.isin(ledger.kind, [kind for kind in OutcomeKind if kind.failure]))
        for row, digest in zip(rows.tolist(), table_digests(ledger.table.take(rows)), strict=True):
            outcome = ledger.outcome(row)
            yield digest.tobytes(), Lapse(outcome.kind, outcome.detail)

    def sha256(self) -> str:
        """Of the whole file, in hex. Its seal is checked with it: a file that stays must be sound to the last byte."""
        return sealed_sha256(self._cache)

    def sizes(self) -> dict[str, int]:
        """Entries by family."""
        return self._cache.table.family_sizes()

    @cached_property
    def _kernel_by_key(self) -> dict[bytes, int]:
        return {key.tobytes(): number for number, key in enumerate(self._cache.kernels["content_key"])}


def _same_rows(ours: IdentityTable, theirs: IdentityTable) -> bool:
    left, right = concat([ours]), concat([theirs])  # a file has columns of all its families
    return left.vocab == right.vocab and all(
        np.array_equal(column, right.columns[name]) for name, column in left.columns.items()
    )
