"""A code object under examination, and what its launches expect of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from aot.toolchain import elf
from aot.toolchain.code_object import read_metadata
from aot.toolchain.errors import CodeObjectError
from aot.toolchain.kernel_descriptor import DESCRIPTOR_BYTES, KernelDescriptor, read_descriptor
from cache_schema.arguments import ArgumentList
from grids.targets import Target, target


class Header(NamedTuple):
    """The ELF header, without the bytes in front that identify it."""

    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    segments_offset: int
    sections_offset: int
    flags: int
    header_bytes: int
    segment_bytes: int
    segments: int
    section_bytes: int
    sections: int
    names: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What the plan knows of a kernel before it is loaded. `block_size` is in threads."""

    arch: str
    symbol: str
    arguments: ArgumentList
    block_size: int

    @property
    def target(self) -> Target:
        return target(self.arch)


class Subject:
    """The parts of a code object, read when first asked for. Every part raises CodeObjectError if it is not there."""

    def __init__(self, code: bytes, expected: Expected) -> None:
        self.code, self.expected = code, expected

    @cached_property
    def header(self) -> Header:
        if len(self.code) < elf.HEADER.size:
            raise CodeObjectError(f"{len(self.code)} bytes are too short for an ELF header")
        return Header(*elf.HEADER.unpack_from(self.code))

    @cached_property
    def file(self) -> elf.ElfFile:
        return elf.read_elf(self.code)

    @cached_property
    def segments(self) -> tuple[elf.Segment, ...]:
        return elf.read_segments(self.code)

    @property
    def loads(self) -> list[elf.Segment]:
        """The segments that are loaded, in the order of their headers."""
        return [segment for segment in self.segments if segment.type == elf.PT_LOAD]

    @cached_property
    def static_symbols(self) -> list[elf.Symbol]:
        return self.file.symbols(self.file.find(".symtab"))

    @cached_property
    def dynamic_symbols(self) -> list[elf.Symbol]:
        return self.file.symbols(self.file.find(".dynsym"))

    @cached_property
    def function(self) -> elf.Symbol:
        """The kernel in `.symtab`."""
        return self._one(self.expected.symbol)

    @cached_property
    def object(self) -> elf.Symbol:
        """The kernel's descriptor in `.symtab`."""
        return self._one(f"{self.expected.symbol}.kd")

    @cached_property
    def descriptor_bytes(self) -> bytes:
        rodata = self.file.find(".rodata")
        start = self.object.value - rodata.address
        if not 0 <= start <= start + DESCRIPTOR_BYTES <= len(rodata.content):
            raise CodeObjectError(f"the descriptor at {self.object.value:#x} is not within .rodata")
        return rodata.content[start : start + DESCRIPTOR_BYTES]

    @cached_property
    def descriptor(self) -> KernelDescriptor:
        return read_descriptor(self.descriptor_bytes)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        return read_metadata(self.file.find(".note").content)

    @cached_property
    def kernel(self) -> dict[str, Any]:
        """The one kernel that the metadata describes."""
        kernels = self.metadata.get("amdhsa.kernels")
        if not isinstance(kernels, list) or len(kernels) != 1 or not isinstance(kernels[0], dict):
            raise CodeObjectError("metadata describes no kernel, or several")
        return dict(kernels[0])

    @cached_property
    def arguments(self) -> list[dict[str, Any]]:
        """Its arguments."""
        entries = self.kernel.get(".args", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise CodeObjectError("metadata field .args is not a list of maps")
        return entries

    def _one(self, name: str) -> elf.Symbol:
        found = [symbol for symbol in self.static_symbols if symbol.name == name]
        if len(found) != 1:
            raise CodeObjectError(f".symtab has {len(found)} symbols {name}, expected one")
        return found[0]
