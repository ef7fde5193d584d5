"""The catalogue: which kernels exist for an architecture, counted and selected.

catalogue = open_catalogue("gfx950", ["bf16"], directions=["fwd"])
catalogue.buildable(limit=2000)     what to build
catalogue.count_rows()              what was rejected, and why
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.errors import RequestError, UnknownValueError
from cache_schema.problem import DTYPES
from cache_schema.table import IdentityTable, concat
from grids.axes import load_axes
from grids.families import select, with_steps
from grids.family import AxisCodes, Family, field_codes
from grids.rules import Verdicts, evaluate
from grids.selection import shard, spread
from grids.targets import target


@dataclass(frozen=True, slots=True)
class CountRow:
    """One family of one dtype. `admitted` passes the published rules, `buildable` our builders' needs as well."""

    arch: str
    dtype: str
    direction: str
    family: str
    candidates: int
    admitted: int
    buildable: int
    rejected: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Plain data for `count --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AxisRow:
    """One value of one axis of a direction."""

    dtype: str
    direction: str
    axis: str
    value: str
    candidates: int
    admitted: int
    buildable: int

    def to_json(self) -> dict[str, Any]:
        """Plain data for `describe --json`."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Part:
    """The candidates of one family and dtype, judged."""

    arch: str
    dtype: str
    family: Family
    table: IdentityTable
    verdicts: Verdicts


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Every candidate of a request, judged, in parts."""

    parts: tuple[Part, ...]

    def buildable(self, limit: int | None = None, shard_of: tuple[int, int] | None = None) -> IdentityTable:
        """The identities to build, families in order.

        `limit` keeps at most that many over all dtypes and directions together (`selection.spread` says which);
        `shard_of` = (i, n) then keeps shard i of n, so that the shards of a limited build make up that build.
        """
        table = concat([part.table.take(part.verdicts.buildable) for part in self.parts])
        if limit is not None:
            table = spread(table, limit)
        return table if shard_of is None else shard(table, *shard_of)

    def rejected(self) -> tuple[IdentityTable, npt.NDArray[np.int16]]:
        """The candidates that are not built, and the positions of their reasons in `rules.reason_codes()`."""
        masks = [~part.verdicts.buildable for part in self.parts]
        codes = [part.verdicts.codes[mask] for part, mask in zip(self.parts, masks, strict=True)]
        tables = [part.table.take(mask) for part, mask in zip(self.parts, masks, strict=True)]
        return concat(tables), np.concatenate([np.zeros(0, dtype=np.int16), *codes])

    def count_rows(self) -> list[CountRow]:
        """Sizes per dtype and family, with the rejected by reason."""
        return [
            CountRow(
                arch=part.arch,
                dtype=part.dtype,
                direction=part.family.direction,
                family=part.family.name,
                candidates=len(part.table),
                admitted=int(part.verdicts.admitted.sum()),
                buildable=int(part.verdicts.buildable.sum()),
                rejected=part.verdicts.counts(),
            )
            for part in self.parts
        ]

    def axis_rows(self) -> list[AxisRow]:
        """Sizes per value of every axis that has more than one, per dtype and direction."""
        totals: dict[tuple[str, str, str, Any], np.ndarray[Any, Any]] = {}
        for part in self.parts:
            levels = (part.verdicts.published >= 0, part.verdicts.admitted, part.verdicts.buildable)
            for axis, codes, words in _breakdown(part):
                for place, level in enumerate(levels):
                    for code, total in enumerate(np.bincount(codes[level], minlength=len(words))):
                        key = (part.dtype, part.family.direction, axis, words[code])
                        totals.setdefault(key, np.zeros(3, dtype=np.int64))[place] += total
        used = {key: counts for key, counts in totals.items() if counts[0]}
        values = {key[:3]: [other[3] for other in used if other[:3] == key[:3]] for key in used}
        return [
            AxisRow(dtype, direction, axis, str(value), *map(int, used[dtype, direction, axis, value]))
            for (dtype, direction, axis), found in values.items()
            if len(found) > 1
            for value in sorted(found, key=lambda value: (isinstance(value, str), value))
        ]


def open_catalogue(
    arch: str,
    dtypes: Iterable[str] = DTYPES,
    directions: Iterable[str] | None = None,
    families: Iterable[str] | None = None,
    axes_file: Path | None = None,
) -> Catalogue:
    """Enumerate and judge every candidate of a request; None means all.

    Raises `UnknownValueError` for an unknown architecture, dtype, direction or family, `AxesError` for a bad axes
    file, and `RequestError` when the named families are none of the named directions.
    """
    gpu = target(arch)
    wanted = tuple(dict.fromkeys(dtypes))
    for dtype in wanted:
        if dtype not in DTYPES:
            raise UnknownValueError("dtype", dtype, DTYPES)
    axes = load_axes(axes_file)
    chosen = with_steps(select(directions, families))
    if not chosen:
        raise RequestError("no family of this name serves this direction; `rocke-aot count` lists them")
    parts = []
    for dtype in wanted:
        for family in chosen:
            table = family.candidates(gpu, dtype, axes[family.name])
            parts.append(Part(arch, dtype, family, table, evaluate(table)))
    return Catalogue(tuple(parts))


def buildable(
    arch: str,
    dtypes: Iterable[str] = DTYPES,
    directions: Iterable[str] | None = None,
    families: Iterable[str] | None = None,
    axes_file: Path | None = None,
    limit: int | None = None,
) -> IdentityTable:
    """The identities to build for a request; see `Catalogue.buildable`."""
    return open_catalogue(arch, dtypes, directions, families, axes_file).buildable(limit)


def _breakdown(part: Part) -> Iterable[AxisCodes]:
    """The family, what it adds to its fields, and every field behind the key fields."""
    rows = len(part.table)
    yield "family", np.zeros(rows, dtype=np.int8), (part.family.name,)
    yield from part.family.breakdown(part.table)
    for entry in part.family.schema.fields:
        if entry.axis:
            yield field_codes(part.table, entry.name)
