"""ELF64 little-endian records for AMDGPU HSA files, read with every length checked.

Only what a kernel's object or code object holds: header, sections, symbols, relocations. Every reader raises
CodeObjectError on bytes that are too short, foreign or inconsistent; nothing else escapes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from aot.toolchain.errors import CodeObjectError

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SEGMENT = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
DYNAMIC = struct.Struct("<QQ")

MAGIC = b"\x7fELF\x02\x01\x01\x40"  # 64 bit, little endian, version 1, OS ABI AMDGPU HSA
EM_AMDGPU = 224
ET_REL, ET_DYN = 1, 3

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS = 1, 2, 3, 4, 5, 6, 7, 8
SHT_DYNSYM, SHT_GNU_HASH = 11, 0x6FFFFFF6
SHT_REL = 9
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_STRINGS = 1, 2, 4, 0x10, 0x20
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 4, 6, 0x6474E551, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_GNU_HASH = 4, 5, 6, 10, 11, 0x6FFFFEF5

STB_LOCAL, STB_GLOBAL = 0, 1
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION = 0, 1, 2, 3
STV_DEFAULT, STV_HIDDEN, STV_PROTECTED = 0, 2, 3
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2


class Section(NamedTuple):
    """A section header with its name and bytes. `content` is empty for a section without file space."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int
    content: bytes


class Segment(NamedTuple):
    """A program header."""

    type: int
    flags: int
    offset: int
    address: int
    physical_address: int
    file_bytes: int
    memory_bytes: int
    align: int


class Symbol(NamedTuple):
    """A symbol; `section` is a section index or a reserved one."""

    name: str
    binding: int
    type: int
    visibility: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """A RELA entry: `symbol` is an index into the symbol table."""

    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ElfFile:
    """A parsed AMDGPU file. `sections` keeps the file's order, index 0 included."""

    type: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...]

    def find(self, name: str) -> Section:
        """The one section of that name."""
        found = [section for section in self.sections if section.name == name]
        if len(found) != 1:
            raise CodeObjectError(f"code object has {len(found)} sections {name}, expected one")
        return found[0]

    def symbols(self, table: Section) -> list[Symbol]:
        """The entries of a symbol table, index 0 included."""
        if table.link >= len(self.sections):
            raise CodeObjectError(f"symbol table {table.name} links to section {table.link}, which does not exist")
        names = self.sections[table.link].content
        return [
            Symbol(read_name(names, name), info >> 4, info & 15, other & 3, section, value, size)
            for name, info, other, section, value, size in records(SYMBOL, table)
        ]


def read_elf(data: bytes) -> ElfFile:
    """The file in `data`. Raises CodeObjectError."""
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise CodeObjectError("not an AMDGPU HSA ELF file")
    ident, kind, machine, _, _, _, table, flags, _, _, _, entry_size, count, names_index = HEADER.unpack_from(data)
    if machine != EM_AMDGPU:
        raise CodeObjectError(f"ELF machine {machine} is not AMDGPU ({EM_AMDGPU})")
    if entry_size != SECTION.size or count == 0 or table + count * SECTION.size > len(data):
        raise CodeObjectError(f"section table of {count} entries at {table} is outside of the file ({len(data)} bytes)")
    headers = [SECTION.unpack_from(data, table + index * SECTION.size) for index in range(count)]
    if names_index >= count:
        raise CodeObjectError(f"section names are in section {names_index} of {count}")
    names = _content(data, headers[names_index])
    return ElfFile(kind, ident[8], flags, tuple(_section(data, names, header) for header in headers))


def read_segments(data: bytes) -> tuple[Segment, ...]:
    """The program headers of the file in `data`. Raises CodeObjectError."""
    if len(data) < HEADER.size:
        raise CodeObjectError(f"{len(data)} bytes are too short for an ELF header")
    _, _, _, _, _, table, _, _, _, entry_size, count, _, _, _ = HEADER.unpack_from(data)
    if entry_size != SEGMENT.size or table + count * SEGMENT.size > len(data):
        raise CodeObjectError(f"program headers: {count} of {entry_size} bytes at {table}, in {len(data)} bytes")
    return tuple(Segment(*SEGMENT.unpack_from(data, table + index * SEGMENT.size)) for index in range(count))


def records(layout: struct.Struct, section: Section) -> Iterator[tuple[Any, ...]]:
    """The fixed-size records of a section."""
    if len(section.content) % layout.size:
        raise CodeObjectError(f"section {section.name} is not a whole number of {layout.size}-byte records")
    return layout.iter_unpack(section.content)


def relocations(section: Section) -> list[Relocation]:
    """The entries of a RELA section."""
    return [
        Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
        for offset, info, addend in records(RELOCATION, section)
    ]


def read_name(names: bytes, offset: int) -> str:
    """The string at `offset` of a string table."""
    end = names.find(b"\0", offset)
    if offset >= len(names) or end < 0:
        raise CodeObjectError(f"name at {offset} is outside of its string table ({len(names)} bytes)")
    try:
        return names[offset:end].decode()
    except UnicodeDecodeError as error:
        raise CodeObjectError(f"name at {offset} is not UTF-8") from error


def _content(data: bytes, header: tuple[int, ...]) -> bytes:
    kind, offset, size = header[1], header[4], header[5]
    if kind in (0, SHT_NOBITS):
        return b""
    if offset + size > len(data):
        raise CodeObjectError(f"section at {offset} of {size} bytes is outside of the file ({len(data)} bytes)")
    return data[offset : offset + size]


def _section(data: bytes, names: bytes, header: tuple[int, ...]) -> Section:
    name, kind, flags, address, offset, size, link, info, align, entry_size = header
    place = (kind, flags, address, offset, size, link, info, align, entry_size)
    return Section(read_name(names, name), *place, _content(data, header))
