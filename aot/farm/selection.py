"""What a build is asked for: the identities to deliver, in digest order, and the candidates that rules exclude."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cache_schema.digest import DIGEST_BYTES, table_digests
from cache_schema.errors import RequestError
from cache_schema.ledger import Ledger
from cache_schema.outcome import OutcomeKind
from cache_schema.table import IdentityTable
from grids.catalogue import open_catalogue
from grids.rules import reason_codes
from grids.selection import in_shard


@dataclass(frozen=True, slots=True)
class GridScope:
    """Part of a catalogue. `shard` is (i, n), counted from 1; a `limit` is per data type."""

    arch: str
    directions: tuple[str, ...] | None = None
    families: tuple[str, ...] | None = None
    axes_file: Path | None = None
    limit: int | None = None
    shard: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Selection:
    """`digests[i]` belongs to `table.row(i)`, ascending. `rejected` is the part of the ledger that rules decide."""

    table: IdentityTable
    digests: npt.NDArray[np.uint8]
    rejected: Ledger


def select(scope: GridScope, dtype: str) -> Selection:
    """Enumerate and judge. Raises RequestError for unknown names, a bad axes file, and a scope without any kernel."""
    catalogue = open_catalogue(scope.arch, [dtype], scope.directions, scope.families, scope.axes_file)
    selection = in_digest_order(catalogue.buildable(scope.limit, scope.shard))
    if not len(selection.table):
        raise RequestError(f"this request selects no kernel of {scope.arch} {dtype}; see `rocke-aot count`")
    table, codes = catalogue.rejected()
    if scope.shard is not None:
        mask = in_shard(table_digests(table), *scope.shard)
        table, codes = table.take(mask), codes[mask]
    return Selection(selection.table, selection.digests, Ledger.of(table, OutcomeKind.REJECTED, codes, reason_codes()))


def in_digest_order(table: IdentityTable) -> Selection:
    """The same identities by digest, with nothing rejected."""
    digests = table_digests(table)
    # As big-endian words: numpy compares byte columns without their trailing zeros.
    words = np.zeros((len(table), 24), dtype=np.uint8)
    words[:, :DIGEST_BYTES] = digests
    order = np.lexsort(words.view(">u8").T[::-1])
    return Selection(table.take(order), digests[order], Ledger.empty())
