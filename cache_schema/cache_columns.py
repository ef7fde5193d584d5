"""Groups of columns in a cache file: packed by the writer, read through a source that checks what it hands out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cache_schema.cache_format import SECTION_ALIGN
from cache_schema.errors import CacheError

Column = npt.NDArray[Any]
CONST = "const"
_DTYPES = ("|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "|b1")


class Source(Protocol):
    """Bytes by offset, verified before they are handed out."""

    where: str

    def view(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes, or CacheError."""


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

    def add_group(self, rows: int, columns: Mapping[str, Column]) -> dict[str, Any]:
        """Append the columns, those with a single value as a constant; returns the group's description."""
        described: dict[str, Any] = {}
        for name, column in columns.items():
            if len(column) != rows:
                raise ValueError(f"column {name}: {len(column)} rows, expected {rows}")
            if column.ndim == 1 and column.dtype.kind != "S" and rows and (column == column[0]).all():
                described[name] = [CONST, column[0].item()]
                continue
            stored = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
            items = stored.shape[1] if stored.ndim == 2 else 1
            described[name] = [stored.dtype.str, items, self.add(stored.tobytes())]
        return {"rows": rows, "columns": described}


class ColumnGroup(Mapping[str, Column]):
    """The columns of one group by name, each verified in full when it is first asked for, and read-only."""

    def __init__(self, source: Source, name: str, description: Any) -> None:
        self._source, self._name = source, name
        try:
            self.rows = int(description["rows"])
            self._columns: dict[str, Any] = dict(description["columns"])
        except (KeyError, TypeError, ValueError) as error:
            raise CacheError(f"{source.where}: malformed description of group {name!r}") from error
        self._arrays: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._arrays:
            self._arrays[name] = self.part(name, 0, self.rows)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def part(self, name: str, start: int, stop: int) -> Column:
        """Rows start to stop of one column; only their own bytes are verified. IndexError beyond the rows."""
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows {start} to {stop} of {self.rows} in group {self._name}")
        if name in self._arrays:
            return self._arrays[name][start:stop]
        first, *rest = self._columns[name]
        if first == CONST:
            return np.broadcast_to(_constant(rest[0]), stop - start)
        items, offset = rest
        if not (first in _DTYPES or first[:2] == "|S"):
            raise CacheError(f"{self._source.where}: column {self._name}.{name} has unknown type {first!r}")
        dtype = np.dtype(first)
        width = dtype.itemsize * items
        flat = np.frombuffer(self._source.view(offset + start * width, (stop - start) * width), dtype=dtype)
        return flat if items == 1 else flat.reshape(-1, items)

    def at(self, name: str, row: int) -> Any:
        """One value as a Python number, or the bytes of a row of text or of several items."""
        first, *rest = self._columns[name]
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows} in group {self._name}")
        if first == CONST:
            return rest[0]
        items, offset = rest
        width = int(first[2:]) * items
        content = bytes(self._source.view(offset + row * width, width))
        if items > 1:
            return content
        if first[1] == "S":
            return content.rstrip(b"\0")
        value = int.from_bytes(content, "little", signed=first[1] == "i")
        return bool(value) if first[1] == "b" else value


def _constant(value: bool | int) -> Column:
    if isinstance(value, bool):
        return np.asarray(value)
    dtypes = _DTYPES[4:7] if value < 0 else _DTYPES[:4]
    return np.asarray(value, dtype=next(d for d in dtypes if np.iinfo(np.dtype(d)).min <= value <= np.iinfo(d).max))
