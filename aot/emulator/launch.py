"""From a code object and launch parameters to the initial state of waves, as descriptor and ABI say.

Scalar registers: user SGPRs in ABI order (dispatch packet, queue, kernarg segment, dispatch id, flat scratch, private
size, preloaded kernel arguments), then the enabled workgroup ids. v0 holds the packed work-item ids x | y<<10 |
z<<20. Flat scratch is architected: no scratch registers are initialised.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from aot.emulator.decode.instruction import Program
from aot.emulator.decode.known import decode_code
from aot.emulator.errors import LaunchError, UnmodelledStateError
from aot.emulator.image import hidden_arguments, load_image
from aot.emulator.isa.values import LANES
from aot.emulator.state import layout
from aot.emulator.state.hardware_registers import MODELLED_MODES, mode_is_modelled
from aot.emulator.state.memory import PRIVATE_APERTURE, SHARED_APERTURE, Memory
from aot.toolchain import code_object
from aot.toolchain.code_object import CodeObject
from aot.toolchain.compute_unit import why_it_never_starts

# Decoded code objects that are kept.
KEPT_PROGRAMS = 8


@dataclass
class Launch:
    """A kernel ready to run. `lds_bytes` and `scratch_bytes` (per lane) are what a workgroup really has."""

    code: CodeObject
    program: Program
    memory: Memory
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lds_bytes: int
    scratch_bytes: int
    waves: int
    entry: int
    image_base: int
    mode: int
    user_sgprs: list[int]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    def workgroups(self, seed: int) -> list[tuple[int, int, int]]:
        """All workgroups in a seeded random order."""
        groups = [(x, y, z) for z, y, x in itertools.product(*(range(n) for n in reversed(self.grid)))]
        random.Random(seed).shuffle(groups)  # noqa: S311 - an order, no secret
        return groups

    def scalar_cells(self, group: tuple[int, int, int], wave: int) -> npt.NDArray[np.uint32]:
        """The initial scalar cells of a wave; registers that nothing initialises hold a pattern."""
        cells = np.full(layout.SCALAR_CELLS, layout.SCALAR_POISON, np.uint32)
        sgprs = list(self.user_sgprs)
        descriptor = self.code.descriptor
        enabled = (descriptor.workgroup_id_x, descriptor.workgroup_id_y, descriptor.workgroup_id_z)
        sgprs += [number for number, on in zip(group, enabled, strict=True) if on]
        cells[: len(sgprs)] = sgprs
        active = min(LANES, self.threads - LANES * wave)
        exec_mask = (1 << active) - 1
        cells[layout.EXEC : layout.EXEC + 2] = exec_mask & 0xFFFFFFFF, exec_mask >> 32
        cells[layout.SHARED_BASE : layout.SHARED_BASE + 2] = 0, SHARED_APERTURE
        cells[layout.SHARED_LIMIT : layout.SHARED_LIMIT + 2] = 0xFFFFFFFF, SHARED_APERTURE
        cells[layout.PRIVATE_BASE : layout.PRIVATE_BASE + 2] = 0, PRIVATE_APERTURE
        cells[layout.PRIVATE_LIMIT : layout.PRIVATE_LIMIT + 2] = 0xFFFFFFFF, PRIVATE_APERTURE
        return cells

    def workitem_ids(self, wave: int) -> npt.NDArray[np.uint32]:
        """v0 of a wave."""
        flat = np.arange(LANES * wave, LANES * wave + LANES, dtype=np.uint32)
        x, y = flat % self.block[0], flat // self.block[0] % self.block[1]
        z = flat // (self.block[0] * self.block[1])
        ids: npt.NDArray[np.uint32] = x | y << np.uint32(10) | z << np.uint32(20)
        return ids


def prepare(
    code: bytes,
    symbol: str,
    *,
    grid: Sequence[int],
    block: Sequence[int],
    dynamic_lds: int,
    kernarg: bytes,
    memory: Memory,
    target: str | None,
) -> Launch:
    """Check the launch against the code object and decode its instructions. Raises typed errors only."""
    kernel = _read(code)
    if kernel.symbol != symbol:
        raise LaunchError(f"code object has kernel {kernel.symbol!r}, not {symbol!r}")
    if target is not None and target != kernel.arch:
        raise LaunchError(f"code object is for {kernel.arch}, not {target}")
    grid3, block3 = _extent("grid", grid), _extent("block", block)
    threads = block3[0] * block3[1] * block3[2]
    if not 1 <= threads <= kernel.max_flat_workgroup_size:
        raise LaunchError(f"block of {threads} threads; the kernel allows 1 to {kernel.max_flat_workgroup_size}")
    if kernel.wavefront_size != LANES or kernel.descriptor.wavefront_size_32:
        raise UnmodelledStateError("wave32 is not modelled")
    lds_bytes = kernel.lds_bytes + dynamic_lds
    if dynamic_lds < 0:
        raise LaunchError(f"{dynamic_lds} bytes of dynamic LDS")
    never = why_it_never_starts(kernel.arch, threads, kernel.descriptor.vgprs, lds_bytes)
    if never:
        raise LaunchError(f"no compute unit holds a workgroup: {never}")
    if kernel.uses_dynamic_stack:
        raise UnmodelledStateError("a kernel with a dynamic stack: its scratch size is unknown")
    program = _decode(code)
    mapped = memory.extended()
    image_base = load_image(code, mapped)
    block_bytes = hidden_arguments(kernel, grid3, block3, kernarg, dynamic_lds)
    kernarg_address = mapped.add(
        " kernarg", np.frombuffer(bytearray(block_bytes + bytes(16)), np.uint8)[: max(len(block_bytes), 1)]
    )
    user = _user_sgprs(kernel, mapped, grid3, block3, kernarg_address, block_bytes)
    descriptor = kernel.descriptor
    entry_pc = kernel.text_address + kernel.entry_offset
    if descriptor.kernarg_preload_dwords:
        # Behind 256 bytes that load the same arguments for hardware that does not preload.
        entry_pc += 256
    if entry_pc not in program.by_pc:
        raise LaunchError(f"no instruction at the entry {entry_pc:#x}")
    mode = (
        descriptor.round_mode_32
        | descriptor.round_mode_16_64 << 2
        | descriptor.denorm_mode_32 << 4
        | descriptor.denorm_mode_16_64 << 6
        | int(descriptor.dx10_clamp) << 8
        | int(descriptor.ieee_mode) << 9
        | int(descriptor.fp16_overflow) << 23
    )
    if not mode_is_modelled(mode):
        raise UnmodelledStateError(f"MODE {mode:#x}; {MODELLED_MODES}")
    return Launch(
        code=kernel,
        program=program,
        memory=mapped,
        grid=grid3,
        block=block3,
        lds_bytes=lds_bytes,
        scratch_bytes=kernel.scratch_bytes,
        waves=-(-threads // LANES),
        entry=program.by_pc[entry_pc],
        image_base=image_base,
        mode=mode,
        user_sgprs=user,
    )


@lru_cache(maxsize=KEPT_PROGRAMS)
def _read(code: bytes) -> CodeObject:
    return code_object.read(code)


@lru_cache(maxsize=KEPT_PROGRAMS)
def _decode(code: bytes) -> Program:
    """The decoded program: verification runs one code object many times in a row."""
    return decode_code(_read(code), code)


def _extent(what: str, extent: Sequence[int]) -> tuple[int, int, int]:
    if len(extent) != 3 or any(n < 0 or n >= 1 << 31 for n in extent):
        raise LaunchError(f"{what} must be three extents, not {tuple(extent)}")
    return (int(extent[0]), int(extent[1]), int(extent[2]))


def _user_sgprs(
    kernel: CodeObject,
    memory: Memory,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    kernarg: int,
    kernarg_bytes: bytes,
) -> list[int]:
    descriptor = kernel.descriptor
    if descriptor.private_segment_buffer or descriptor.flat_scratch_init:
        raise UnmodelledStateError("the kernel asks for a private segment buffer or flat scratch")
    registers: list[int] = []

    def pointer(address: int) -> None:
        registers.extend((address & 0xFFFFFFFF, address >> 32))

    if descriptor.dispatch_ptr:
        packet = np.zeros(64, np.uint8)
        packet[4:10].view(np.uint16)[:] = block
        packet[12:24].view(np.uint32)[:] = [g * b for g, b in zip(grid, block, strict=True)]
        pointer(memory.add(" dispatch packet", packet))
    if descriptor.queue_ptr:
        queue = np.zeros(256, np.uint8)
        queue[64:72].view(np.uint32)[:] = SHARED_APERTURE, PRIVATE_APERTURE
        pointer(memory.add(" queue", queue))
    if descriptor.kernarg_segment_ptr:
        pointer(kernarg)
    if descriptor.dispatch_id:
        pointer(0)
    if descriptor.private_segment_size:
        registers.append(kernel.scratch_bytes)
    start, count = 4 * descriptor.kernarg_preload_offset_dwords, descriptor.kernarg_preload_dwords
    preload = kernarg_bytes[start : start + 4 * count].ljust(4 * count, b"\0")
    registers.extend(int(word) for word in np.frombuffer(preload, np.uint32))
    if len(registers) != descriptor.user_sgprs and not (count and len(registers) <= descriptor.user_sgprs):
        raise UnmodelledStateError(f"{descriptor.user_sgprs} user SGPRs, {len(registers)} known")
    return registers
