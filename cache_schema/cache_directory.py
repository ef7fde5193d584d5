"""The directory of a cache file, held against the file before any of it is used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cache_schema.arguments import ArgumentList
from cache_schema.cache_columns import ColumnGroup, Source, rows_of
from cache_schema.cache_format import Header
from cache_schema.cache_rules import block_rules, entry_rules, kernel_rules
from cache_schema.errors import CacheError, RequestError
from cache_schema.facts import KEY_BYTES
from cache_schema.file_families import FileFamilies, read_families
from cache_schema.problem import DTYPES

#: (offset, bytes) of a part of the index.
Section = tuple[int, int]
_NAMES = {"arch", "dtype", "families", "groups", "layouts", "symbol", "provenance", "ledger"}
_GROUPS = {"identity", "entry", "kernel", "block"}
_ARCH = re.compile(r"gfx[0-9a-z]{1,20}")
_SYMBOL = re.compile(r"[A-Za-z0-9_.$]{0,200}")


@dataclass(frozen=True)
class Directory:
    """What a cache file says of its parts. `identity` is a description: its rules need the vocabulary."""

    arch: str
    dtype: str
    families: FileFamilies
    identity: Any
    vocabulary: Section
    entries: ColumnGroup
    kernels: ColumnGroup
    blocks: ColumnGroup
    layouts: tuple[ArgumentList, ...]
    symbol: tuple[str, int] | None
    provenance: Section
    ledger: Section


def read_directory(data: Any, index: Source, header: Header) -> Directory:
    """Check and take apart; CacheError for what contradicts itself, the header or this program."""
    where = index.where
    if not isinstance(data, dict) or data.keys() != _NAMES:
        raise CacheError(f"{where}: malformed directory: not its parts")
    groups, space = data["groups"], header.index_bytes
    if not isinstance(groups, dict) or groups.keys() != _GROUPS:
        raise CacheError(f"{where}: malformed directory: not its groups")
    rows = {name: rows_of(where, name, description) for name, description in groups.items()}
    entries, kernels, blocks = rows["entry"], rows["kernel"], rows["block"]
    if rows["identity"] != entries or not blocks <= kernels <= entries or bool(entries) != bool(blocks):
        raise CacheError(f"{where}: malformed directory: {rows} rows cannot be together")
    arch, dtype = data["arch"], data["dtype"]
    if not isinstance(arch, str) or not _ARCH.fullmatch(arch) or dtype not in DTYPES:
        raise CacheError(f"{where}: malformed directory: a cache of nothing that is known")
    identity = groups["identity"]
    layouts, symbol = _layouts(where, data["layouts"]), _symbol(where, data["symbol"])
    return Directory(
        arch=arch,
        dtype=dtype,
        families=read_families(where, data["families"]),
        identity=identity,
        vocabulary=_section(where, "vocabulary", identity.get("vocab"), space),
        entries=ColumnGroup(index, "entry", groups["entry"], entry_rules(kernels), space),
        kernels=ColumnGroup(index, "kernel", groups["kernel"], kernel_rules(len(layouts), symbol is None), space),
        blocks=ColumnGroup(index, "block", groups["block"], block_rules(kernels, header.frames_bytes), space),
        layouts=layouts,
        symbol=symbol,
        provenance=_section(where, "provenance", data["provenance"], space),
        ledger=_section(where, "ledger", data["ledger"], space),
    )


def checked_symbol(where: str, symbol: str) -> str:
    """A name that a loader can look up and a terminal can show."""
    if not symbol or not _SYMBOL.fullmatch(symbol):
        raise CacheError(f"{where}: {symbol[:40]!a} is no symbol of a kernel")
    return symbol


def _layouts(where: str, data: Any) -> tuple[ArgumentList, ...]:
    if not isinstance(data, list):
        raise CacheError(f"{where}: malformed directory: no argument lists")
    try:
        return tuple(map(ArgumentList.from_json, data))
    except RequestError as error:
        raise CacheError(f"{where}: malformed directory: {error}") from error


def _symbol(where: str, data: Any) -> tuple[str, int] | None:
    if data is None:
        return None
    if isinstance(data, list) and len(data) == 2 and type(data[0]) is str and type(data[1]) is int:
        prefix, digits = data
        if _SYMBOL.fullmatch(prefix) and 0 <= digits <= 2 * KEY_BYTES:
            return prefix, digits
    raise CacheError(f"{where}: malformed directory: no rule of symbols")


def _section(where: str, name: str, data: Any, space: int) -> Section:
    if isinstance(data, list) and len(data) == 2 and all(type(number) is int for number in data):
        offset, length = data
        if offset >= 0 and 0 <= length <= space - offset:
            return offset, length
    raise CacheError(f"{where}: malformed directory: section {name} lies outside the index")
