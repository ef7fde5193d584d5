"""Code objects with one thing wrong: a plant for every requirement of the loader contract."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from aot.toolchain import elf
from aot.toolchain.code_object import read_metadata
from aot.toolchain.linker import link_object
from aot.toolchain.loader_contract import Expected

_HEADER = (
    *("ident", "type", "machine", "version", "entry", "phoff", "shoff", "flags"),
    *("ehsize", "phentsize", "phnum", "shentsize", "shnum", "shstrndx"),
)
_SECTION = ("name", "type", "flags", "address", "offset", "size", "link", "info", "align", "entry_size")
_SEGMENT = ("type", "flags", "offset", "address", "physical", "file_bytes", "memory_bytes", "align")
_SYMBOL = ("name", "info", "other", "section", "value", "size")
_METADATA_NOTE = struct.pack("<III8s", 7, 0, 32, b"AMDGPU\0\0")

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Planted:
    """A code object, the relocatable object it was linked from, and what is expected of it."""

    obj: bytes
    code: bytes
    expected: Expected

    def _patched(
        self, layout: struct.Struct, offset: int, names: tuple[str, ...], change: dict[str, Change]
    ) -> Planted:
        code = bytearray(self.code)
        values = list(layout.unpack_from(code, offset))
        for name, new in change.items():
            values[names.index(name)] = new(values[names.index(name)])
        layout.pack_into(code, offset, *values)
        return replace(self, code=bytes(code))

    def at(self, offset: int, data: bytes) -> Planted:
        """Other bytes at an offset of the file."""
        return replace(self, code=self.code[:offset] + data + self.code[offset + len(data) :])

    def expecting(self, **values: Any) -> Planted:
        """Something else expected of the same object."""
        return replace(self, expected=replace(self.expected, **values))

    def header(self, **change: Change) -> Planted:
        return self._patched(elf.HEADER, 0, _HEADER, change)

    def section(self, section: str, /, **change: Change) -> Planted:
        file = elf.read_elf(self.code)
        index = [entry.name for entry in file.sections].index(section)
        return self._patched(elf.SECTION, self._table() + index * elf.SECTION.size, _SECTION, change)

    def segment(self, kind: int, number: int = 0, **change: Change) -> Planted:
        found = [index for index, segment in enumerate(elf.read_segments(self.code)) if segment.type == kind]
        offset = elf.HEADER.size + found[number] * elf.SEGMENT.size
        return self._patched(elf.SEGMENT, offset, _SEGMENT, change)

    def symbol(self, table: str, suffix: str, **change: Change) -> Planted:
        """The first symbol whose name ends like that."""
        file = elf.read_elf(self.code)
        section = file.find(table)
        index = next(i for i, symbol in enumerate(file.symbols(section)) if symbol.name.endswith(suffix))
        return self._patched(elf.SYMBOL, section.offset + index * elf.SYMBOL.size, _SYMBOL, change)

    def content(self, section: str, offset: int, data: bytes) -> Planted:
        return self.at(elf.read_elf(self.code).find(section).offset + offset, data)

    def word(self, offset: int, change: Callable[[int], int], code: str = "<I") -> Planted:
        """A word of the kernel descriptor."""
        content = elf.read_elf(self.code).find(".rodata").content
        (old,) = struct.unpack_from(code, content, offset)
        return self.content(".rodata", offset, struct.pack(code, change(old)))

    def metadata(self, change: Callable[[dict[str, Any]], object]) -> Planted:
        """Linked again from an object with other metadata."""
        file = elf.read_elf(self.obj)
        document = read_metadata(file.find(".note").content)
        change(document)
        return self.note(msgpack.packb(document))

    def note(self, document: bytes, more: bytes = b"") -> Planted:
        """Linked again from an object with that document in its note, and bytes behind the note."""
        file, obj = elf.read_elf(self.obj), bytearray(self.obj)
        note = bytearray(_METADATA_NOTE + document + bytes(-len(document) % 4) + more)
        struct.pack_into("<I", note, 4, len(document))
        index = [section.name for section in file.sections].index(".note")
        header = elf.HEADER.unpack_from(obj)[6] + index * elf.SECTION.size
        struct.pack_into("<QQ", obj, header + 24, len(obj), len(note))
        return replace(self, code=link_object(bytes(obj + note), "a test"))

    def kernel(self, **values: object) -> Planted:
        """Linked again with other values of the kernel's metadata; None takes a field away."""

        def change(document: dict[str, Any]) -> None:
            kernel = document["amdhsa.kernels"][0]
            for name, value in values.items():
                kernel.pop(f".{name}", None)
                if value is not None:
                    kernel[f".{name}"] = value

        return self.metadata(change)

    def argument(self, number: int, key: str, value: object) -> Planted:
        """Linked again with another value in the metadata of one argument."""
        return self.metadata(lambda document: document["amdhsa.kernels"][0][".args"][number].__setitem__(key, value))

    def _table(self) -> int:
        offset: int = elf.HEADER.unpack_from(self.code)[6]
        return offset


def _to(value: Any) -> Change:
    return lambda _: value


def _plus(value: int) -> Change:
    return lambda old: old + value


def _with(bits: int) -> Change:
    return lambda old: old | bits


def _ident(index: int, value: int) -> Change:
    return lambda old: old[:index] + bytes([value]) + old[index + 1 :]


def _unnamed(name: str) -> Change:
    return lambda p: p.section(name, name=_plus(1))


_FIRST_LOCAL = ".num_vgpr"

PLANTS: dict[str, Callable[[Planted], Planted]] = {
    "magic": lambda p: p.header(ident=_ident(0, 0x7E)),
    "class": lambda p: p.header(ident=_ident(4, 1)),
    "byte order": lambda p: p.header(ident=_ident(5, 2)),
    "version": lambda p: p.header(version=_to(2)),
    "OS ABI": lambda p: p.header(ident=_ident(7, 0)),
    "ABI version": lambda p: p.header(ident=_ident(8, 4)),
    "type": lambda p: p.header(type=_to(elf.ET_REL)),
    "machine": lambda p: p.header(machine=_to(62)),
    "target": lambda p: p.header(flags=lambda old: old ^ 3),
    "target features": lambda p: p.header(flags=_with(0x200)),
    "header sizes": lambda p: p.header(phentsize=_plus(8)),
    "extent": lambda p: replace(p, code=p.code + bytes(8)),
    **{
        f"section {name}": _unnamed(name)
        for name in (
            *(".shstrtab", ".strtab", ".symtab", ".note", ".dynsym", ".dynstr", ".hash", ".gnu.hash", ".rodata"),
            *(".text", ".dynamic"),
        )
    },
    "section types": lambda p: p.section(".relro_padding", type=_to(0)),
    "symbol tables": lambda p: p.section(".symtab", info=_plus(1)),
    "hash tables": lambda p: p.content(".gnu.hash", 16, bytes(8)),
    "no relocations": lambda p: p.section(".comment", type=_to(elf.SHT_RELA)),
    "no variables": lambda p: p.section(".rodata", flags=_with(elf.SHF_WRITE)),
    "segments": lambda p: p.segment(elf.PT_LOAD, 1, address=_to(8)),
    "segment bytes": lambda p: p.segment(elf.PT_LOAD, 2, file_bytes=_plus(1 << 20)),
    "segment alignment": lambda p: p.segment(elf.PT_LOAD, 1, align=_to(128)),
    "segment rights": lambda p: p.segment(elf.PT_LOAD, 1, flags=_with(elf.PF_W)),
    "sections in segments": lambda p: p.segment(elf.PT_LOAD, 0, memory_bytes=_plus(-8)),
    "segment of .note": lambda p: p.segment(elf.PT_NOTE, offset=_plus(4)),
    "segment of .dynamic": lambda p: p.segment(elf.PT_DYNAMIC, file_bytes=_plus(16)),
    "dynamic table": lambda p: p.content(".dynamic", 64, struct.pack("<Q", 7)),
    "name": lambda p: p.expecting(symbol="module:kernel"),
    "kernel symbol": lambda p: p.symbol(".symtab", "_kernel", info=_to(elf.STB_GLOBAL << 4 | elf.STT_NOTYPE)),
    "descriptor symbol": lambda p: p.symbol(".symtab", ".kd", size=_to(0)),
    "visibility": lambda p: p.symbol(".symtab", ".kd", other=_to(elf.STV_HIDDEN)),
    "no other symbols": lambda p: p.symbol(".symtab", "_DYNAMIC", info=_with(elf.STB_GLOBAL << 4)),
    "no undefined symbols": lambda p: p.symbol(".symtab", _FIRST_LOCAL, section=_to(elf.SHN_UNDEF)),
    "no old kernels": lambda p: p.symbol(".symtab", _FIRST_LOCAL, info=_to(10)),
    "dynamic symbols": lambda p: p.symbol(".dynsym", ".kd", value=_plus(64)),
    "descriptor alignment": lambda p: p.symbol(".symtab", ".kd", value=_plus(-4)),
    "descriptor bytes": lambda p: p.word(24, _to(1)),
    "descriptor bits": lambda p: p.word(52, _with(1 << 15)),
    "entry": lambda p: p.word(16, _plus(256), "<q"),
    "entry alignment": lambda p: p.symbol(".symtab", "_kernel", value=_plus(4)),
    "wave size": lambda p: p.word(56, _with(1 << 10), "<H"),
    "user SGPRs": lambda p: p.word(52, _plus(2)),
    "no preload": lambda p: p.word(58, _to(4), "<H"),
    "inputs": lambda p: p.word(56, _with(2), "<H"),
    "scratch enabled": lambda p: p.word(52, _with(1)),
    "no stack": lambda p: p.word(56, _with(1 << 11), "<H"),
    "no split workgroups": lambda p: p.word(44, _with(1 << 16)),
    "rounding": lambda p: p.word(48, _with(3 << 12)),
    "metadata note": lambda p: p.note(read_document(p), more=bytes(20)),
    "metadata version": lambda p: p.metadata(lambda m: m.update({"amdhsa.version": [1, 1]})),
    "metadata target": lambda p: p.metadata(lambda m: m.update({"amdhsa.target": "amdgcn-amd-amdhsa--gfx90a"})),
    "no printf": lambda p: p.metadata(lambda m: m.update({"amdhsa.printf": ["1:0:x"]})),
    "one kernel": lambda p: p.metadata(lambda m: m["amdhsa.kernels"].append({".name": "b", ".symbol": "b.kd"})),
    "descriptor name": lambda p: p.kernel(symbol="other.kd"),
    "metadata wave size": lambda p: p.kernel(wavefront_size=32),
    "argument bytes": lambda p: p.kernel(kernarg_segment_size=4096),
    "argument alignment": lambda p: p.kernel(kernarg_segment_align=4),
    "descriptor argument bytes": lambda p: p.word(8, _plus(8)),
    "descriptor LDS": lambda p: p.word(0, _plus(1024)),
    "descriptor scratch": lambda p: p.word(4, _plus(16)),
    "metadata stack": lambda p: p.kernel(uses_dynamic_stack=True),
    "uniform blocks": lambda p: p.kernel(uniform_work_group_size=None),
    "block": lambda p: p.kernel(max_flat_workgroup_size=1024),
    "required block": lambda p: p.kernel(reqd_workgroup_size=[32, 2, 1]),
    "allocated registers": lambda p: p.kernel(vgpr_count=512),
    "arguments": lambda p: p.metadata(lambda m: m["amdhsa.kernels"][0][".args"].pop()),
    "argument names": lambda p: p.argument(1, ".name", "E"),
    "argument offsets": lambda p: p.argument(4, ".offset", 1000),
    "argument sizes": lambda p: p.argument(4, ".size", 8),
    "argument kinds": lambda p: p.argument(0, ".value_kind", "by_value"),
    "address spaces": lambda p: p.argument(0, ".address_space", "constant"),
    "threads": lambda p: p.expecting(block_size=100),
    "LDS": lambda p: p.word(0, _to(1 << 20)),
    "vector registers": lambda p: p.word(48, _with(63)).expecting(block_size=1024),
    "scalar registers": lambda p: p.kernel(sgpr_count=109),
}


def read_document(planted: Planted) -> bytes:
    """The metadata document as it is."""
    return bytes(msgpack.packb(read_metadata(elf.read_elf(planted.obj).find(".note").content)))
