"""The families and fields of a cache file, and how those of another release are read.

A file describes every family that it has rows of, in its directory:

    families  = {family: {"direction": direction, "fields": [[name, kind, default, tag, role], ...]}}

without the key fields, which all have. A reader that knows a family fills in the default of a field that the file
lacks: it was written before there was one. A field that the reader lacks must hold its default in every row that is
read, since the reader cannot tell what another value means; then it is left out. A family that the reader lacks is
kept as the file describes it, so that it can be shown; it serves no problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.cache_columns import FLAG, ColumnGroup, Rule, integer
from cache_schema.errors import CacheError
from cache_schema.identity import (
    CAPABILITY,
    CONFIGURATION,
    INT_RANGE,
    KEYS,
    KINDS,
    Axis,
    Field,
    Schema,
    Value,
    foreign_schema,
    is_name,
    known_schemas,
)
from cache_schema.problem import DIRECTIONS
from cache_schema.table import FAMILY, IdentityTable, union_fields

Column = npt.NDArray[Any]
_PYTHON = {"str": str, "int": int, "bool": bool}
#: Families and fields of one file, far beyond what there is.
_MOST = 256


def describe_families(schemas: tuple[Schema, ...]) -> dict[str, Any]:
    """The description of these families for a directory."""
    return {
        schema.family: {
            "direction": schema.direction,
            "fields": [
                [entry.name, entry.kind, entry.default, entry.axis.tag, entry.axis.role]
                for entry in schema.fields
                if entry.axis
            ],
        }
        for schema in schemas
    }


@dataclass(frozen=True)
class FileFamilies:
    """Per family what the file wrote and how it is read here, in the order of the file's family codes."""

    where: str
    written: tuple[Schema, ...]
    read: tuple[Schema, ...]

    @cached_property
    def stored(self) -> dict[str, Field]:
        """The fields that the file has columns of, by name."""
        return union_fields(self.written)

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields that tables read from the file have, by name."""
        return union_fields(self.read)

    def rules(self, vocabulary: Mapping[str, tuple[str, ...]]) -> dict[str, Rule]:
        """What the stored columns may hold: what any family of the file allows, and what rows without the field do."""
        rules = {FAMILY: integer(0, len(self.written) - 1)}
        for name, entry in self.stored.items():
            if entry.kind == "str":
                rules[name] = integer(0, len(vocabulary[name]) - 1)
            elif entry.kind == "bool":
                rules[name] = FLAG
            else:
                owners = [schema.by_name.get(name) for schema in self.read]
                bounds = [owner.axis for owner in owners if owner is not None and owner.axis]
                unknown = len(bounds) < sum(name in schema.by_name for schema in self.written)
                lacking = any(name not in schema.by_name for schema in self.written)
                least = min([INT_RANGE[0]] * unknown + [0] * lacking + [axis.least for axis in bounds])
                most = max([INT_RANGE[1]] * unknown + [0] * lacking + [axis.most for axis in bounds])
                rules[name] = integer(least, most)
        return rules

    def vocabulary(self, stored: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The words of the tables read from the file, from those of the file: with the defaults that are filled in."""
        words = {FAMILY: tuple(schema.family for schema in self.written)}
        for name, entry in self.fields.items():
            if entry.kind == "str":
                words[name] = stored.get(name, ())
                usual = [schema.by_name[name].default for schema in self.read if name in schema.by_name]
                words[name] += tuple(str(word) for word in dict.fromkeys(usual) if word not in (None, *words[name]))
        return words

    def values(self, stored: Mapping[str, Value | None], code: int) -> dict[str, Any]:
        """The fields of one row of family `code` as read here, from what the file stores of it.

        CacheError for a value that a family does not have, and for one of a field that is not known here.
        """
        written, read = self.written[code], self.read[code]
        for name, entry in written.by_name.items():
            if name not in read.by_name and stored[name] != entry.default:
                raise self._unknown(written, name)
        values = {}
        for name, entry in read.by_name.items():
            values[name] = stored[name] if name in written.by_name else entry.default
            axis = entry.axis
            value: Any = values[name]
            if axis and entry.kind == "int" and not axis.least <= value <= axis.most:
                raise CacheError(f"{self.where}: a {read.family} kernel has {name} {value}")
        return values

    def _unknown(self, schema: Schema, name: str) -> CacheError:
        return CacheError(
            f"{self.where}: {schema.family} kernels have a field {name!r} that this release of rocke-aot does not "
            "know, and some set it: use the release that wrote the file"
        )

    def table(self, group: ColumnGroup, vocabulary: Mapping[str, tuple[str, ...]]) -> IdentityTable:
        """The table of a group of identities; its columns are made when first used, and may raise CacheError."""
        words = self.vocabulary(vocabulary)
        return IdentityTable(group.rows, _ReadColumns(self, group, vocabulary, words), words, self.read)

    def check_unknown(self, stored: Mapping[str, Column], vocabulary: Mapping[str, tuple[str, ...]]) -> None:
        """CacheError where a field that is not known here has another value than its default."""
        for code, (written, read) in enumerate(zip(self.written, self.read, strict=True)):
            for name, entry in written.by_name.items():
                if name in read.by_name:
                    continue
                values = stored[name][stored[FAMILY] == code]
                usual = _stored_value(entry, vocabulary)
                if (values != usual).any():
                    raise self._unknown(written, name)


class _ReadColumns(Mapping[str, Column]):
    """The columns of a file, with the defaults of fields that are newer than it."""

    def __init__(
        self,
        families: FileFamilies,
        stored: Mapping[str, Column],
        vocabulary: Mapping[str, tuple[str, ...]],
        words: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._families, self._stored = families, stored
        self._vocabulary, self._words = vocabulary, words
        self._made: dict[str, Column] = {}
        self._checked = not any(
            name not in read.by_name
            for written, read in zip(families.written, families.read, strict=True)
            for name in written.by_name
        )

    def __getitem__(self, name: str) -> Column:
        if not self._checked:
            self._families.check_unknown(self._stored, self._vocabulary)
            self._checked = True
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Column:
        families = self._families
        if name != FAMILY and name not in families.fields:
            raise KeyError(name)
        column: Column | None = self._stored[name] if name == FAMILY or name in families.stored else None
        for code, (written, read) in enumerate(zip(families.written, families.read, strict=True)):
            if name == FAMILY or name in written.by_name or name not in read.by_name:
                continue
            rows = self._stored[FAMILY] == code
            usual = np.asarray(_stored_value(read.by_name[name], self._words))
            blank = np.zeros(len(rows), dtype=usual.dtype) if column is None else column
            column = np.where(rows, usual, blank)
        if column is None:
            return np.zeros(len(self._stored[FAMILY]), dtype=np.uint8)
        if name != FAMILY:
            self._check_bounds(name, column)
        return column

    def _check_bounds(self, name: str, column: Column) -> None:
        """CacheError for a value that a family does not allow; the rules of the file let pass what any of them does."""
        bounds: dict[tuple[int, int], list[int]] = {}
        for code, read in enumerate(self._families.read):
            entry = read.by_name.get(name)
            if entry and entry.axis and entry.kind == "int":
                bounds.setdefault((entry.axis.least, entry.axis.most), []).append(code)
        for (least, most), codes in bounds.items():
            beyond = (column < least) | (column > most)
            if beyond.any():
                owners = np.zeros(len(self._families.read), dtype=np.bool_)
                owners[codes] = True
                beyond &= owners[self._stored[FAMILY]]
                if beyond.any():
                    value, families = column[np.argmax(beyond)], self._families
                    raise CacheError(f"{families.where}: a kernel has {name} {value}, which its family does not allow")

    def __iter__(self) -> Iterator[str]:
        return iter((FAMILY, *self._families.fields))

    def __len__(self) -> int:
        return 1 + len(self._families.fields)


def _stored_value(entry: Field, vocabulary: Mapping[str, tuple[str, ...]]) -> Any:
    """How the default of a field stands in a column; -1 for a word that no row has."""
    if entry.kind != "str":
        return entry.default
    words = vocabulary.get(entry.name, ())
    return words.index(str(entry.default)) if entry.default in words else -1


def read_families(where: str, data: Any) -> FileFamilies:
    """The families of a directory; CacheError for a description that cannot be, or contradicts this program."""
    if not isinstance(data, dict) or len(data) > _MOST or not all(map(is_name, data)):
        raise CacheError(f"{where}: malformed directory: no families")
    written, read = [], []
    for family in sorted(data):
        schema = _described(where, family, data[family])
        known = known_schemas().get(family)
        if known is not None:
            _require_agreement(where, schema, known)
        written.append(schema)
        read.append(schema if known is None else known)
    families = FileFamilies(where, tuple(written), tuple(read))
    try:
        _ = families.stored, families.fields
    except ValueError as error:
        raise CacheError(f"{where}: malformed directory: {error}") from error
    return families


def _described(where: str, family: str, data: Any) -> Schema:
    malformed = CacheError(f"{where}: malformed directory: family {family} is not described")
    if not isinstance(data, dict) or data.keys() != {"direction", "fields"} or data["direction"] not in DIRECTIONS:
        raise malformed
    listed = data["fields"]
    if not isinstance(listed, list) or len(listed) > _MOST:
        raise malformed
    fields = []
    for described in listed:
        if not isinstance(described, list) or len(described) != 5:
            raise malformed
        name, kind, default, tag, role = described
        sound = is_name(name) and name not in KEYS and kind in KINDS and type(default) is _PYTHON[kind]
        if not sound or not isinstance(tag, str) or role not in (CONFIGURATION, CAPABILITY):
            raise malformed
        if kind == "int" and not INT_RANGE[0] <= default <= INT_RANGE[1]:
            raise malformed
        fields.append(Field(name, kind, default, Axis(tag, "", role, *INT_RANGE)))
    if len({entry.name for entry in fields}) < len(fields):
        raise malformed
    return foreign_schema(family, data["direction"], tuple(fields))


def _require_agreement(where: str, written: Schema, known: Schema) -> None:
    """What a name means never changes between releases."""
    differing = [
        name
        for name, entry in written.by_name.items()
        if name in known.by_name
        and (entry.kind, entry.default) != (known.by_name[name].kind, known.by_name[name].default)
    ]
    if written.direction != known.direction:
        differing.append("direction")
    if differing:
        raise CacheError(f"{where}: {written.family} kernels are of another kind here; they differ in {differing[0]}")
