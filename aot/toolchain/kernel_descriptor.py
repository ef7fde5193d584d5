"""The 64-byte kernel descriptor that the command processor reads, decoded for gfx942 and gfx950.

Fields and encodings: LLVM's "User Guide for AMDGPU Backend", code object V3 and later, kernel descriptor for GFX90A+.

    0 u32 LDS bytes   4 u32 scratch bytes per lane   8 u32 kernarg bytes   16 i64 entry, relative to the descriptor
    44 u32 rsrc3      48 u32 rsrc1                   52 u32 rsrc2          56 u16 properties   58 u16 kernarg preload
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from aot.toolchain.errors import CodeObjectError

DESCRIPTOR_BYTES = 64
_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")
_VGPR_GRANULE, _ACCUM_GRANULE, _SGPR_GRANULE = 8, 4, 8


@dataclass(frozen=True, slots=True)
class KernelDescriptor:
    """What hardware is told. Register counts are as allocated: in granules, and where LDS bounds occupancy LLVM
    allocates up to what that occupancy leaves.

    VGPRs of these targets are one file of `vgprs` registers: `accum_offset` architectural ones, then
    `agprs` accumulators.
    Denormal modes: 0 flushes both, 1 flushes destinations, 2 flushes sources, 3 keeps. Rounding: 0 is to nearest even.
    """

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry_offset: int
    vgprs: int
    accum_offset: int
    sgprs: int
    round_mode_32: int
    round_mode_16_64: int
    denorm_mode_32: int
    denorm_mode_16_64: int
    dx10_clamp: bool
    ieee_mode: bool
    fp16_overflow: bool
    threadgroup_split: bool
    user_sgprs: int
    has_private_segment: bool
    has_trap_handler: bool
    workgroup_id_x: bool
    workgroup_id_y: bool
    workgroup_id_z: bool
    workgroup_info: bool
    workitem_id_dims: int
    private_segment_buffer: bool
    dispatch_ptr: bool
    queue_ptr: bool
    kernarg_segment_ptr: bool
    dispatch_id: bool
    flat_scratch_init: bool
    private_segment_size: bool
    wavefront_size_32: bool
    uses_dynamic_stack: bool
    kernarg_preload_dwords: int
    kernarg_preload_offset_dwords: int
    rsrc1: int
    rsrc2: int
    rsrc3: int

    @property
    def agprs(self) -> int:
        return max(self.vgprs - self.accum_offset, 0)


def read_descriptor(data: bytes) -> KernelDescriptor:
    """The descriptor in exactly 64 bytes. Raises CodeObjectError on a wrong length or on reserved bits that are set."""
    if len(data) != DESCRIPTOR_BYTES:
        raise CodeObjectError(f"kernel descriptor has {len(data)} bytes, not {DESCRIPTOR_BYTES}")
    lds, scratch, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload = _LAYOUT.unpack(data)
    if data[12:16] != bytes(4) or data[24:44] != bytes(20) or data[60:] != bytes(4):
        raise CodeObjectError("kernel descriptor has reserved bytes that are not zero")

    def flag(word: int, bit: int) -> bool:
        return bool(word >> bit & 1)

    return KernelDescriptor(
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        entry_offset=entry,
        vgprs=((rsrc1 & 0x3F) + 1) * _VGPR_GRANULE,
        accum_offset=((rsrc3 & 0x3F) + 1) * _ACCUM_GRANULE,
        sgprs=((rsrc1 >> 6 & 0xF) + 1) * _SGPR_GRANULE,
        round_mode_32=rsrc1 >> 12 & 3,
        round_mode_16_64=rsrc1 >> 14 & 3,
        denorm_mode_32=rsrc1 >> 16 & 3,
        denorm_mode_16_64=rsrc1 >> 18 & 3,
        dx10_clamp=flag(rsrc1, 21),
        ieee_mode=flag(rsrc1, 23),
        fp16_overflow=flag(rsrc1, 26),
        threadgroup_split=flag(rsrc3, 16),
        user_sgprs=rsrc2 >> 1 & 0x1F,
        has_private_segment=flag(rsrc2, 0),
        has_trap_handler=flag(rsrc2, 6),
        workgroup_id_x=flag(rsrc2, 7),
        workgroup_id_y=flag(rsrc2, 8),
        workgroup_id_z=flag(rsrc2, 9),
        workgroup_info=flag(rsrc2, 10),
        workitem_id_dims=(rsrc2 >> 11 & 3) + 1,
        private_segment_buffer=flag(properties, 0),
        dispatch_ptr=flag(properties, 1),
        queue_ptr=flag(properties, 2),
        kernarg_segment_ptr=flag(properties, 3),
        dispatch_id=flag(properties, 4),
        flat_scratch_init=flag(properties, 5),
        private_segment_size=flag(properties, 6),
        wavefront_size_32=flag(properties, 10),
        uses_dynamic_stack=flag(properties, 11),
        kernarg_preload_dwords=preload & 0x7F,
        kernarg_preload_offset_dwords=preload >> 7,
        rsrc1=rsrc1,
        rsrc2=rsrc2,
        rsrc3=rsrc3,
    )
