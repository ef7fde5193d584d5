"""Many identities as columns: the only form in which hundreds of thousands of them are ever held.

One numpy array per field of the families in the table, and one that says which family a row is of. Text fields are
categorical (`columns[name]` holds codes into the sorted tuple `vocab[name]`), flags are `np.bool_`, integers have the
smallest dtype that fits. A column with one value may be a 0-stride broadcast, so that it costs nothing. Where a family
lacks a field its rows hold nothing of meaning there (`identity.ABSENT`): what is to be read across families is asked
for by `wide`, `strings` or `equals`, which know what a family fixes.

Integer columns are narrow: `tile_m * tile_n` overflows in uint16. Arithmetic starts from `IdentityTable.wide`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.identity import ABSENT, KEYS, Field, Identity, Schema, Value, schema_of, schema_of_record

Column = npt.NDArray[Any]
#: What a column may be given as: one value for all rows, one per row, or (codes, vocabulary) for text.
ColumnSource = str | int | bool | Column | Sequence[Any] | tuple[Column, Sequence[str]]
#: Where the rows of one family stand in a table.
RowIndex = slice | npt.NDArray[np.intp]

FAMILY = "family"
#: Tried in this order: unsigned first, since hardly any field is ever negative.
INT_DTYPES = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<i1"), np.dtype("<i2"), np.dtype("<i4"))
CODE_DTYPES = (np.dtype("<i1"), np.dtype("<i2"), np.dtype("<i4"))


def union_fields(schemas: Sequence[Schema]) -> dict[str, Field]:
    """All fields of these families by name: key fields, then each in the order in which it first appears.

    Raises ValueError where two families mean different kinds by one name.
    """
    found = {name: Field(name, "str", None) for name in KEYS}
    for schema in schemas:
        for entry in schema.fields:
            if found.setdefault(entry.name, entry).kind != entry.kind:
                raise ValueError(f"field {entry.name} is {entry.kind} in family {schema.family}, elsewhere it is not")
    return found


@dataclass(frozen=True, eq=False)
class IdentityTable:
    """`length` identities of the families `schemas`, which ascend by name as `vocab["family"]` does.

    `columns` has "family" and every field of `union_fields(schemas)`, `vocab` every text one of them.
    """

    length: int
    columns: Mapping[str, Column]
    vocab: Mapping[str, tuple[str, ...]]
    schemas: tuple[Schema, ...]

    @classmethod
    def from_columns(cls, record: type[Identity], length: int, values: Mapping[str, ColumnSource]) -> IdentityTable:
        """Rows of one family from scalars and arrays by field name; absent fields take their default.

        Raises ValueError for unknown names, missing key fields, wrong lengths and integers beyond 32 bits.
        """
        schema = schema_of_record(record)
        unknown = sorted(set(values) - set(schema.names))
        missing = [name for name in KEYS if name not in values]
        if unknown or missing:
            raise ValueError(f"identity columns: unknown {unknown}, missing {missing}")
        columns, vocab = _family_column(schema.family, length)
        for entry in schema.fields:
            source: Any = values.get(entry.name, entry.default)
            if entry.kind == "str":
                columns[entry.name], vocab[entry.name] = _text_column(source, length)
            elif entry.kind == "bool":
                columns[entry.name] = _flat(np.asarray(source), length, entry.name).astype(np.bool_, copy=False)
            else:
                columns[entry.name] = _flat(_narrow(np.asarray(source), entry.name), length, entry.name)
            if len(columns[entry.name]) != length:
                raise ValueError(f"identity column {entry.name}: {len(columns[entry.name])} rows, expected {length}")
        return cls(length, columns, vocab, (schema,))

    @classmethod
    def from_identities(cls, identities: Sequence[Identity]) -> IdentityTable:
        """One row per identity, in the given order."""
        rows: dict[type[Identity], list[int]] = {}
        for number, identity in enumerate(identities):
            rows.setdefault(type(identity), []).append(number)
        parts = []
        for record, numbers in rows.items():
            names = schema_of_record(record).names
            values = {name: [getattr(identities[number], name) for number in numbers] for name in names}
            parts.append(cls.from_columns(record, len(numbers), values))
        joined = concat(parts)
        place = np.argsort(np.array([number for numbers in rows.values() for number in numbers], dtype=np.intp))
        return joined if len(rows) < 2 else joined.take(place)

    def __len__(self) -> int:
        return self.length

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields of all families by name, in the order of the columns."""
        return union_fields(self.schemas)

    def row(self, index: int) -> Identity:
        """The identity of one row as an object."""
        schema = self.schemas[int(self.columns[FAMILY][index])]
        values: dict[str, Any] = {}
        for name in schema.names:
            value = self.columns[name][index].item()
            values[name] = self.vocab[name][value] if name in self.vocab else value
        return schema.record(**values)

    # By family

    def parts(self) -> Iterator[tuple[Schema, RowIndex, IdentityTable]]:
        """The rows of each family: where they stand, and as a table of their own. Families without rows are left out.

        Columns of the parts are taken when first used, once for the life of this table.
        """
        if len(self.schemas) == 1 and self.length:
            yield self.schemas[0], slice(None), self
            return
        for schema in self.schemas:
            rows, part = self._parts[schema.family]
            if len(part):
                yield schema, rows, part

    @cached_property
    def _parts(self) -> dict[str, tuple[npt.NDArray[np.intp], IdentityTable]]:
        found, codes = {}, self.columns[FAMILY]
        for code, schema in enumerate(self.schemas):
            rows = np.flatnonzero(codes == code)
            _, vocab = _family_column(schema.family, 0)
            words = {name: self.vocab[name] for name in schema.names if name in self.vocab}
            part = IdentityTable(len(rows), _Taken(self, schema, rows), {**vocab, **words}, (schema,))
            found[schema.family] = rows, part
        return found

    def of_families(self, families: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Mask of the rows of these families."""
        wanted = np.array([schema.family in families for schema in self.schemas], dtype=np.bool_)
        mask: npt.NDArray[np.bool_] = wanted[self.columns[FAMILY]] if self.length else np.zeros(0, dtype=np.bool_)
        return mask

    def family_sizes(self) -> dict[str, int]:
        """Rows of every family that has any."""
        return {schema.family: len(part) for schema, _, part in self.parts()}

    def of_direction(self, direction: str) -> npt.NDArray[np.bool_]:
        """Mask of the rows of the families of this direction."""
        return self.of_families([schema.family for schema in self.schemas if schema.direction == direction])

    @property
    def directions(self) -> tuple[str, ...]:
        """Directions of the families that have rows."""
        return tuple(sorted({schema.direction for schema, _, _ in self.parts()}))

    # Across families

    def take(self, index: npt.NDArray[Any]) -> IdentityTable:
        """The rows selected by an integer index array or a boolean mask, in that order."""
        picked = np.arange(self.length)[index]
        columns = {
            name: np.broadcast_to(column[:1], picked.shape) if is_constant(column) else column[picked]
            for name, column in self.columns.items()
        }
        return IdentityTable(len(picked), columns, dict(self.vocab), self.schemas)

    def wide(self, name: str) -> npt.NDArray[np.int64]:
        """An integer or flag as int64, safe for products; where a family fixes it, what it fixes, and 0 where it has
        none. ValueError for text, and for what no family of the table has."""
        if self._kind(name) == "str":
            raise ValueError(f"identity column {name} is text")
        fixed = self._fixed(name)
        if len(fixed) == len(self.schemas):
            values = np.array([fixed[schema.family] for schema in self.schemas], dtype=np.int64)
            return np.broadcast_to(values[:1], self.length) if len(values) == 1 else values[self.columns[FAMILY]]
        column = self.columns[name]
        if is_constant(column) and not fixed:
            return np.broadcast_to(column[:1].astype(np.int64), column.shape)
        whole = column.astype(np.int64)
        for code, schema in enumerate(self.schemas):
            if fixed.get(schema.family):
                whole[self.columns[FAMILY] == code] = fixed[schema.family]
        return whole

    def flags(self, name: str) -> npt.NDArray[np.bool_]:
        """A flag, as `wide` has it."""
        return self.wide(name).astype(np.bool_)

    def strings(self, name: str) -> npt.NDArray[np.object_]:
        """A text field, or the family, as an object array of str; what a family fixes, or "" where it has none."""
        if name == FAMILY or name in self.columns:
            words = np.array(self.vocab[name], dtype=object)
            taken: npt.NDArray[np.object_] = words[self.columns[name]] if self.length else np.empty(0, dtype=object)
        else:
            taken = np.full(self.length, "", dtype=object)
        if name != FAMILY:
            for code, schema in enumerate(self.schemas):
                if name not in schema.by_name:
                    taken[self.columns[FAMILY] == code] = schema.constants.get(name, "")
        return taken

    def equals(self, name: str, value: Value) -> npt.NDArray[np.bool_]:
        """Mask of the rows whose field has this value, or whose family fixes it to it."""
        if name == FAMILY:
            return self.of_families([str(value)])
        if self._kind(name) != "str":
            mask: npt.NDArray[np.bool_] = self.wide(name) == value
            return mask
        words = self.vocab.get(name, ())
        mask = self.columns[name] == words.index(str(value)) if value in words else np.zeros(self.length, np.bool_)
        for code, schema in enumerate(self.schemas):
            if name not in schema.by_name:
                mask[self.columns[FAMILY] == code] = schema.constants.get(name, "") == value
        return mask

    def rows_equal_to(self, identity: Identity) -> npt.NDArray[np.int64]:
        """Indices of the rows that hold exactly this identity."""
        schema = schema_of(identity)
        if schema not in self.schemas:
            return np.zeros(0, dtype=np.int64)
        rows = np.arange(self.length)
        for name in (FAMILY, *schema.names):
            column = self.columns[name]
            value: Any = getattr(identity, name)
            if name in self.vocab:
                value = self.vocab[name].index(value) if value in self.vocab[name] else -1
            if not is_constant(column):
                rows = rows[column[rows] == value]
            elif column[0] != value:
                rows = rows[:0]
            if not len(rows):
                break
        return rows

    def widened(self, schemas: Sequence[Schema]) -> IdentityTable:
        """The same rows in a table that has the columns of more families; `schemas` ascend and include its own."""
        wanted = tuple(schemas)
        if wanted == self.schemas:
            return self
        recode = np.array([wanted.index(schema) for schema in self.schemas], dtype=CODE_DTYPES[0])
        columns: dict[str, Column] = {FAMILY: _recoded(self.columns[FAMILY], recode, self.length)}
        vocab: dict[str, tuple[str, ...]] = {FAMILY: tuple(schema.family for schema in wanted)}
        for name, entry in union_fields(wanted).items():
            if name in self.columns:
                columns[name] = self.columns[name]
                if name in self.vocab:
                    vocab[name] = self.vocab[name]
            elif entry.kind == "str":
                columns[name], vocab[name] = _text_column(ABSENT["str"], self.length)
            else:
                columns[name] = np.broadcast_to(_narrowed(ABSENT[entry.kind]), self.length)
        return IdentityTable(self.length, columns, vocab, wanted)

    # Inside

    def _kind(self, name: str) -> str:
        """Kind of a field or of what families fix; ValueError where none of them has it."""
        if name in self.fields:
            return self.fields[name].kind
        for schema in self.schemas:
            if name in schema.constants:
                return type(schema.constants[name]).__name__
        raise ValueError(f"no family among {', '.join(schema.family for schema in self.schemas)} has {name}")

    def _fixed(self, name: str) -> dict[str, int]:
        """What the families that lack the field fix it to."""
        return {
            schema.family: int(schema.constants.get(name, 0)) for schema in self.schemas if name not in schema.by_name
        }


class _Taken(Mapping[str, Column]):
    """The columns of one family's rows, each taken when first used."""

    def __init__(self, table: IdentityTable, schema: Schema, rows: npt.NDArray[np.intp]) -> None:
        self._table, self._schema, self._rows = table, schema, rows
        self._taken: dict[str, Column] = {FAMILY: _family_column(schema.family, len(rows))[0][FAMILY]}

    def __getitem__(self, name: str) -> Column:
        if name not in self._taken:
            if name not in self._schema.by_name:
                raise KeyError(name)
            column = self._table.columns[name]
            constant = is_constant(column)
            self._taken[name] = np.broadcast_to(column[:1], len(self._rows)) if constant else column[self._rows]
        return self._taken[name]

    def __iter__(self) -> Iterator[str]:
        return iter((FAMILY, *self._schema.names))

    def __len__(self) -> int:
        return 1 + len(self._schema.fields)


def concat(tables: Sequence[IdentityTable]) -> IdentityTable:
    """All rows of all tables, in order; families and vocabularies are merged, common constants stay constant."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return EMPTY
    if len(filled) == 1:
        return _compact(filled[0])
    schemas = merged_schemas([schema for table in filled for schema in table.schemas])
    wide = [table.widened(schemas) for table in filled]
    length = sum(map(len, wide))
    columns: dict[str, Column] = {FAMILY: _join([table.columns[FAMILY] for table in wide], length)}
    vocab: dict[str, tuple[str, ...]] = {FAMILY: tuple(schema.family for schema in schemas)}
    for name, entry in union_fields(schemas).items():
        if entry.kind == "str":
            merged = sorted({word for table in wide for word in table.vocab[name]})
            code = {word: position for position, word in enumerate(merged)}
            maps = [np.array([code[word] for word in table.vocab[name]], dtype=np.int32) for table in wide]
            parts = [_recoded(table.columns[name], to, len(table)) for to, table in zip(maps, wide, strict=True)]
            columns[name], vocab[name] = _text_column((_join(parts, length), merged), length)
        elif entry.kind == "bool":
            columns[name] = _join([table.columns[name] for table in wide], length)
        else:
            columns[name] = _narrow(_join([table.columns[name] for table in wide], length), name)
    return _compact(IdentityTable(length, columns, vocab, schemas))


def merged_schemas(schemas: Sequence[Schema]) -> tuple[Schema, ...]:
    """Each once, ascending by family. ValueError where two families have one name."""
    merged = tuple(sorted(set(schemas), key=lambda schema: schema.family))
    if len({schema.family for schema in merged}) < len(merged):
        raise ValueError("two families have one name")
    return merged


def _compact(table: IdentityTable) -> IdentityTable:
    """Without families that have no row, and without words in no use."""
    used = np.unique(table.columns[FAMILY]).tolist()
    schemas = tuple(table.schemas[code] for code in used)
    fields = union_fields(schemas)
    family = np.zeros(len(table.schemas), dtype=CODE_DTYPES[0])
    family[used] = np.arange(len(used))
    columns: dict[str, Column] = {FAMILY: _recoded(table.columns[FAMILY], family, len(table))}
    vocab: dict[str, tuple[str, ...]] = {FAMILY: tuple(schema.family for schema in schemas)}
    if len(used) == 1:
        columns[FAMILY] = np.broadcast_to(columns[FAMILY][:1], len(table))
    for name, entry in fields.items():
        if entry.kind == "str":
            columns[name], vocab[name] = _text_column((table.columns[name], table.vocab[name]), len(table))
        elif entry.kind == "bool":
            columns[name] = table.columns[name]
        else:
            columns[name] = _narrow(table.columns[name], name)
    return IdentityTable(len(table), columns, vocab, schemas)


def is_constant(column: Column) -> bool:
    """True for a 0-stride column, which by its form has one value in all rows."""
    return len(column) > 1 and column.strides == (0,)


def smallest_dtype(low: int, high: int, dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """First dtype of the list that holds both bounds; ValueError when none does."""
    for dtype in dtypes:
        info = np.iinfo(dtype)
        if info.min <= low and high <= info.max:
            return dtype
    raise ValueError(f"values {low}..{high} do not fit {dtypes[-1].name}")


def _family_column(family: str, length: int) -> tuple[dict[str, Column], dict[str, tuple[str, ...]]]:
    """The column of a table of one family, and its vocabulary."""
    codes = np.broadcast_to(np.zeros((), dtype=CODE_DTYPES[0]), length)
    return {FAMILY: codes}, {FAMILY: (family,)}


def _recoded(codes: Column, to: Column, length: int) -> Column:
    """Codes in another vocabulary; constants stay constant."""
    return np.broadcast_to(to[codes[:1]], length) if is_constant(codes) else to[codes]


def _narrowed(value: Value) -> Column:
    return np.asarray(value, dtype=np.bool_ if isinstance(value, bool) else INT_DTYPES[0])


def _join(parts: Sequence[Column], length: int) -> Column:
    first = parts[0][0]
    if all((is_constant(part) or len(part) == 1) and part[0] == first for part in parts):
        return np.broadcast_to(np.asarray(first), length)
    return np.concatenate(parts)


def _flat(array: Column, length: int, name: str) -> Column:
    if array.ndim > 1:
        raise ValueError(f"identity column {name}: {array.ndim} dimensions")
    return np.broadcast_to(array, length) if array.ndim == 0 else array


def _narrow(array: Column, name: str) -> Column:
    if array.dtype.kind not in "iu" or not array.size:
        if array.size:
            raise ValueError(f"identity column {name}: dtype {array.dtype} is not an integer")
        return array.astype(INT_DTYPES[0])
    sample = array[:1] if array.ndim and is_constant(array) else array
    dtype = smallest_dtype(int(sample.min()), int(sample.max()), INT_DTYPES)
    if sample is not array:
        return np.broadcast_to(sample.astype(dtype), array.shape)
    return array.astype(dtype, copy=False)


def _text_column(source: Any, length: int) -> tuple[Column, tuple[str, ...]]:
    """Codes and the sorted vocabulary of exactly the words in use."""
    if isinstance(source, str):
        return np.broadcast_to(np.zeros((), dtype=CODE_DTYPES[0]), length), (source,)
    if isinstance(source, tuple) and len(source) == 2 and not isinstance(source[0], str):
        codes, given = np.asarray(source[0]), list(source[1])
        codes = np.broadcast_to(codes, length) if codes.ndim == 0 else codes
    else:
        given = sorted(set(source))
        code = {word: position for position, word in enumerate(given)}
        codes = np.fromiter((code[word] for word in source), dtype=np.int32, count=len(source))
    constant = is_constant(codes)
    used = np.unique(codes[:1] if constant else codes)
    if used.size and not 0 <= int(used[0]) <= int(used[-1]) < len(given):
        raise ValueError("identity column: a text code is outside its vocabulary")
    words = sorted({given[int(position)] for position in used})
    dtype = smallest_dtype(0, max(len(words) - 1, 0), CODE_DTYPES)
    place = {word: index for index, word in enumerate(words)}
    to_sorted = np.zeros(max(len(given), 1), dtype=dtype)
    to_sorted[used] = [place[given[int(position)]] for position in used]
    if constant:
        return np.broadcast_to(to_sorted[codes[:1]], length), tuple(words)
    return to_sorted[codes], tuple(words)


#: No identities of no family.
EMPTY = IdentityTable(
    0,
    {FAMILY: np.empty(0, dtype=CODE_DTYPES[0]), **{name: np.empty(0, dtype=CODE_DTYPES[0]) for name in KEYS}},
    {FAMILY: (), **dict.fromkeys(KEYS, ())},
    (),
)
