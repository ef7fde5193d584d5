"""What HIP reads of the metadata, held against the descriptor, the plan's arguments and the limits of a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from aot.toolchain.loader_contract.requirement import Requirement, unless
from aot.toolchain.loader_contract.subject import Subject

_METADATA_VERSION = [1, 2]
# What ROCr aligns argument segments to, whatever the metadata says.
_KERNARG_ALIGN = 16
# Addressable scalar registers, and VCC, FLAT_SCRATCH and XNACK_MASK, which LLVM counts with them.
_MAX_SGPRS = 102 + 6
_METADATA_NOTE = b"\x07\0\0\0"


def _field(key: str, wanted: Callable[[Subject], Any], name: str, text: str, who: str) -> Requirement:
    """A field of the kernel's metadata with one right value."""

    def violation(subject: Subject) -> str:
        value, right = subject.kernel.get(key), wanted(subject)
        return unless(value == right and type(value) is type(right), f"{key} is {value!r}, expected {right!r}")

    return Requirement(name, text, who, violation)


def _note(subject: Subject) -> str:
    notes = subject.file.find(".note").content
    size = len(msgpack.packb(subject.metadata))
    # Name size, descriptor size and type, the name padded to 4, the document padded to 4: nothing behind it.
    alone = 12 + 8 + size + -size % 4
    return unless(len(notes) == alone and notes[:4] == _METADATA_NOTE, f"{len(notes)} bytes of notes, not {alone}")


def _one_kernel(subject: Subject) -> str:
    name = subject.kernel.get(".name")
    return unless(name == subject.expected.symbol, f"the kernel is named {name!r}")


def _kernarg_align(subject: Subject) -> str:
    value = subject.kernel.get(".kernarg_segment_align")
    widest = max((argument.size for argument in subject.expected.arguments.arguments), default=1)
    right = isinstance(value, int) and widest <= value <= _KERNARG_ALIGN and not value & value - 1
    return unless(right, f".kernarg_segment_align is {value!r}, the widest argument has {widest} bytes")


def _required_block(subject: Subject) -> str:
    value = subject.kernel.get(".reqd_workgroup_size")
    return unless(value in (None, [subject.expected.block_size, 1, 1]), f".reqd_workgroup_size is {value!r}")


def _count(subject: Subject, key: str) -> int:
    value = subject.kernel.get(key, 0)
    return value if isinstance(value, int) and value >= 0 else 1 << 32


def _used_registers(subject: Subject) -> str:
    descriptor = subject.descriptor
    vgprs, agprs, sgprs = (_count(subject, f".{kind}_count") for kind in ("vgpr", "agpr", "sgpr"))
    enough = vgprs <= descriptor.vgprs and sgprs <= descriptor.sgprs
    enough = enough and (agprs == 0 or agprs <= descriptor.agprs)
    return unless(
        enough and ".vgpr_count" in subject.kernel and ".sgpr_count" in subject.kernel,
        f"uses {vgprs} VGPRs, {agprs} AGPRs and {sgprs} SGPRs, allocates {descriptor.vgprs}, {descriptor.agprs} and "
        f"{descriptor.sgprs}",
    )


def _each(key: str, wanted: Callable[[Subject], list[Any]]) -> Callable[[Subject], str]:
    """One value of every argument."""

    def violation(subject: Subject) -> str:
        for argument, entry, right in zip(
            subject.expected.arguments.arguments, subject.arguments, wanted(subject), strict=False
        ):
            if entry.get(key) != right:
                return f"{key} of {argument.name} is {entry.get(key)!r}, expected {right!r}"
        return ""

    return violation


def _names(subject: Subject) -> list[Any]:
    return list(subject.expected.arguments.names)


def _offsets(subject: Subject) -> list[Any]:
    return list(subject.expected.arguments.offsets.values())


def _sizes(subject: Subject) -> list[Any]:
    return [argument.size for argument in subject.expected.arguments.arguments]


def _kinds(subject: Subject) -> list[Any]:
    return [_by_kind(argument.kind, "global_buffer", "by_value") for argument in subject.expected.arguments.arguments]


def _spaces(subject: Subject) -> list[Any]:
    return [_by_kind(argument.kind, "global", None) for argument in subject.expected.arguments.arguments]


def _by_kind(kind: str, pointer: str, value: str | None) -> str | None:
    return pointer if kind == "ptr" else value


def _argument_count(subject: Subject) -> str:
    found, wanted = len(subject.arguments), len(subject.expected.arguments.arguments)
    return unless(found == wanted, f"{found} arguments, the plan binds {wanted}")


def _threads(subject: Subject) -> str:
    block, target = subject.expected.block_size, subject.expected.target
    return unless(0 < block <= target.max_threads and block % target.wave_size == 0, f"{block} threads")


def _registers(subject: Subject) -> str:
    descriptor, target = subject.descriptor, subject.expected.target
    # A workgroup's waves are spread over the SIMDs of its compute unit, each with a register file of its own.
    waves = -(-subject.expected.block_size // (target.wave_size * target.simds))
    return unless(
        descriptor.vgprs * waves <= target.vgprs,
        f"{waves} waves of {descriptor.vgprs} VGPRs on a SIMD that has {target.vgprs}",
    )


LAUNCH_ROWS = (
    Requirement("metadata note", "one note, with the AMDGPU metadata", "comgr", _note),
    Requirement(
        "metadata version",
        "version 1.2, that of code object version 5",
        "clr",
        lambda s: unless(
            s.metadata.get("amdhsa.version") == _METADATA_VERSION, f"version {s.metadata.get('amdhsa.version')!r}"
        ),
    ),
    Requirement(
        "metadata target",
        "the kernel's target, without features",
        "clr",
        lambda s: unless(
            s.metadata.get("amdhsa.target") == f"amdgcn-amd-amdhsa--{s.expected.arch}",
            f"target {s.metadata.get('amdhsa.target')!r}",
        ),
    ),
    Requirement(
        "no printf",
        "no printf, for which HIP would keep a buffer and a thread",
        "clr",
        lambda s: unless("amdhsa.printf" not in s.metadata, "amdhsa.printf is there"),
    ),
    Requirement("one kernel", "one kernel, with the name of its symbol", "clr", _one_kernel),
    _field(
        ".symbol", lambda s: f"{s.expected.symbol}.kd", "descriptor name", "the name of the descriptor's symbol", "clr"
    ),
    _field(".wavefront_size", lambda s: s.expected.target.wave_size, "metadata wave size", "waves of 64", "clr"),
    _field(
        ".kernarg_segment_size",
        lambda s: s.expected.arguments.size,
        "argument bytes",
        "the plan's arguments and nothing behind them",
        "HIP launch, plan",
    ),
    Requirement("argument alignment", "the alignment of the widest argument, at most 16", "ROCr", _kernarg_align),
    _field(
        ".kernarg_segment_size",
        lambda s: s.descriptor.kernarg_bytes,
        "descriptor argument bytes",
        "one size of the arguments in descriptor and metadata",
        "ROCr, clr",
    ),
    _field(
        ".group_segment_fixed_size",
        lambda s: s.descriptor.lds_bytes,
        "descriptor LDS",
        "one size of LDS in descriptor and metadata",
        "ROCr, clr",
    ),
    _field(
        ".private_segment_fixed_size",
        lambda s: s.descriptor.scratch_bytes,
        "descriptor scratch",
        "one size of scratch in descriptor and metadata",
        "ROCr, clr",
    ),
    _field(".uses_dynamic_stack", lambda _: False, "metadata stack", "no stack of unknown size", "clr"),
    _field(".uniform_work_group_size", lambda _: 1, "uniform blocks", "grids of whole blocks", "HIP launch"),
    _field(
        ".max_flat_workgroup_size",
        lambda s: s.expected.block_size,
        "block",
        "the block of the plan: HIP launches no larger one, and registers are given out for it",
        "HIP launch, plan",
    ),
    Requirement("required block", "no other block that is required", "HIP launch", _required_block),
    Requirement("allocated registers", "at least as many registers allocated as used", "hardware", _used_registers),
    Requirement("arguments", "as many arguments as the plan binds, none of them hidden", "HIP launch", _argument_count),
    Requirement("argument names", "the plan's arguments in its order", "plan", _each(".name", _names)),
    Requirement("argument offsets", "every argument where the plan puts it", "HIP launch", _each(".offset", _offsets)),
    Requirement("argument sizes", "every argument as wide as the plan's", "HIP launch", _each(".size", _sizes)),
    Requirement("argument kinds", "pointers as buffers, numbers by value", "clr", _each(".value_kind", _kinds)),
    Requirement("address spaces", "buffers in global memory", "clr", _each(".address_space", _spaces)),
    Requirement("threads", "whole waves, at most as many threads as a workgroup may have", "HIP launch", _threads),
    Requirement(
        "LDS",
        "no more LDS than a workgroup may have",
        "HIP launch, hardware",
        lambda s: unless(s.descriptor.lds_bytes <= s.expected.target.lds_bytes, f"{s.descriptor.lds_bytes} bytes"),
    ),
    Requirement("vector registers", "a workgroup that fits into a compute unit", "hardware", _registers),
    Requirement(
        "scalar registers",
        "no more scalar registers than can be addressed",
        "hardware",
        lambda s: unless(_count(s, ".sgpr_count") <= _MAX_SGPRS, f"{s.kernel.get('.sgpr_count')!r} SGPRs"),
    ),
)
