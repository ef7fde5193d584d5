"""Many identities as columns: the only form in which hundreds of thousands of them are ever held.

One numpy array per `Identity` field. Text fields are categorical (`columns[name]` holds codes into the sorted tuple
`vocab[name]`), flags are `np.bool_`, integers have the smallest dtype that fits. A column with one value may be a
0-stride broadcast, so that it costs nothing.

Integer columns are narrow: `tile_m * tile_n` overflows in uint16. Arithmetic starts from `IdentityTable.wide`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.identity import FIELD_DEFAULT, FIELD_KIND, FIELDS, Identity

Column = npt.NDArray[Any]
#: What a column may be given as: one value for all rows, one per row, or (codes, vocabulary) for text.
ColumnSource = str | int | bool | Column | Sequence[Any] | tuple[Column, Sequence[str]]

#: Tried in this order: unsigned first, since hardly any field is ever negative.
INT_DTYPES = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<i1"), np.dtype("<i2"), np.dtype("<i4"))
CODE_DTYPES = (np.dtype("<i1"), np.dtype("<i2"), np.dtype("<i4"))


@dataclass(frozen=True, eq=False)
class IdentityTable:
    """`length` identities; `columns` has every field in declaration order, `vocab` every text field."""

    length: int
    columns: Mapping[str, Column]
    vocab: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_columns(cls, length: int, values: Mapping[str, ColumnSource]) -> IdentityTable:
        """Build from scalars and arrays by field name; absent fields take the default of `Identity`.

        Raises ValueError for unknown names, missing key fields, wrong lengths and integers beyond 32 bits.
        """
        unknown = sorted(set(values) - set(FIELDS))
        missing = [name for name in FIELDS if name not in values and name not in FIELD_DEFAULT]
        if unknown or missing:
            raise ValueError(f"identity columns: unknown {unknown}, missing {missing}")
        columns: dict[str, Column] = {}
        vocab: dict[str, tuple[str, ...]] = {}
        for name in FIELDS:
            source = values[name] if name in values else FIELD_DEFAULT[name]
            if FIELD_KIND[name] == "str":
                columns[name], vocab[name] = _text_column(source, length)
            elif FIELD_KIND[name] == "bool":
                columns[name] = _flat(np.asarray(source), length, name).astype(np.bool_, copy=False)
            else:
                columns[name] = _flat(_narrow(np.asarray(source), name), length, name)
            if len(columns[name]) != length:
                raise ValueError(f"identity column {name}: {len(columns[name])} rows, expected {length}")
        return cls(length, columns, vocab)

    @classmethod
    def from_identities(cls, identities: Sequence[Identity]) -> IdentityTable:
        """One row per identity, in the given order."""
        values: dict[str, ColumnSource] = {name: [getattr(i, name) for i in identities] for name in FIELDS}
        if not identities:
            values = {name: _EMPTY[FIELD_KIND[name]] for name in FIELDS}
        return cls.from_columns(len(identities), values)

    def __len__(self) -> int:
        return self.length

    def row(self, index: int) -> Identity:
        """The identity of one row as an object."""
        values = {name: self.columns[name][index].item() for name in FIELDS}
        for name, words in self.vocab.items():
            values[name] = words[values[name]]
        return Identity(**values)

    def take(self, index: npt.NDArray[Any]) -> IdentityTable:
        """The rows selected by an integer index array or a boolean mask, in that order."""
        picked = np.arange(self.length)[index]
        columns = {
            name: np.broadcast_to(column[:1], picked.shape) if is_constant(column) else column[picked]
            for name, column in self.columns.items()
        }
        return IdentityTable(len(picked), columns, dict(self.vocab))

    def wide(self, name: str) -> npt.NDArray[np.int64]:
        """An integer or flag column as int64, safe for products."""
        if name in self.vocab:
            raise ValueError(f"identity column {name} is text")
        column = self.columns[name]
        if is_constant(column):
            return np.broadcast_to(column[:1].astype(np.int64), column.shape)
        return column.astype(np.int64)

    def strings(self, name: str) -> npt.NDArray[np.object_]:
        """A text column as an object array of str."""
        words = np.array(self.vocab[name], dtype=object)
        taken: npt.NDArray[np.object_] = words[self.columns[name]] if self.length else np.empty(0, dtype=object)
        return taken

    def equals(self, name: str, value: str | int | bool) -> npt.NDArray[np.bool_]:
        """Mask of the rows whose field has this value; for text without materialising the words."""
        if name in self.vocab:
            words = self.vocab[name]
            if value not in words:
                return np.zeros(self.length, dtype=np.bool_)
            value = words.index(str(value))
        mask: npt.NDArray[np.bool_] = self.columns[name] == value
        return mask

    def rows_equal_to(self, identity: Identity) -> npt.NDArray[np.int64]:
        """Indices of the rows that hold exactly this identity."""
        rows = np.arange(self.length)
        for name in FIELDS:
            column = self.columns[name]
            value = getattr(identity, name)
            if name in self.vocab:
                value = self.vocab[name].index(value) if value in self.vocab[name] else -1
            if not is_constant(column):
                rows = rows[column[rows] == value]
            elif column[0] != value:
                rows = rows[:0]
            if not len(rows):
                break
        return rows


def concat(tables: Sequence[IdentityTable]) -> IdentityTable:
    """All rows of all tables, in order; vocabularies are merged, common constants stay constant."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return IdentityTable.from_identities(())
    length = sum(map(len, filled))
    values: dict[str, ColumnSource] = {}
    for name in FIELDS:
        if FIELD_KIND[name] == "str":
            merged = sorted({word for table in filled for word in table.vocab[name]})
            code = {word: position for position, word in enumerate(merged)}
            maps = [np.array([code[word] for word in table.vocab[name]], dtype=np.int32) for table in filled]
            parts = [
                np.broadcast_to(to_merged[table.columns[name][:1]], len(table))
                if is_constant(table.columns[name])
                else to_merged[table.columns[name]]
                for to_merged, table in zip(maps, filled, strict=True)
            ]
            joined = _join(parts, length)
            values[name] = (joined, merged)
        else:
            values[name] = _join([table.columns[name] for table in filled], length)
    return IdentityTable.from_columns(length, values)


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


_EMPTY: dict[str, Column] = {
    "str": np.empty(0, dtype=object),
    "int": np.empty(0, dtype=np.uint8),
    "bool": np.empty(0, dtype=np.bool_),
}


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
