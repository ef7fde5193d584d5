"""Where everything of a wave lies in memory, for both engines: register files, constants, sanitizer state.

    wave:  scalar cells | state words | queues | constants | vector registers (VGPR 0-255, AGPR 256-511)

An operand of an instruction is a byte offset into the wave: 4 bytes per scalar cell, 256 bytes per vector register, 8
bytes per constant. A 64-bit operand takes the next cell, or the next register, for its high half.
"""

from __future__ import annotations

from typing import Final

# Scalar cells carry the numbers of the hardware encoding; the cells from 128 on are ours.
VCC, TTMP, M0, EXEC = 106, 108, 124, 126
SHARED_BASE, SHARED_LIMIT, PRIVATE_BASE, PRIVATE_LIMIT = 128, 130, 132, 134
NULL = 136
SCALAR_CELLS: Final = 160

SCC = 640
MODE = 644
PC = 648  # pointer to the instruction record to run next
PENDING_V, PENDING_S = 656, 664  # one bit per group of registers in flight
PENDING_V_BITS, PENDING_S_BITS = 704, 768  # one bit per register in flight: 512 and 192 bits
CONTEXT = 808
LDS, LDS_SHADOW = 816, 824
LDS_BYTES, WAVE_ID = 832, 836
SCRATCH, SCRATCH_SHADOW = 840, 848
SCRATCH_LANE_BYTES, SEGMENT_START = 856, 860
CODE, COUNTS = 864, 872
STATUS = 880
VM_HEAD, VM_COUNT, LGKM_HEAD, LGKM_COUNT, SMEM_COUNT = 884, 888, 892, 896, 900
VM_QUEUE, LGKM_QUEUE, SMEM_QUEUE = 1024, 2048, 3072  # entries of 16 bytes: instruction record, LDS log record
QUEUE_ENTRIES: Final = 64
CONSTANTS = 4096
REGISTER_BYTES: Final = 256
AGPR = 256

# Instruction records.
RECORD_BYTES: Final = 128
RECORD_HANDLER, RECORD_TOUCH_V, RECORD_TOUCH_S, RECORD_INDEX, RECORD_SLOTS = 0, 8, 16, 24, 32
MAX_SLOTS: Final = 24
# Exact register sets of an instruction: 512 vector bits, then 192 scalar bits.
SET_BYTES: Final = 96

# Ways a wave stops.
AT_BARRIER, ENDED, FAULTED, OVER_BUDGET = 1, 2, 3, 4

# LDS and scratch hold these where nothing was written, and where a direct-to-LDS load is still in flight. A read that
# meets one of them consults the shadow; a byte repeats so that every width of read meets it.
CANARY = 0xB7
SHADOW_WRITTEN, SHADOW_IN_FLIGHT = 0xFF, 0x01


def vector_group_bit(register: int) -> int:
    """The bit of a vector register in the 64-bit coarse set: groups of four, AGPRs share with VGPRs."""
    return 1 << ((register >> 2) & 63)


def scalar_group_bit(cell: int) -> int:
    return 1 << ((cell >> 1) & 63)
