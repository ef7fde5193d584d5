"""Choosing part of a catalogue: a limit that spreads over all axes, and shards.

Both depend on identities alone, never on the order of the table, the number of jobs or the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.digest import table_digests
from cache_schema.errors import RequestError
from cache_schema.table import FAMILY, IdentityTable, is_constant
from grids.families import step_families

Index = npt.NDArray[np.intp]
Codes = npt.NDArray[Any]

#: Fields that only mean something together: each of these combinations is an axis of its own.
COMBINATIONS = (
    (FAMILY, "pipeline", "epilogue", "async_dma", "unroll_k"),
    ("tile_m", "tile_n"),
    ("warp_m", "warp_n", "warp_tile_m"),
)


def spread(table: IdentityTable, limit: int) -> IdentityTable:
    """At most `limit` rows that cover the axes evenly, in the order of the table.

    Guarantees: the same identities give the same choice whatever their order; a larger limit chooses a superset;
    every value of every axis (field, family, and the combinations above) appears once the limit reaches the size of a
    greedy cover, which is at most the number of values of all axes. Beyond that, the rows are taken in rounds, and
    each value of each axis gains a row per round until it has no more. Kernels of second steps come first.
    """
    if limit < 0:
        raise RequestError(f"limit {limit} is negative; give a number of kernels, 0 or more")
    if limit >= len(table):
        return table
    by_digest = _digest_order(table_digests(table))
    axes = [codes[by_digest] for codes in _axes(table)]
    rounds = np.full(len(table), len(table), dtype=np.int64)
    for codes in axes:
        np.minimum(rounds, _occurrence(codes), out=rounds)
    order = np.argsort(rounds, kind="stable")
    first_round = int((rounds == 0).sum())
    order[:first_round] = order[_greedy_cover([codes[order[:first_round]] for codes in axes])]
    # Without their second steps, kernels that have one cannot be launched.
    is_step = table.of_families(sorted(step_families()))[by_digest][order]
    order = np.concatenate([order[is_step], order[~is_step]])
    return table.take(np.sort(by_digest[order[:limit]]))


def shard(table: IdentityTable, index: int, count: int) -> IdentityTable:
    """The rows of shard `index` of `count` (counted from 1): equal, disjoint ranges of the digest space."""
    if not 1 <= index <= count:
        raise RequestError(f"shard {index}/{count} does not exist; shards are 1/N to N/N")
    if count == 1:
        return table
    return table.take(in_shard(table_digests(table), index, count))


def in_shard(digests: npt.NDArray[np.uint8], index: int, count: int) -> npt.NDArray[np.bool_]:
    """Which of these digests, shape (rows, 20), lie in the range of shard `index` of `count`."""
    prefix = np.ascontiguousarray(digests[:, :4]).view(">u4")[:, 0].astype(np.uint64)
    mask: npt.NDArray[np.bool_] = (prefix * np.uint64(count)) >> np.uint64(32) == index - 1
    return mask


def _digest_order(digests: npt.NDArray[np.uint8]) -> Index:
    # Not by the front of the digest, which decides the shard: the shards of a limited build have to be equal too.
    words = np.ascontiguousarray(digests[:, 4:20]).view(">u8").astype(np.uint64)
    return np.lexsort((words[:, 1], words[:, 0]))


def _axes(table: IdentityTable) -> list[Codes]:
    """Small codes per row of every axis that has more than one value."""
    varying = {name: column for name, column in table.columns.items() if len(column) and not is_constant(column)}
    parts: list[Sequence[Codes]] = [[column] for column in varying.values()]
    parts += [[varying[name] for name in names if name in varying] for names in COMBINATIONS]
    return [codes for codes in map(_combine, parts) if len(codes) and codes.max() > 0]


def _combine(columns: Sequence[Codes]) -> Codes:
    """One dense code per distinct combination of the columns."""
    codes = np.zeros(1, dtype=np.int64)
    for column in columns:
        dense = _dense(column)
        codes = _dense(codes * (int(dense.max()) + 1) + dense)
    # 16-bit keys sort by radix, several times faster than wider ones.
    return codes.astype(np.uint16) if codes.max() < 1 << 16 else codes


def _dense(values: Codes) -> Codes:
    """Small integers replaced by their rank among the values in use; unlike np.unique, without sorting."""
    offsets = values.astype(np.int64) - int(values.min())
    rank = np.cumsum(np.bincount(offsets) > 0) - 1
    ranked: Codes = rank[offsets]
    return ranked


def _occurrence(codes: Codes) -> npt.NDArray[np.int64]:
    """How many earlier rows have the same code."""
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(codes))))
    occurrence = np.empty(len(codes), dtype=np.int64)
    occurrence[order] = np.arange(len(codes)) - starts[codes[order]]
    return occurrence


def _greedy_cover(axes: Sequence[Codes]) -> list[int]:
    """An order of the rows in which each next one brings the most values not seen before; ties keep their order."""
    values = [{(axis, int(code)) for axis, code in enumerate(row)} for row in zip(*axes, strict=True)]
    left, seen, order = list(range(len(values))), set[tuple[int, int]](), []
    while left:
        best = max(left, key=lambda row: (len(values[row] - seen), -row))
        if not values[best] - seen:
            break
        order.append(best)
        left.remove(best)
        seen |= values[best]
    return order + left
