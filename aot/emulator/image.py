"""The loaded code object as device memory, and the arguments that the runtime, not the caller, supplies."""

from __future__ import annotations

import struct

import numpy as np

from aot.emulator.errors import LaunchError, UnmodelledStateError
from aot.emulator.state.memory import Memory
from aot.toolchain import elf
from aot.toolchain.code_object import CodeObject


def load_image(code: bytes, memory: Memory) -> int:
    """Map the allocated sections (constant tables are read relative to the program counter); returns the load
    address."""
    sections = [s for s in elf.read_elf(code).sections if s.flags & elf.SHF_ALLOC]
    end = max((s.address + len(s.content) for s in sections), default=0)
    if end > 1 << 28:
        raise LaunchError(f"code object spans {end} bytes")
    image = np.zeros(max(end, 1), np.uint8)
    for section in sections:
        image[section.address : section.address + len(section.content)] = np.frombuffer(section.content, np.uint8)
    return memory.add(" code object", image)


def hidden_arguments(
    kernel: CodeObject, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: bytes, dynamic_lds: int
) -> bytes:
    """The kernarg block with hidden arguments filled in; the caller gives the explicit ones."""
    explicit = [a for a in kernel.arguments if not a.kind.startswith("hidden_")]
    needed = max((a.offset + a.size for a in explicit), default=0)
    if len(kernarg) < needed:
        raise LaunchError(f"kernarg block of {len(kernarg)} bytes; the kernel's arguments take {needed}")
    if len(kernarg) > max(kernel.kernarg_bytes, needed):
        raise LaunchError(f"kernarg block of {len(kernarg)} bytes; the kernel takes {kernel.kernarg_bytes}")
    block_bytes = bytearray(kernarg.ljust(kernel.kernarg_bytes, b"\0"))
    values = {
        **{f"hidden_block_count_{axis}": grid[i] for i, axis in enumerate("xyz")},
        **{f"hidden_group_size_{axis}": block[i] for i, axis in enumerate("xyz")},
        **{f"hidden_remainder_{axis}": 0 for axis in "xyz"},
        **{f"hidden_global_offset_{axis}": 0 for axis in "xyz"},
        "hidden_grid_dims": 3,
        "hidden_none": 0,
        "hidden_dynamic_lds_size": dynamic_lds,
    }
    for argument in kernel.arguments:
        if not argument.kind.startswith("hidden_"):
            continue
        if argument.offset < len(kernarg):
            continue
        if argument.kind not in values:
            if argument.kind in (
                "hidden_hostcall_buffer",
                "hidden_default_queue",
                "hidden_completion_action",
                "hidden_multigrid_sync_arg",
                "hidden_heap_v1",
                "hidden_private_base",
                "hidden_shared_base",
                "hidden_queue_ptr",
                "hidden_printf_buffer",
            ):
                continue  # a null pointer: whoever follows it meets the out-of-bounds check
            raise UnmodelledStateError(f"hidden argument {argument.kind}")
        packed = struct.pack("<Q", values[argument.kind])[: argument.size]
        block_bytes[argument.offset : argument.offset + argument.size] = packed
    return bytes(block_bytes)
