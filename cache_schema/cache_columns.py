"""Columns of a cache file: written as sections of the index, read back as arrays.

What a description claims is held against the space that there is before anything is read, and values against the
`Rule` of their column when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cache_schema.cache_format import SECTION_ALIGN
from cache_schema.errors import CacheError

Column = npt.NDArray[Any]
CONST = "const"
_FLAG = "|b1"
_INTS = {name: np.dtype(name) for name in ("|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4")}
#: Names of symbols; longer ones are nobody's.
_TEXT = re.compile(r"\|S[1-9][0-9]{0,3}")


class Source(Protocol):
    """Bytes by offset, verified before they are handed out."""

    where: str

    def view(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes, or CacheError."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a column may hold: flags, text, or integers from `least` to `most`, `items` of them per row."""

    kind: str
    least: int = 0
    most: int = 2**64 - 1
    items: int = 1


FLAG, TEXT = Rule("flag", 0, 1), Rule("text")


def integer(least: int, most: int) -> Rule:
    """One integer per row."""
    return Rule("integer", least, most)


def hashes(length: int) -> Rule:
    """Bytes of a digest, any at all."""
    return Rule("integer", 0, 255, length)


class _Stored(NamedTuple):
    """A column that has a section: its place, and the values that have to be looked at, if any have to."""

    dtype: np.dtype[Any]
    items: int
    offset: int
    width: int
    least: int | None
    most: int


class Sections:
    """Sections growing end to end, each at an aligned offset."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, content: bytes | memoryview) -> int:
        """Append a section; returns its offset."""
        self.data += bytes(-len(self.data) % SECTION_ALIGN)
        offset = len(self.data)
        self.data += content
        return offset

    def add_group(self, rows: int, columns: Mapping[str, Column], rules: Mapping[str, Rule]) -> dict[str, Any]:
        """Append the columns, those with a single value as a constant; returns the group's description.

        Raises ValueError for what `ColumnGroup` would not take back.
        """
        described: dict[str, Any] = {}
        for name, column in columns.items():
            if len(column) != rows:
                raise ValueError(f"column {name}: {len(column)} rows, expected {rows}")
            rule = rules[name]
            if (
                rows
                and rule.kind != TEXT.kind
                and not rule.least <= int(column.min()) <= int(column.max()) <= rule.most
            ):
                raise ValueError(
                    f"column {name}: {column.min()} to {column.max()}, allowed {rule.least} to {rule.most}"
                )
            if column.ndim == 1 and column.dtype.kind != "S" and rows and (column == column[0]).all():
                described[name] = [CONST, column[0].item()]
                continue
            stored = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
            items = stored.shape[1] if stored.ndim == 2 else 1
            described[name] = [stored.dtype.str, items, self.add(stored.tobytes())]
        return {"rows": rows, "columns": described}


def rows_of(where: str, name: str, description: Any) -> int:
    """Rows that a group claims to have."""
    rows = description.get("rows") if isinstance(description, dict) else None
    if type(rows) is not int or rows < 0:
        raise CacheError(f"{where}: malformed description of group {name!r}")
    return rows


class ColumnGroup(Mapping[str, Column]):
    """The columns of one group by name, each verified in full when it is first asked for, and read-only.

    `rules` has every column that there has to be, `space` the bytes of the source. Raises CacheError for a description
    that does not fit either.
    """

    def __init__(self, source: Source, name: str, description: Any, rules: Mapping[str, Rule], space: int) -> None:
        self._source, self._name = source, name
        self.rows = rows_of(source.where, name, description)
        columns = description.get("columns")
        if not isinstance(columns, dict) or columns.keys() != rules.keys():
            raise CacheError(f"{source.where}: malformed description of group {name!r}: not its columns")
        self._columns: dict[str, _Stored | int] = {}
        for column, rule in rules.items():
            stored = _described(columns[column] if isinstance(columns[column], list) else [], rule)
            ends = stored is not None and (type(stored) is not _Stored or _end(stored, self.rows) <= space)
            if stored is None or not ends:
                raise CacheError(f"{source.where}: malformed description of column {name}.{column}")
            self._columns[column] = stored
        self._arrays: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._arrays:
            self._arrays[name] = self.part(name, 0, self.rows)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def offset(self, name: str) -> int:
        """Where the section of a column begins; ValueError for one that has none."""
        stored = self._columns[name]
        if not isinstance(stored, _Stored):
            raise ValueError(f"column {self._name}.{name} is a constant")
        return stored.offset

    def sections(self) -> list[tuple[int, int]]:
        """(offset, bytes) of all sections."""
        stored = [column for column in self._columns.values() if isinstance(column, _Stored)]
        return [(column.offset, column.width * self.rows) for column in stored]

    def part(self, name: str, start: int, stop: int) -> Column:
        """Rows start to stop of one column; only their own bytes are verified. IndexError beyond the rows."""
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows {start} to {stop} of {self.rows} in group {self._name}")
        if name in self._arrays:
            return self._arrays[name][start:stop]
        stored = self._columns[name]
        if not isinstance(stored, _Stored):
            return np.broadcast_to(_constant(stored), stop - start)
        width = stored.width
        content = self._source.view(stored.offset + start * width, (stop - start) * width)
        flat = np.frombuffer(content, dtype=stored.dtype)
        if stored.least is not None and len(flat):
            values = flat.view(np.uint8) if stored.dtype.kind == "b" else flat
            low, high = int(values.min()), int(values.max())
            if low < stored.least or high > stored.most:
                raise self._misfit(name, low if low < stored.least else high)
        return flat if stored.items == 1 else flat.reshape(-1, stored.items)

    def at(self, name: str, row: int) -> Any:
        """One value as a Python number, or the bytes of a row of text or of several items."""
        stored = self._columns[name]
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows} in group {self._name}")
        if not isinstance(stored, _Stored):
            return stored
        width = stored.width
        content = bytes(self._source.view(stored.offset + row * width, width))
        if stored.items > 1:
            return content
        kind = stored.dtype.kind
        if kind == "S":
            return content.rstrip(b"\0")
        value = int.from_bytes(content, "little", signed=kind == "i")
        if stored.least is not None and not stored.least <= value <= stored.most:
            raise self._misfit(name, value)
        return bool(value) if kind == "b" else value

    def _misfit(self, name: str, value: int) -> CacheError:
        return CacheError(f"{self._source.where}: column {self._name}.{name} has a value that cannot be: {value}")


def _described(description: list[Any], rule: Rule) -> _Stored | int | None:
    """A column from its description, a constant as itself; None where it is not one that the rule allows."""
    if not description:
        return None
    first: Any = description[0]
    rest: list[Any] = description[1:]
    if first == CONST:
        value: Any = rest[0] if len(rest) == 1 and rule.items == 1 else None
        sound = type(value) is _CONSTANTS.get(rule.kind)
        return value if sound and rule.least <= value <= rule.most else None
    if len(rest) != 2 or type(first) is not str or type(rest[0]) is not int or type(rest[1]) is not int:
        return None
    items, offset = rest
    if items != rule.items or offset < 0 or offset % SECTION_ALIGN:
        return None
    if rule.kind == "integer" and first in _INTS:
        dtype = _INTS[first]
        holds = _RANGES[first]
        free = rule.least <= holds[0] and holds[1] <= rule.most
        return _Stored(dtype, items, offset, dtype.itemsize * items, None if free else rule.least, rule.most)
    if rule.kind == "flag" and first == _FLAG:
        return _Stored(np.dtype(np.bool_), items, offset, 1, 0, 1)
    if rule.kind == "text" and _TEXT.fullmatch(first):
        dtype = np.dtype(first)
        return _Stored(dtype, items, offset, dtype.itemsize, None, 0)
    return None


_CONSTANTS = {"flag": bool, "integer": int}
_RANGES = {name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for name, dtype in _INTS.items()}


def _end(stored: _Stored, rows: int) -> int:
    return stored.offset + stored.width * rows


def _constant(value: bool | int) -> Column:
    if isinstance(value, bool):
        return np.asarray(value)
    names = ("|i1", "<i2", "<i4") if value < 0 else ("|u1", "<u2", "<u4", "<u8")
    return np.asarray(value, dtype=next(_INTS[n] for n in names if _RANGES[n][0] <= value <= _RANGES[n][1]))
