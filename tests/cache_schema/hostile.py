"""Cache files with wrong content under right checksums: taken apart, changed in one place, sealed again."""

from __future__ import annotations

import copy
import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from hypothesis import strategies as st

from cache_schema.cache_format import HEADER_BYTES, MAGIC, PAGE, SEAL_BYTES, VERSION, read_header

#: What a number, a word or a list may be replaced by.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 63, 64, 255, 4096, 65_535, 2**24, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**63, 2**64,
    10**30, -(2**63), 0.5, 1e300, "", "x", "const", "<u4", "|S4", "\ud800", "é", "\x1b[2J", "x" * 5000, "gfx942",
    "fp16", [], {}, [0], [0, 0], [[0]], {"x": 0}, ["const", 0], ["const", 2**40], ["|u1", 1, 0], ["<u8", 2**33, 0],
    ["|S9999", 1, 0],
)  # fmt: skip
#: Numbers that are written into columns, as far as they fit.
CELLS = (
    0,
    1,
    2,
    3,
    7,
    64,
    127,
    128,
    255,
    256,
    1023,
    4096,
    65_535,
    2**24,
    2**31 - 1,
    2**32 - 1,
    2**40,
    2**63,
    2**64 - 1,
)


@dataclass(repr=False)
class Parts:
    """A cache file without anything that follows from the rest."""

    directory: Any
    index: bytearray
    frames: bytes
    claims: dict[str, int]  # numbers of the header that are to be wrong
    change: str = ""  # what was changed, for people

    def __repr__(self) -> str:
        return f"Parts({self.change})"

    @classmethod
    def of(cls, data: bytes) -> Parts:
        """Take a sound file apart."""
        header = read_header(data, len(data), "good")
        directory = json.loads(data[HEADER_BYTES : header.page_table_offset])
        index = bytearray(data[header.index_offset : header.frames_offset])
        return cls(directory, index, data[header.frames_offset : -SEAL_BYTES], {})

    def copy(self) -> Parts:
        """Another one, to be changed."""
        return Parts(copy.deepcopy(self.directory), bytearray(self.index), self.frames, dict(self.claims))

    def section(self, text: bytes) -> list[int]:
        """Append a section to the index; where it is."""
        self.index += bytes(-len(self.index) % 64)
        place = [len(self.index), len(text)]
        self.index += text
        return place

    def text(self, name: str) -> Any:
        """The JSON of a section: vocab, provenance or ledger."""
        offset, length = self._place(name)
        return json.loads(bytes(self.index[offset : offset + length]))

    def set_text(self, name: str, value: Any) -> None:
        """Replace the JSON of a section."""
        self._holder(name)[name] = self.section(json.dumps(value).encode())

    def _holder(self, name: str) -> Any:
        return self.directory["groups"]["identity"] if name == "vocab" else self.directory

    def _place(self, name: str) -> list[int]:
        place: list[int] = self._holder(name)[name]
        return place

    def columns(self) -> list[tuple[str, str]]:
        """(group, column) of everything that has a section."""
        groups = self.directory["groups"]
        return [(g, c) for g in groups for c, d in groups[g]["columns"].items() if d[0] != "const"]

    def array(self, group: str, column: str) -> np.ndarray[Any, Any]:
        """The cells of a column, to be written to."""
        dtype, items, offset = self.directory["groups"][group]["columns"][column]
        rows = self.directory["groups"][group]["rows"]
        return np.frombuffer(self.index, dtype=dtype, count=rows * items, offset=offset).reshape(rows, items)

    def spread(self, group: str, column: str, dtype: str = "<u8") -> np.ndarray[Any, Any]:
        """Store a column anew, wide enough for any number; its cells, to be written to."""
        description = self.directory["groups"][group]
        kind, *rest = description["columns"][column]
        values = np.full((description["rows"], 1), rest[0]) if kind == "const" else self.array(group, column).copy()
        offset, _ = self.section(values.astype(dtype).tobytes())
        description["columns"][column] = [dtype, values.shape[1], offset]
        return self.array(group, column)

    def sealed(self) -> bytes:
        """The file, with every checksum right."""
        index = bytes(self.index) + bytes(-len(self.index) % PAGE)
        directory = json.dumps(self.directory).encode()
        pages = [index[start : start + PAGE] for start in range(0, len(index), PAGE)]
        table = b"".join(zlib.crc32(page).to_bytes(4, "little") for page in pages)
        front = HEADER_BYTES + len(directory) + len(table)
        offset = front + -front % PAGE
        numbers = {
            "file_bytes": offset + len(index) + len(self.frames) + SEAL_BYTES,
            "index_offset": offset,
            "index_bytes": len(index),
            "directory_bytes": len(directory),
        } | self.claims
        numbers["directory_bytes"] %= 2**32
        checksums = zlib.crc32(directory), zlib.crc32(table)
        header = struct.pack("<8sIIQQQIII", MAGIC, VERSION, HEADER_BYTES, *numbers.values(), *checksums)
        header += zlib.crc32(header).to_bytes(4, "little")
        body = header + directory + table + bytes(offset - front) + index + self.frames
        return body + hashlib.sha256(body).digest()


def nodes(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything inside JSON data, the data itself left out."""
    keys = data.keys() if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield (*path, key)
        yield from nodes(data[key], (*path, key))


def replace_node(data: Any, path: tuple[Any, ...], value: Any, how: str) -> None:
    """Replace, remove or double one part of JSON data."""
    for key in path[:-1]:
        data = data[key]
    if how == "remove":
        del data[path[-1]]
    elif how == "double" and isinstance(data, list):
        data.insert(path[-1], copy.deepcopy(data[path[-1]]))
    elif how == "double":
        data["again"] = data[path[-1]]
    else:
        data[path[-1]] = value


def bomb(parts: Parts, mebibytes: int) -> None:
    """One block that unpacks to many zeros, and an index that says so."""
    parts.frames = zstandard.ZstdCompressor(level=1).compress(bytes(mebibytes << 20))
    block = parts.directory["groups"]["block"]
    block["rows"] = 1
    numbers = {"first_kernel": 0, "offset": 0, "bytes": len(parts.frames), "raw_bytes": mebibytes << 20}
    block["columns"] |= {name: ["const", value] for name, value in numbers.items()}
    block["columns"]["crc"] = ["const", zlib.crc32(parts.frames)]
    parts.spread("kernel", "code_bytes")[0] = (mebibytes << 20) - int(parts.spread("kernel", "code_bytes")[1:].sum())


def ledger_bomb(parts: Parts, mebibytes: int) -> None:
    """A ledger that unpacks to many zeros, and says so."""
    ledger, frame = parts.text("ledger"), zstandard.ZstdCompressor(level=1).compress(bytes(mebibytes << 20))
    parts.set_text("ledger", {**ledger, "frame": [*parts.section(frame), mebibytes << 20]})


@st.composite
def mutations(draw: st.DrawFn, good: Parts) -> Parts:
    """A sound file with one field changed, anywhere, and every seal right."""
    parts = good.copy()
    what = draw(
        st.sampled_from(("directory", "directory", "vocab", "provenance", "ledger", "cell", "cell", "claim", "bomb"))
    )
    if what == "directory":
        path, value = draw(st.sampled_from(list(nodes(parts.directory)))), draw(st.sampled_from(VALUES))
        how = draw(st.sampled_from(HOW))
        parts.change = f"{how} {path}: {value!a:.60}"
        replace_node(parts.directory, path, value, how)
    elif what in ("vocab", "provenance", "ledger"):
        old, value, how = parts.text(what), draw(st.sampled_from(VALUES)), draw(st.sampled_from(HOW))
        path = draw(st.sampled_from([*nodes(old), ()]))
        parts.change = f"{how} {what} {path}: {value!a:.60}"
        if path:
            replace_node(old, path, value, how)
        parts.set_text(what, old if path else value)
    elif what == "cell":
        groups = parts.directory["groups"]
        group = draw(st.sampled_from(sorted(groups)))
        column = draw(st.sampled_from(sorted(groups[group]["columns"])))
        items = groups[group]["columns"][column]
        wide = items[0] == "const" or (items[0][1] in "ui" and items[1] == 1)
        cells = parts.spread(group, column) if wide else parts.array(group, column)
        row = draw(st.integers(0, len(cells) - 1)) if draw(st.booleans()) else slice(None)
        if cells.dtype.kind == "S":
            fitting: list[Any] = [b"", b"\xff\xfe", b"a b", b"x\x1b[2J"]
        else:
            most = 1 if cells.dtype.kind == "b" else int(np.iinfo(cells.dtype).max)
            fitting = [cell for cell in CELLS if cell <= most]
        value = draw(st.sampled_from(fitting))
        parts.change = f"{group}.{column}[{row}] = {value}"
        cells[row] = value
    elif what == "claim":
        name = draw(st.sampled_from(("file_bytes", "index_offset", "index_bytes", "directory_bytes")))
        sealed = good.sealed()
        old = getattr(read_header(sealed, len(sealed), "good"), name)
        value = draw(st.sampled_from((*CELLS, *(old + step for step in (-PAGE, -1, 1, PAGE)))))
        parts.change = f"{name} = {value}"
        parts.claims[name] = value % 2**64
    else:
        make, mebibytes = draw(st.sampled_from((bomb, ledger_bomb))), draw(st.sampled_from((1, 17, 129, 512)))
        parts.change = f"{make.__name__} of {mebibytes} MiB"
        make(parts, mebibytes)
    return parts


HOW = ("replace", "replace", "replace", "remove", "double")
