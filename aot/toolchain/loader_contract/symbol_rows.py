"""What loaders need of symbols, and the command processor of the kernel descriptor."""

from __future__ import annotations

import struct

from aot.toolchain import elf
from aot.toolchain.kernel_descriptor import DESCRIPTOR_BYTES
from aot.toolchain.loader_contract.requirement import Requirement, unless
from aot.toolchain.loader_contract.subject import Subject

_ENTRY_ALIGN, _DESCRIPTOR_ALIGN = 256, 64
# A kernel symbol of code objects before version 3, which had its descriptor in front of its code.
_STT_AMDGPU_HSA_KERNEL = 10
# Bits that a code object leaves to the command processor, or that no GPU of these has (LLVM's "User Guide for AMDGPU
# Backend", compute_pgm_rsrc1 to 3 for GFX90A and kernel code properties).
_ZERO_RSRC1 = 0xFB500C00  # priority, privileged, debug mode, bulky, debugger's user data, GFX10 and later
_ZERO_RSRC2 = 0xFFFFE040  # trap handler, exceptions, LDS size
_ZERO_RSRC3 = 0xFFFEFFC0
_ZERO_PROPERTIES = 0xF380
# User SGPRs of each enabled property, in the order of their bits.
_PROPERTY_SGPRS = (4, 2, 2, 2, 2, 2, 1)


def _home(subject: Subject, symbol: elf.Symbol) -> str:
    """The section that a symbol is in."""
    sections = subject.file.sections
    return sections[symbol.section].name if symbol.section < len(sections) else "nowhere"


def _function(subject: Subject) -> str:
    symbol, text = subject.function, subject.file.find(".text")
    inside = text.address <= symbol.value <= symbol.value + symbol.size <= text.address + text.size
    right = (symbol.binding, symbol.type) == (elf.STB_GLOBAL, elf.STT_FUNC) and symbol.size > 0 and inside
    return unless(right and _home(subject, symbol) == ".text", f"found {symbol}")


def _object(subject: Subject) -> str:
    symbol = subject.object
    found = (symbol.binding, symbol.type, symbol.size, _home(subject, symbol))
    return unless(found == (elf.STB_GLOBAL, elf.STT_OBJECT, DESCRIPTOR_BYTES, ".rodata"), f"found {symbol}")


def _visible(subject: Subject) -> str:
    hidden = [
        s.name for s in (subject.function, subject.object) if s.visibility not in (elf.STV_DEFAULT, elf.STV_PROTECTED)
    ]
    return unless(not hidden, f"{', '.join(hidden)} hidden")


def _no_other(subject: Subject) -> str:
    ours = {subject.expected.symbol, f"{subject.expected.symbol}.kd"}
    others = [s.name for s in subject.static_symbols if s.binding != elf.STB_LOCAL and s.name not in ours]
    return unless(not others, f"{', '.join(others)} as well")


def _defined(subject: Subject) -> str:
    tables = (*subject.static_symbols[1:], *subject.dynamic_symbols[1:])
    undefined = [symbol.name for symbol in tables if symbol.section in (elf.SHN_UNDEF, elf.SHN_COMMON)]
    return unless(not undefined, f"{', '.join(undefined)} undefined")


def _no_old(subject: Subject) -> str:
    old = [symbol.name for symbol in subject.static_symbols if symbol.type == _STT_AMDGPU_HSA_KERNEL]
    return unless(not old, f"{', '.join(old)} of code object version 2")


def _same_symbols(subject: Subject) -> str:
    static = sorted(symbol for symbol in subject.static_symbols if symbol.binding != elf.STB_LOCAL)
    dynamic = sorted(subject.dynamic_symbols[1:])
    return unless(static == dynamic, f".dynsym has {[symbol.name for symbol in dynamic]}, or other values")


def _name(subject: Subject) -> str:
    symbol = subject.expected.symbol
    return unless(symbol.isascii() and symbol.isprintable() and not set(symbol) & set(": "), f"named {symbol!r}")


def _reserved_bits(subject: Subject) -> str:
    descriptor = subject.descriptor
    (properties,) = struct.unpack_from("<H", subject.descriptor_bytes, 56)
    words = (
        ("rsrc1", descriptor.rsrc1, _ZERO_RSRC1),
        ("rsrc2", descriptor.rsrc2, _ZERO_RSRC2),
        ("rsrc3", descriptor.rsrc3, _ZERO_RSRC3),
        ("properties", properties, _ZERO_PROPERTIES),
    )
    wrong = [f"{name} has {value & zero:#x}" for name, value, zero in words if value & zero]
    return unless(not wrong, ", ".join(wrong))


def _reserved_bytes(subject: Subject) -> str:
    data = subject.descriptor_bytes
    return unless(not any((*data[12:16], *data[24:44], *data[60:])), "reserved bytes are not zero")


def _user_sgprs(subject: Subject) -> str:
    (properties,) = struct.unpack_from("<H", subject.descriptor_bytes, 56)
    enabled = sum(count for bit, count in enumerate(_PROPERTY_SGPRS) if properties >> bit & 1)
    found = subject.descriptor.user_sgprs
    return unless(found == enabled, f"{found} user SGPRs for properties that take {enabled}")


def _entry(subject: Subject) -> str:
    entry = subject.object.value + subject.descriptor.entry_offset
    return unless(entry == subject.function.value, f"entry {entry:#x}, kernel at {subject.function.value:#x}")


def _inputs(subject: Subject) -> str:
    descriptor = subject.descriptor
    hidden = ("private_segment_buffer", "dispatch_ptr", "queue_ptr", "dispatch_id", "flat_scratch_init")
    wrong = [name for name in hidden if getattr(descriptor, name)]
    wrong += [] if descriptor.kernarg_segment_ptr else ["no kernarg_segment_ptr"]
    return unless(not wrong, ", ".join(wrong))


def _scratch_enabled(subject: Subject) -> str:
    descriptor = subject.descriptor
    return unless(
        descriptor.has_private_segment == (descriptor.scratch_bytes > 0),
        f"{descriptor.scratch_bytes} bytes of scratch, enabled: {descriptor.has_private_segment}",
    )


def _rounding(subject: Subject) -> str:
    found = subject.descriptor.round_mode_32, subject.descriptor.round_mode_16_64
    return unless(found == (0, 0), f"rounding modes {found}")


SYMBOL_ROWS = (
    Requirement("name", "a name without the colon that ROCr cuts names at", "ROCr", _name),
    Requirement("kernel symbol", "NAME in .symtab: a global function in .text", "ROCr", _function),
    Requirement("descriptor symbol", "NAME.kd in .symtab: a global object of 64 bytes in .rodata", "ROCr", _object),
    Requirement("visibility", "symbols that other files can see", "ROCr, comgr", _visible),
    Requirement("no other symbols", "no other global symbol: ROCr would take it for a variable", "ROCr", _no_other),
    Requirement("no undefined symbols", "no symbol that another file has to define", "ROCr", _defined),
    Requirement("no old kernels", "no kernel symbol of code object version 2", "ROCr", _no_old),
    Requirement("dynamic symbols", "the same two symbols in .dynsym", "comgr", _same_symbols),
    Requirement(
        "descriptor alignment",
        "a descriptor at a multiple of 64 bytes",
        "hardware",
        lambda s: unless(s.object.value % _DESCRIPTOR_ALIGN == 0, f"at {s.object.value:#x}"),
    ),
    Requirement("descriptor bytes", "reserved bytes that are zero", "hardware", _reserved_bytes),
    Requirement("descriptor bits", "reserved bits that are zero", "hardware", _reserved_bits),
    Requirement("entry", "a descriptor that points at NAME", "hardware", _entry),
    Requirement(
        "entry alignment",
        "code at a multiple of 256 bytes",
        "hardware",
        lambda s: unless(s.function.value % _ENTRY_ALIGN == 0, f"at {s.function.value:#x}"),
    ),
    Requirement(
        "wave size",
        "waves of 64",
        "hardware",
        lambda s: unless(not s.descriptor.wavefront_size_32, "the descriptor asks for waves of 32"),
    ),
    Requirement("user SGPRs", "as many user SGPRs as the enabled inputs take", "hardware", _user_sgprs),
    Requirement(
        "no preload",
        "arguments in memory: preloading them needs a prologue for older firmware",
        "hardware",
        lambda s: unless(
            s.descriptor.kernarg_preload_dwords == s.descriptor.kernarg_preload_offset_dwords == 0,
            f"{s.descriptor.kernarg_preload_dwords} words",
        ),
    ),
    Requirement("inputs", "the argument pointer, and nothing of dispatch, queue or stack", "plan", _inputs),
    Requirement("scratch enabled", "scratch enabled if and only if there is some", "hardware", _scratch_enabled),
    Requirement(
        "no stack",
        "no stack of unknown size",
        "ROCr",
        lambda s: unless(not s.descriptor.uses_dynamic_stack, "the descriptor asks for a dynamic stack"),
    ),
    Requirement(
        "no split workgroups",
        "workgroups that stay on one compute unit, as their LDS does",
        "plan",
        lambda s: unless(not s.descriptor.threadgroup_split, "threadgroup split mode is on"),
    ),
    Requirement("rounding", "rounding to nearest even, as the error bounds assume", "plan", _rounding),
)
