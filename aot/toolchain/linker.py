"""A linker for one AMDGPU object: the bytes of `ld.lld -shared --no-undefined --strip-debug`, without the process.

An object of ours holds code, kernel descriptors, constant tables and notes, and refers only to itself. The layout that
ld.lld gives such a file, and that `link_object` computes:

    header and 8 program headers
    R    .note .dynsym .gnu.hash .hash .dynstr .rodata     constant tables follow the descriptors inside .rodata
    RX   .text                                             each segment starts on the next page at the same page offset
    RW   .dynamic .relro_padding                           padding takes no file space
    -    .AMDGPU.* .comment .symtab .shstrtab .strtab
    section headers, 8-aligned

ROCr's loader looks kernels up in `.symtab`, and HIP refuses a file without `.strtab`. Whatever is not listed here
raises UnsupportedObjectError, and ld.lld has to take over. The layout is that of LLD 19 to 22; only `.comment` differs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aot.toolchain import elf
from aot.toolchain.dynamic_symbols import gnu_hash_table, gnu_order, sysv_hash_table
from aot.toolchain.elf import Relocation, Section, Symbol
from aot.toolchain.errors import UnsupportedObjectError

PAGE_BYTES = 0x1000

_R_REL32, _R_REL64, _R_REL32_LO, _R_REL32_HI = 4, 5, 10, 11
_SHT_LLVM_ADDRSIG = 0x6FFF4C03
_R, _RX, _RW = elf.PF_R, elf.PF_R | elf.PF_X, elf.PF_R | elf.PF_W
_SEGMENTS = 8
# Of the outputs that do not shift with the number of .AMDGPU.* sections: the names and the table of symbols.
_SYMTAB, _SHSTRTAB, _STRTAB = -3, -2, -1
_ALIGNMENTS = tuple(1 << bit for bit in range(PAGE_BYTES.bit_length()))
_CODE = elf.SHF_ALLOC | elf.SHF_EXECINSTR
_CONSTANT = elf.SHF_ALLOC | elf.SHF_MERGE
_DATA = elf.SHF_ALLOC | elf.SHF_WRITE


@dataclass(slots=True)
class _Output:
    """An output section; `address` and `offset` are decided by `_place`."""

    name: str
    type: int
    flags: int
    align: int
    content: bytearray
    link: int = 0
    info: int = 0
    entry_size: int = 0
    padding: int = 0  # bytes of memory behind the content, without file space
    address: int = 0
    offset: int = 0

    @property
    def end(self) -> int:
        return self.address + len(self.content) + self.padding


@dataclass(frozen=True, slots=True)
class _Piece:
    """An input section's place: offset `start` in output section `output` (an index into the outputs)."""

    output: int
    start: int


def link_object(data: bytes, linker_version: str) -> bytes:
    """The shared object for the relocatable object `data`; `linker_version` is what ld.lld would sign with in .comment.

    Raises UnsupportedObjectError for what this linker does not know, CodeObjectError for bytes that are not an object.
    """
    source = elf.read_elf(data)
    if source.type != elf.ET_REL:
        raise UnsupportedObjectError(f"ELF type {source.type} is not a relocatable object")
    kept = [(index, section) for index, section in enumerate(source.sections) if _is_kept(section)]
    symbols = _symbols(source)
    exported = [symbol for symbol in symbols if _is_exported(symbol)]
    static = _static_symbols(source, symbols)
    outputs, pieces = _outputs(kept, exported, static, linker_version)
    _place(outputs)
    for section in source.sections:
        if section.type == elf.SHT_RELA:
            _relocate(outputs, pieces, symbols, section)
    _fill_tables(outputs, pieces, exported)
    _fill_symbol_table(outputs, pieces, static)
    return _write(source, outputs)


def _is_kept(section: Section) -> bool:
    """Whether the section's bytes go into the output. Refuses every section that is not known here."""
    match section.type, section.flags, section.name:
        case (0 | elf.SHT_STRTAB | elf.SHT_SYMTAB | elf.SHT_RELA, _, _):
            return False
        case (0x6FFF4C03, _, _) | (elf.SHT_PROGBITS, 0, ".note.GNU-stack"):
            return False
    known = (
        (elf.SHT_NOTE, elf.SHF_ALLOC, ".note"),
        (elf.SHT_PROGBITS, _CODE, ".text"),
        (elf.SHT_PROGBITS, elf.SHF_ALLOC, ".rodata"),
    )
    if section.align not in _ALIGNMENTS:
        raise UnsupportedObjectError(f"section {section.name} is aligned to {section.align}")
    if (section.type, section.flags, section.name) in known:
        return True
    # A mergeable section of one constant has nothing to merge; several would be ordered by a hash.
    is_constant = section.type == elf.SHT_PROGBITS and section.flags == _CONSTANT and section.size == section.entry_size
    is_marker = section.type == elf.SHT_PROGBITS and section.flags == 0 and section.name.startswith(".AMDGPU.")
    if (is_constant and section.name.startswith(".rodata.cst")) or is_marker:
        return True
    raise UnsupportedObjectError(f"section {section.name} (type {section.type:#x}, flags {section.flags:#x})")


def _symbols(source: elf.ElfFile) -> list[Symbol]:
    tables = [section for section in source.sections if section.type == elf.SHT_SYMTAB]
    if len(tables) != 1:
        raise UnsupportedObjectError(f"{len(tables)} symbol tables")
    symbols = source.symbols(tables[0])
    for symbol in symbols[1:]:
        regular = elf.SHN_UNDEF < symbol.section < elf.SHN_LORESERVE
        if symbol.binding not in (elf.STB_LOCAL, elf.STB_GLOBAL) or (symbol.binding == elf.STB_GLOBAL and not regular):
            where = f"binding {symbol.binding}, section {symbol.section:#x}"
            raise UnsupportedObjectError(f"symbol {symbol.name} ({where})")
    return symbols


def _is_exported(symbol: Symbol) -> bool:
    """Whether other files can see it. What is hidden from them is local once linked."""
    return symbol.binding == elf.STB_GLOBAL and symbol.visibility in (elf.STV_DEFAULT, elf.STV_PROTECTED)


def _static_symbols(source: elf.ElfFile, symbols: Sequence[Symbol]) -> list[Symbol]:
    """What `.symtab` lists, in the order of its names: the object's symbols without those of sections, `_DYNAMIC`."""
    found = [symbol for symbol in symbols[1:] if symbol.type != elf.STT_SECTION]
    for symbol in found:
        # ld.lld drops a temporary symbol or keeps it, depending on the section that it is in.
        if not symbol.name or symbol.name.startswith(".L"):
            raise UnsupportedObjectError(f"temporary symbol {symbol.name!r}")
    # Its section is that of the output: the object has none.
    where = len(source.sections)
    return [*found, Symbol("_DYNAMIC", elf.STB_LOCAL, elf.STT_NOTYPE, elf.STV_HIDDEN, where, 0, 0)]


def _outputs(
    kept: Sequence[tuple[int, Section]], exported: Sequence[Symbol], static: Sequence[Symbol], version: str
) -> tuple[list[_Output], dict[int, _Piece]]:
    """The output sections in order, with the tables that hold addresses still blank, and each input section's place."""
    note, text, rodata = (_one_or_more(kept, name) for name in (".note", ".text", ".rodata"))
    if len(note) != 1 or len(text) != 1:
        raise UnsupportedObjectError("more than one .note or .text")
    names = _strings(symbol.name for symbol in exported)
    ordered = gnu_order([symbol.name for symbol in exported])
    outputs = [
        _Output("", 0, 0, 0, bytearray()),
        _Output(".note", elf.SHT_NOTE, elf.SHF_ALLOC, 1, bytearray()),
        _Output(".dynsym", elf.SHT_DYNSYM, elf.SHF_ALLOC, 8, bytearray(24 * (1 + len(exported))), 5, 1, 24),
        _Output(".gnu.hash", elf.SHT_GNU_HASH, elf.SHF_ALLOC, 8, bytearray(gnu_hash_table(ordered)), 2),
        _Output(".hash", elf.SHT_HASH, elf.SHF_ALLOC, 4, bytearray(sysv_hash_table(ordered)), 2, 0, 4),
        _Output(".dynstr", elf.SHT_STRTAB, elf.SHF_ALLOC, 1, bytearray(names)),
        _Output(".rodata", elf.SHT_PROGBITS, 0, 1, bytearray()),
        _Output(".text", elf.SHT_PROGBITS, 0, 1, bytearray()),
        _Output(".dynamic", elf.SHT_DYNAMIC, _DATA, 8, bytearray(elf.DYNAMIC.size * 7), 5, 0, 16),
        _Output(".relro_padding", elf.SHT_NOBITS, _DATA, 1, bytearray()),
    ]
    pieces = {index: _append(outputs, 1, section) for index, section in note}
    pieces |= {index: _append(outputs, 6, section) for index, section in rodata}
    pieces |= {index: _append(outputs, 7, section) for index, section in text}
    for _, section in kept:
        if not section.flags & elf.SHF_ALLOC:
            outputs.append(_Output(section.name, section.type, 0, section.align, bytearray(section.content)))
    comment = f"Linker: {version}\0".encode()
    outputs.append(
        _Output(".comment", elf.SHT_PROGBITS, elf.SHF_MERGE | elf.SHF_STRINGS, 1, bytearray(comment), entry_size=1)
    )
    strings = len(outputs) + 2
    first_global = 1 + sum(not _is_exported(symbol) for symbol in static)
    blank = bytearray(elf.SYMBOL.size * (1 + len(static)))
    outputs += [
        _Output(".symtab", elf.SHT_SYMTAB, 0, 8, blank, strings, first_global, elf.SYMBOL.size),
        _Output(".shstrtab", elf.SHT_STRTAB, 0, 1, bytearray()),
        _Output(".strtab", elf.SHT_STRTAB, 0, 1, bytearray(_strings(symbol.name for symbol in static))),
    ]
    outputs[_SHSTRTAB].content += _strings(dict.fromkeys(output.name for output in outputs[1:]))
    return outputs, pieces


def _strings(names: Iterable[str]) -> bytes:
    """A string table: the empty name, then each of these."""
    return b"\0" + b"".join(name.encode() + b"\0" for name in names)


def _one_or_more(kept: Sequence[tuple[int, Section]], name: str) -> list[tuple[int, Section]]:
    found = [entry for entry in kept if entry[1].name == name or entry[1].name.startswith(f"{name}.cst")]
    if not found:
        raise UnsupportedObjectError(f"no section {name}")
    return found


def _append(outputs: Sequence[_Output], into: int, section: Section) -> _Piece:
    output = outputs[into]
    output.content += bytes(-len(output.content) % section.align)
    piece = _Piece(into, len(output.content))
    output.content += section.content
    output.flags |= section.flags
    output.align = max(output.align, section.align)
    return piece


def _align(value: int, align: int) -> int:
    return value + -value % align


def _place(outputs: Sequence[_Output]) -> None:
    """Addresses and file offsets. A segment's first section keeps its page offset, so no page is mapped twice."""
    address = offset = elf.HEADER.size + _SEGMENTS * elf.SEGMENT.size
    for output in outputs[1:]:
        if output.flags & elf.SHF_ALLOC:
            starts_segment = output.name in (".text", ".dynamic")
            if starts_segment:
                address = _align(address, PAGE_BYTES) + address % PAGE_BYTES
            output.address = address = _align(address, output.align)
            if output.name == ".relro_padding":
                output.padding = -address % PAGE_BYTES
            output.offset = offset = offset + (address - offset) % (PAGE_BYTES if starts_segment else output.align)
            address = output.end
        else:
            output.offset = offset = _align(offset, max(output.align, 1))
        offset += len(output.content)


def _relocate(
    outputs: Sequence[_Output], pieces: dict[int, _Piece], symbols: Sequence[Symbol], section: Section
) -> None:
    """Apply one RELA section. Only references within the file exist, so every one of them is decided here."""
    target = pieces.get(section.info)
    if target is None:
        raise UnsupportedObjectError(f"relocations for section {section.info}, which is not in the output")
    output = outputs[target.output]
    for relocation in elf.relocations(section):
        symbol = symbols[relocation.symbol] if relocation.symbol < len(symbols) else None
        home = pieces.get(symbol.section) if symbol else None
        if symbol is None or home is None:
            raise UnsupportedObjectError(f"relocation to symbol {relocation.symbol}, which is not in the output")
        place = target.start + relocation.offset
        value = outputs[home.output].address + home.start + symbol.value + relocation.addend - (output.address + place)
        width, value = _encode(relocation, value)
        if place + width > len(output.content):
            raise UnsupportedObjectError(f"relocation at {relocation.offset} is outside of its section")
        output.content[place : place + width] = value.to_bytes(width, "little")


def _encode(relocation: Relocation, value: int) -> tuple[int, int]:
    """(bytes, unsigned value) of a place-relative relocation."""
    match relocation.type:
        case 5:
            return 8, value % (1 << 64)
        case 10:
            return 4, value % (1 << 32)
        case 11:
            return 4, (value >> 32) % (1 << 32)
        case 4 if -(1 << 31) <= value < 1 << 31:
            return 4, value % (1 << 32)
    raise UnsupportedObjectError(f"relocation type {relocation.type} of value {value:#x}")


def _fill_tables(outputs: Sequence[_Output], pieces: dict[int, _Piece], exported: Sequence[Symbol]) -> None:
    """`.dynsym` in gnu-hash order (its strings stay in the object's order), then `.dynamic`."""
    by_name = {symbol.name: symbol for symbol in exported}
    if len(by_name) != len(exported) or any(symbol.section not in pieces for symbol in exported):
        raise UnsupportedObjectError("a symbol is exported twice, or from a section that is not in the output")
    offsets = dict(zip(by_name, _name_offsets(exported), strict=True))
    for row, name in enumerate(gnu_order(list(by_name)), 1):
        record = _record(outputs, pieces, by_name[name], offsets[name])
        elf.SYMBOL.pack_into(outputs[2].content, row * elf.SYMBOL.size, *record)
    entries = (
        (elf.DT_SYMTAB, outputs[2].address),
        (elf.DT_SYMENT, elf.SYMBOL.size),
        (elf.DT_STRTAB, outputs[5].address),
        (elf.DT_STRSZ, len(outputs[5].content)),
        (elf.DT_GNU_HASH, outputs[3].address),
        (elf.DT_HASH, outputs[4].address),
        (0, 0),
    )
    outputs[8].content[:] = b"".join(elf.DYNAMIC.pack(*entry) for entry in entries)


def _fill_symbol_table(outputs: Sequence[_Output], pieces: dict[int, _Piece], static: Sequence[Symbol]) -> None:
    """`.symtab`: the local symbols in front, each kind in the order of its names."""
    *_, dynamic = static
    places = {**pieces, dynamic.section: _Piece(8, 0)}
    named = sorted(zip(static, _name_offsets(static), strict=True), key=lambda entry: _is_exported(entry[0]))
    for row, (symbol, name) in enumerate(named, 1):
        record = _record(outputs, places, symbol, name)
        elf.SYMBOL.pack_into(outputs[_SYMTAB].content, row * elf.SYMBOL.size, *record)


def _name_offsets(symbols: Sequence[Symbol]) -> list[int]:
    """Where each name begins in `_strings` of all of them."""
    lengths = (len(symbol.name.encode()) + 1 for symbol in symbols[:-1])
    return list(itertools.accumulate(lengths, initial=1)) if symbols else []


def _record(
    outputs: Sequence[_Output], pieces: dict[int, _Piece], symbol: Symbol, name: int
) -> tuple[int, int, int, int, int, int]:
    """A row of a symbol table."""
    kind = (elf.STB_GLOBAL if _is_exported(symbol) else elf.STB_LOCAL) << 4 | symbol.type
    if symbol.section == elf.SHN_ABS:
        return name, kind, symbol.visibility, elf.SHN_ABS, symbol.value, symbol.size
    piece = pieces.get(symbol.section)
    if piece is None:
        raise UnsupportedObjectError(f"symbol {symbol.name} is in section {symbol.section:#x}")
    address = (outputs[piece.output].address + piece.start + symbol.value) % (1 << 64)
    return name, kind, symbol.visibility, piece.output, address, symbol.size


def _write(source: elf.ElfFile, outputs: Sequence[_Output]) -> bytes:
    names = bytes(outputs[_SHSTRTAB].content)
    table = _align(outputs[_STRTAB].offset + len(outputs[_STRTAB].content), 8)
    image = bytearray(table + len(outputs) * elf.SECTION.size)
    counts = (elf.SEGMENT.size, _SEGMENTS, elf.SECTION.size, len(outputs), len(outputs) + _SHSTRTAB)
    ident = elf.MAGIC + bytes([source.abi_version]) + bytes(7)
    header = (ident, elf.ET_DYN, elf.EM_AMDGPU, 1, 0, elf.HEADER.size, table, source.flags, elf.HEADER.size, *counts)
    elf.HEADER.pack_into(image, 0, *header)
    image[elf.HEADER.size : elf.HEADER.size + _SEGMENTS * elf.SEGMENT.size] = _segments(outputs)
    for index, output in enumerate(outputs):
        image[output.offset : output.offset + len(output.content)] = output.content
        name = names.index(b"\0" + output.name.encode() + b"\0") + 1 if index else 0
        size = len(output.content) + output.padding
        place = (output.address, output.offset, size, output.link, output.info, output.align, output.entry_size)
        elf.SECTION.pack_into(image, table + index * elf.SECTION.size, name, output.type, output.flags, *place)
    return bytes(image)


def _segments(outputs: Sequence[_Output]) -> bytes:
    """The program headers. The first read-only segment starts with the file."""
    note, rodata, text, dynamic, relro = (outputs[index] for index in (1, 6, 7, 8, 9))
    headers, start = _SEGMENTS * elf.SEGMENT.size, elf.HEADER.size
    dynamic_bytes, relro_bytes = len(dynamic.content), relro.end - dynamic.address
    rows = (
        (elf.PT_PHDR, _R, start, start, headers, headers, 8),
        (elf.PT_LOAD, _R, 0, 0, rodata.end, rodata.end, PAGE_BYTES),
        (elf.PT_LOAD, _RX, text.offset, text.address, len(text.content), len(text.content), PAGE_BYTES),
        (elf.PT_LOAD, _RW, dynamic.offset, dynamic.address, dynamic_bytes, relro_bytes, PAGE_BYTES),
        (elf.PT_DYNAMIC, _RW, dynamic.offset, dynamic.address, dynamic_bytes, dynamic_bytes, dynamic.align),
        (elf.PT_GNU_RELRO, _R, dynamic.offset, dynamic.address, dynamic_bytes, relro_bytes, 1),
        (elf.PT_GNU_STACK, _RW, 0, 0, 0, 0, 0),
        (elf.PT_NOTE, _R, note.offset, note.address, len(note.content), len(note.content), note.align),
    )
    return b"".join(
        elf.SEGMENT.pack(kind, flags, offset, address, address, file_bytes, memory_bytes, align)
        for kind, flags, offset, address, file_bytes, memory_bytes, align in rows
    )
