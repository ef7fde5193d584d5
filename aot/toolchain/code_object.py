"""A code object as data: what its descriptor tells the hardware, what its metadata tells a runtime, and its code.

Reads the ELF files that `link` makes (and those of other compilers, if they hold one kernel). Raises CodeObjectError on
anything else: truncated, foreign, inconsistent.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack

from aot.toolchain import elf
from aot.toolchain.errors import CodeObjectError
from aot.toolchain.kernel_descriptor import DESCRIPTOR_BYTES, KernelDescriptor, read_descriptor
from grids.targets import targets

_NOTE_HEADER = struct.Struct("<III")
_NT_AMDGPU_METADATA = 32
_MACH_MASK = 0xFF


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One argument as the metadata lists it; `kind` is a value kind such as "global_buffer" or "by_value"."""

    name: str
    offset: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class CodeObject:
    """One kernel. Register counts are those that the code uses; the descriptor has those that are allocated.

    `vgprs` counts architectural registers and accumulators together, as occupancy does; `text` starts at `text_address`
    and `entry_offset` is the kernel's first instruction within it, `code_bytes` the length from there.
    """

    arch: str
    symbol: str
    descriptor: KernelDescriptor
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    kernarg_align: int
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    max_flat_workgroup_size: int
    wavefront_size: int
    uses_dynamic_stack: bool
    arguments: tuple[KernelArgument, ...]
    text: bytes = field(repr=False)
    text_address: int
    entry_offset: int
    code_bytes: int


def read(code: bytes) -> CodeObject:
    """The one kernel of a code object."""
    file = elf.read_elf(code)
    if file.type != elf.ET_DYN:
        raise CodeObjectError(f"ELF type {file.type} is not a linked code object ({elf.ET_DYN})")
    machine = file.flags & _MACH_MASK
    arch = next((gpu.arch for gpu in targets().values() if gpu.elf_machine == machine), None)
    if arch is None:
        known = " or ".join(targets())
        raise CodeObjectError(f"code object is for machine {machine:#x}, not {known}")
    text, symbols = file.find(".text"), file.symbols(file.find(".dynsym"))
    kernels = [symbol for symbol in symbols if symbol.type == elf.STT_OBJECT and symbol.name.endswith(".kd")]
    if len(kernels) != 1:
        raise CodeObjectError(f"code object has {len(kernels)} kernel descriptors, expected one")
    name = kernels[0].name.removesuffix(".kd")
    descriptor = read_descriptor(_bytes_at(file, kernels[0].value, DESCRIPTOR_BYTES))
    entry = kernels[0].value + descriptor.entry_offset
    functions = [symbol for symbol in symbols if symbol.type == elf.STT_FUNC and symbol.name == name]
    if len(functions) != 1 or functions[0].value != entry:
        raise CodeObjectError(f"kernel {name} has no function at its descriptor's entry {entry:#x}")
    entry_offset, code_bytes = entry - text.address, functions[0].size
    if not 0 <= entry_offset <= entry_offset + code_bytes <= len(text.content):
        raise CodeObjectError(f"kernel {name} is outside of .text")
    metadata = _kernel_metadata(read_metadata(file.find(".note").content), name)
    return CodeObject(
        arch=arch,
        symbol=name,
        descriptor=descriptor,
        lds_bytes=_int(metadata, ".group_segment_fixed_size"),
        scratch_bytes=_int(metadata, ".private_segment_fixed_size"),
        kernarg_bytes=_int(metadata, ".kernarg_segment_size"),
        kernarg_align=_int(metadata, ".kernarg_segment_align"),
        vgprs=_int(metadata, ".vgpr_count"),
        agprs=_int(metadata, ".agpr_count", 0),
        sgprs=_int(metadata, ".sgpr_count"),
        vgpr_spills=_int(metadata, ".vgpr_spill_count", 0),
        sgpr_spills=_int(metadata, ".sgpr_spill_count", 0),
        max_flat_workgroup_size=_int(metadata, ".max_flat_workgroup_size"),
        wavefront_size=_int(metadata, ".wavefront_size"),
        uses_dynamic_stack=bool(metadata.get(".uses_dynamic_stack", False)),
        arguments=_arguments(metadata),
        text=text.content,
        text_address=text.address,
        entry_offset=entry_offset,
        code_bytes=code_bytes,
    )


def _bytes_at(file: elf.ElfFile, address: int, size: int) -> bytes:
    for section in file.sections:
        start = address - section.address
        if section.flags & elf.SHF_ALLOC and start >= 0 and start + size <= len(section.content):
            return section.content[start : start + size]
    raise CodeObjectError(f"no section holds {size} bytes at {address:#x}")


def read_metadata(notes: bytes) -> dict[str, Any]:
    """The msgpack document in the AMDGPU note of a `.note` section."""
    document = _metadata_note(notes)
    try:
        metadata = msgpack.unpackb(document)
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise CodeObjectError(f"metadata is not msgpack: {error}") from error
    if not isinstance(metadata, dict):
        raise CodeObjectError("metadata is not a map")
    return metadata


def _kernel_metadata(metadata: Mapping[str, Any], kernel: str) -> dict[str, Any]:
    """The part of the metadata that describes one kernel."""
    kernels = metadata.get("amdhsa.kernels")
    if not isinstance(kernels, list) or not all(isinstance(entry, dict) for entry in kernels):
        raise CodeObjectError("metadata has no list amdhsa.kernels")
    found: list[dict[str, Any]] = [entry for entry in kernels if entry.get(".symbol") == f"{kernel}.kd"]
    if len(found) != 1:
        raise CodeObjectError(f"metadata describes kernel {kernel} {len(found)} times, expected once")
    return found[0]


def _metadata_note(notes: bytes) -> bytes:
    """Notes are: name bytes, descriptor bytes, type (u32 each), then both, each padded to 4."""
    position = 0
    while position + 12 <= len(notes):
        name_bytes, size, kind = _NOTE_HEADER.unpack_from(notes, position)
        start = position + 12 + name_bytes + -name_bytes % 4
        if start + size > len(notes):
            raise CodeObjectError(f"note of {size} bytes at {position} is longer than its section ({len(notes)} bytes)")
        if kind == _NT_AMDGPU_METADATA and notes[position + 12 : position + 12 + name_bytes] == b"AMDGPU\0":
            return notes[start : start + size]
        position = start + size + -size % 4
    raise CodeObjectError("code object has no AMDGPU metadata note")


def _int(metadata: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = metadata.get(key, default)
    if not isinstance(value, int) or value < 0:
        raise CodeObjectError(f"metadata field {key} is {value!r}, expected a non-negative integer")
    return value


def _arguments(metadata: Mapping[str, Any]) -> tuple[KernelArgument, ...]:
    entries = metadata.get(".args", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CodeObjectError("metadata field .args is not a list of maps")
    return tuple(
        KernelArgument(
            str(entry.get(".name", "")), _int(entry, ".offset"), _int(entry, ".size"), str(entry.get(".value_kind", ""))
        )
        for entry in entries
    )
