"""The argument list of a kernel: declared once, used by the builder, the launch plan and the index.

Offsets follow natural alignment, as LLVM lays out an AMDGPU kernel argument segment.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cache_schema.errors import RequestError

#: kind -> (struct code, bytes, least, greatest)
KINDS: dict[str, tuple[str, int, int, int]] = {
    "ptr": ("Q", 8, 0, 2**64 - 1),
    "i32": ("i", 4, -(2**31), 2**31 - 1),
    "u32": ("I", 4, 0, 2**32 - 1),
    "i64": ("q", 8, -(2**63), 2**63 - 1),
}


class ArgumentError(RequestError):
    """Argument values that do not fit the argument list."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: a unique name and one of the kinds ptr, i32, u32, i64."""

    name: str
    kind: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ArgumentError(f"argument {self.name!r}: kind {self.kind!r} is not one of {', '.join(KINDS)}")

    @property
    def size(self) -> int:
        """Bytes, which is also the alignment."""
        return KINDS[self.kind][1]


@dataclass(frozen=True)
class ArgumentList:
    """The kernel argument segment in declaration order. Raises `ArgumentError` when two names are equal."""

    arguments: tuple[Argument, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", tuple(self.arguments))
        names = self.names
        if len(set(names)) != len(names):
            raise ArgumentError(f"argument names repeat: {', '.join(names)}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(argument.name for argument in self.arguments)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Byte offset by name."""
        offsets, end = {}, 0
        for argument in self.arguments:
            offsets[argument.name] = -(-end // argument.size) * argument.size
            end = offsets[argument.name] + argument.size
        return offsets

    @property
    def size(self) -> int:
        """Bytes of the explicit arguments: the end of the last one."""
        if not self.arguments:
            return 0
        last = self.arguments[-1]
        return self.offsets[last.name] + last.size

    def pack(self, values: Mapping[str, int]) -> bytes:
        """The argument segment for these values; a missing, surplus or unfitting value is an `ArgumentError`."""
        names = set(self.names)
        missing, surplus = sorted(names - set(values)), sorted(set(values) - names)
        if missing or surplus:
            raise ArgumentError(f"kernel arguments: missing {missing}, surplus {surplus}")
        packed, offsets = bytearray(self.size), self.offsets
        for argument in self.arguments:
            code, _, least, greatest = KINDS[argument.kind]
            value = values[argument.name]
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= greatest:
                raise ArgumentError(f"kernel argument {argument.name!r}: {value!r} is not a {argument.kind}")
            struct.pack_into("<" + code, packed, offsets[argument.name], value)
        return bytes(packed)

    def to_json(self) -> list[list[str]]:
        """[[name, kind], ...]; offsets follow from the order."""
        return [[argument.name, argument.kind] for argument in self.arguments]

    @classmethod
    def from_json(cls, data: Any) -> ArgumentList:
        """Inverse of `to_json`; `ArgumentError` for anything else."""
        if not isinstance(data, list) or not all(
            isinstance(pair, list) and list(map(type, pair)) == [str, str] for pair in data
        ):
            raise ArgumentError(f"not an argument list: {reprlib.repr(data)}")
        return cls(tuple(Argument(name, kind) for name, kind in data))
