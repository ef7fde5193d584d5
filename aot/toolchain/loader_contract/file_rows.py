"""What loaders need of the file: header, sections, segments."""

from __future__ import annotations

import itertools

from aot.toolchain import elf
from aot.toolchain.dynamic_symbols import gnu_hash_table, sysv_hash_table
from aot.toolchain.loader_contract.requirement import Requirement, unless
from aot.toolchain.loader_contract.subject import Subject

# Both features "any": the object runs whether XNACK and SRAM ECC are on or off, so it loads on every device.
_ANY_FEATURES = 0x500
# ELFABIVERSION_AMDGPU_HSA_V5.
_ABI_VERSION = 3
# An entry address keeps its alignment only if the loader moves segments by multiples of it.
_LEAST_SEGMENT_ALIGN, _PAGE_BYTES = 256, 4096
_VOLATILE = (".dynamic", ".relro_padding")
_KINDS = (
    *(elf.SHT_PROGBITS, elf.SHT_SYMTAB, elf.SHT_STRTAB, elf.SHT_HASH, elf.SHT_DYNAMIC, elf.SHT_NOTE, elf.SHT_NOBITS),
    *(elf.SHT_DYNSYM, elf.SHT_GNU_HASH),
)


def _section(name: str, kind: int, flags: int, who: str) -> Requirement:
    """One section of that name, with these of its flags set."""

    def violation(subject: Subject) -> str:
        found = [section for section in subject.file.sections if section.name == name]
        if len(found) != 1:
            return f"{len(found)} sections {name}"
        (section,) = found
        right = section.type == kind and section.flags & flags == flags and section.size > 0
        return unless(right, f"{name} has type {section.type:#x}, flags {section.flags:#x}, {section.size} bytes")

    return Requirement(f"section {name}", f"one section {name}, of type {kind:#x}, that is not empty", who, violation)


def _extent(subject: Subject) -> str:
    header = subject.header
    end = header.sections_offset + header.sections * header.section_bytes
    last = max(section.offset for section in subject.file.sections)
    return unless(
        end == len(subject.code) and last <= header.sections_offset,
        f"the section table ends at {end} of {len(subject.code)} bytes, the last section begins at {last}",
    )


def _header_sizes(subject: Subject) -> str:
    header = subject.header
    sizes = header.header_bytes, header.segment_bytes, header.section_bytes
    return unless(sizes == (elf.HEADER.size, elf.SEGMENT.size, elf.SECTION.size), f"records have {sizes} bytes")


def _kinds(subject: Subject) -> str:
    first, *others = subject.file.sections
    odd = [section.name for section in others if section.type not in _KINDS]
    return unless(first.type == 0 and not odd, f"odd sections: {', '.join(odd) or 'the first'}")


def _links(subject: Subject) -> str:
    sections = subject.file.sections
    for table, strings in ((".symtab", ".strtab"), (".dynsym", ".dynstr")):
        section = subject.file.find(table)
        linked = sections[section.link].name if section.link < len(sections) else "nothing"
        if (linked, section.entry_size) != (strings, elf.SYMBOL.size):
            return f"{table} has its names in {linked} and entries of {section.entry_size} bytes"
        local = [symbol.binding == elf.STB_LOCAL for symbol in subject.file.symbols(section)]
        if sum(local) != section.info or local != sorted(local, reverse=True):
            return f"{table} says that its first {section.info} symbols are local"
    return ""


def _hashes(subject: Subject) -> str:
    names = [symbol.name for symbol in subject.dynamic_symbols[1:]]
    tables = {".hash": sysv_hash_table(names), ".gnu.hash": gnu_hash_table(names)}
    wrong = [name for name, table in tables.items() if subject.file.find(name).content != table]
    return unless(not wrong, f"{' and '.join(wrong)} are not those of .dynsym")


def _relocations(subject: Subject) -> str:
    found = [section.name for section in subject.file.sections if section.type in (elf.SHT_RELA, elf.SHT_REL)]
    return unless(not found, f"relocations in {', '.join(found)}")


def _constant(subject: Subject) -> str:
    found = [
        section.name
        for section in subject.file.sections
        if section.flags & elf.SHF_WRITE and section.name not in _VOLATILE
    ]
    return unless(not found, f"{', '.join(found)} can be written")


def _loads(subject: Subject) -> str:
    ends = [(load.address, load.address + load.memory_bytes) for load in subject.loads]
    if not ends or ends[0][0] != 0 or subject.loads[0].offset != 0:
        return f"loaded segments begin at {[f'{start:#x}' for start, _ in ends]}"
    apart = all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
    return unless(apart, "loaded segments overlap or are out of order")


def _load_bytes(subject: Subject) -> str:
    for load in subject.loads:
        more = load.memory_bytes - load.file_bytes
        if load.offset + load.file_bytes > len(subject.code) or not 0 <= more <= _PAGE_BYTES:
            return f"segment at {load.offset}: {load.file_bytes} bytes of the file, {load.memory_bytes} of memory"
    return ""


def _load_align(subject: Subject) -> str:
    for load in subject.loads:
        align = load.align
        if (
            not _LEAST_SEGMENT_ALIGN <= align <= _PAGE_BYTES
            or align & align - 1
            or (load.address - load.offset) % align
        ):
            return f"segment at {load.address:#x}, offset {load.offset:#x}, is aligned to {align}"
    return ""


def _permissions(subject: Subject) -> str:
    for name, flags in ((".text", elf.PF_R | elf.PF_X), (".rodata", elf.PF_R)):
        found = [load.flags for load in _holders(subject, subject.file.find(name))]
        if found != [flags]:
            return f"{name} is in segments with the rights {found}, expected {[flags]}"
    return ""


def _placed(subject: Subject) -> str:
    for section in subject.file.sections:
        if section.flags & elf.SHF_ALLOC and not _holders(subject, section):
            return f"{section.name} is in no loaded segment, or not at its place in it"
    return ""


def _holders(subject: Subject, section: elf.Section) -> list[elf.Segment]:
    """Loaded segments with the whole section, and all of its bytes, at the right distance from their begin."""
    return [
        load
        for load in subject.loads
        if load.address <= section.address
        and section.address + section.size <= load.address + load.memory_bytes
        and section.address + len(section.content) <= load.address + load.file_bytes
        and section.address - load.address == section.offset - load.offset
    ]


def _covers(name: str, kind: int, who: str) -> Requirement:
    """A program header that says where a section is, for readers that look at no sections."""

    def violation(subject: Subject) -> str:
        section = subject.file.find(name)
        found = [(s.offset, s.address, s.file_bytes) for s in subject.segments if s.type == kind]
        return unless(found == [(section.offset, section.address, section.size)], f"found {found} for {name}")

    return Requirement(f"segment of {name}", f"one program header of type {kind} around {name}", who, violation)


def _dynamic(subject: Subject) -> str:
    entries = list(elf.records(elf.DYNAMIC, subject.file.find(".dynamic")))
    end = next((index for index, (tag, _) in enumerate(entries) if tag == 0), None)
    wanted = {
        elf.DT_SYMTAB: ".dynsym",
        elf.DT_STRTAB: ".dynstr",
        elf.DT_HASH: ".hash",
        elf.DT_GNU_HASH: ".gnu.hash",
    }
    found = dict(entries[:end])
    wrong = [name for tag, name in wanted.items() if found.get(tag) != subject.file.find(name).address]
    sizes = (elf.DT_STRSZ, subject.file.find(".dynstr").size), (elf.DT_SYMENT, elf.SYMBOL.size)
    wrong += [f"tag {tag}" for tag, size in sizes if found.get(tag) != size]
    wrong += [f"tag {tag}" for tag in found if tag not in wanted and tag not in dict(sizes)]
    return unless(end is not None and not wrong, f"wrong or without an end: {', '.join(wrong) or 'no end'}")


FILE_ROWS = (
    Requirement(
        "magic",
        "an ELF file",
        "ROCr, clr",
        lambda s: unless(s.header.ident[:4] == elf.MAGIC[:4], f"begins with {s.header.ident[:4].hex()}"),
    ),
    Requirement(
        "class", "64-bit", "ROCr, clr", lambda s: unless(s.header.ident[4] == 2, f"ELF class {s.header.ident[4]}")
    ),
    Requirement(
        "byte order",
        "little endian",
        "ROCr, clr",
        lambda s: unless(s.header.ident[5] == 1, f"byte order {s.header.ident[5]}"),
    ),
    Requirement(
        "version",
        "ELF version 1",
        "ROCr, clr",
        lambda s: unless(s.header.ident[6] == s.header.version == 1, f"{s.header.ident[6]} and {s.header.version}"),
    ),
    Requirement(
        "OS ABI", "AMDGPU HSA (64)", "ROCr, clr", lambda s: unless(s.header.ident[7] == 64, f"{s.header.ident[7]}")
    ),
    Requirement(
        "ABI version",
        "code object version 5 (ABI version 3), which ROCm takes since it knows these targets; 6 needs ROCm 6.3",
        "ROCr, clr",
        lambda s: unless(s.header.ident[8] == _ABI_VERSION, f"ABI version {s.header.ident[8]}"),
    ),
    Requirement(
        "type", "a shared object", "ROCr", lambda s: unless(s.header.type == elf.ET_DYN, f"ELF type {s.header.type}")
    ),
    Requirement(
        "machine", "AMDGPU", "ROCr, clr", lambda s: unless(s.header.machine == elf.EM_AMDGPU, f"{s.header.machine}")
    ),
    Requirement(
        "target",
        "the machine that the kernel was built for",
        "ROCr, clr",
        lambda s: unless(
            s.header.flags & 0xFF == s.expected.target.elf_machine, f"flags {s.header.flags:#x} for {s.expected.arch}"
        ),
    ),
    Requirement(
        "target features",
        "XNACK and SRAM ECC both `any`, and no generic version",
        "ROCr, clr",
        lambda s: unless(s.header.flags & ~0xFF == _ANY_FEATURES, f"flags {s.header.flags:#x}"),
    ),
    Requirement("header sizes", "ELF64 records", "ROCr, clr", _header_sizes),
    Requirement("extent", "a file that ends with its section table: its size is computed from that", "ROCr", _extent),
    _section(".shstrtab", elf.SHT_STRTAB, 0, "ROCr, clr"),
    _section(".strtab", elf.SHT_STRTAB, 0, "clr"),
    _section(".symtab", elf.SHT_SYMTAB, 0, "ROCr"),
    _section(".note", elf.SHT_NOTE, elf.SHF_ALLOC, "comgr"),
    _section(".dynsym", elf.SHT_DYNSYM, elf.SHF_ALLOC, "comgr"),
    _section(".dynstr", elf.SHT_STRTAB, elf.SHF_ALLOC, "comgr"),
    _section(".hash", elf.SHT_HASH, elf.SHF_ALLOC, "ROCr"),
    _section(".gnu.hash", elf.SHT_GNU_HASH, elf.SHF_ALLOC, "ROCr"),
    _section(".rodata", elf.SHT_PROGBITS, elf.SHF_ALLOC, "ROCr"),
    _section(".text", elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_EXECINSTR, "ROCr"),
    _section(".dynamic", elf.SHT_DYNAMIC, elf.SHF_ALLOC, "ROCr"),
    Requirement("section types", "nothing behind the first section but code, data, tables and notes", "ROCr", _kinds),
    Requirement("symbol tables", "tables with their own names, local symbols in front", "ROCr, comgr", _links),
    Requirement("hash tables", "tables through which every name of .dynsym is found", "ROCr", _hashes),
    Requirement("no relocations", "nothing left to relocate", "ROCr", _relocations),
    Requirement("no variables", "no memory that outlives a launch", "plan", _constant),
    Requirement("segments", "loaded segments in order, the first at the begin of the file", "ROCr", _loads),
    Requirement(
        "segment bytes", "segments that lie in the file, with at most a page more of memory", "ROCr", _load_bytes
    ),
    Requirement("segment alignment", "segments aligned so that code stays aligned", "ROCr, hardware", _load_align),
    Requirement(
        "sections in segments", "every section that occupies memory is loaded, at its address", "ROCr", _placed
    ),
    Requirement(
        "segment rights", "code that is executed, constants that are read, neither written", "ROCr", _permissions
    ),
    _covers(".note", elf.PT_NOTE, "comgr"),
    _covers(".dynamic", elf.PT_DYNAMIC, "comgr"),
    Requirement("dynamic table", "a table that names all of the others and no relocation", "comgr", _dynamic),
)
