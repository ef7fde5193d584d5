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
PENDING_V, PENDING_S = 656, 664  # coarse sets of registers in flight, one bit per group
PENDING_BITS = 704  # exact: 512 vector bits, 192 scalar bits (96 bytes)
CONTEXT = 808
LDS, LDS_SHADOW = 816, 824
LDS_BYTES, WAVE_ID = 832, 836
SCRATCH, SCRATCH_SHADOW = 840, 848
SCRATCH_BYTES, SEGMENT_START = 856, 860
CODE, COUNTS, DIRECT = 864, 872, 880
STATUS = 888  # 1 when the wave has ended
VM_HEAD, VM_COUNT, LGKM_HEAD, LGKM_COUNT, SMEM_COUNT, TICKS = 892, 896, 900, 904, 908, 912
# Stores to device memory: the token of this stretch; vector-memory instructions issued, and how many when the last
# store that no barrier has ordered was among them (0: none).
STORE_TOKEN, VM_ISSUED, LAST_STORE = 920, 924, 928
# Queue entries of 16 bytes: pointer to the instruction record, first LDS log record (u32), number of them (u32).
VM_QUEUE, LGKM_QUEUE, SMEM_QUEUE = 1024, 2048, 3072
QUEUE_ENTRIES: Final = 64
ENTRY_BYTES: Final = 16
CONSTANTS = 4096
REGISTER_BYTES: Final = 256
# What registers hold that nothing initialised. Vector registers: a NaN, also in each half as f16 and as bf16, so that
# what depends on one shows in the numbers. Scalar ones: no address that is mapped and no count of use.
POISON: Final = 0x7FA57FA5
SCALAR_POISON: Final = 0xBADC0DE5
AGPR = 256

# Instruction records.
RECORD_BYTES: Final = 128
RECORD_TOUCH_V, RECORD_TOUCH_S, RECORD_INDEX, RECORD_SLOTS = 8, 16, 24, 32
MAX_SLOTS: Final = 24
# Bit 0: the results arrive late. Bit 1: a direct-to-LDS load. Bit 2: a store to device memory.
RECORD_FLAGS = 28
FLAG_LATE, FLAG_DIRECT, FLAG_STORE = 1, 2, 4
# Register set of an instruction: 512 vector bits, 192 scalar bits, then at 96 and 104 the coarse sets.
SET_BYTES: Final = 128
SET_COARSE_V, SET_COARSE_S = 96, 104

# Shared by all waves of a run.
(
    MEMORY_TABLE,
    TOUCHED,
    LATE,
    LOG,
    LOG_OTHER,
    LOG_COUNT,
    LOG_CAPACITY,
    BUDGET,
    FAULT_KIND,
    FAULT_LANE,
    FAULT_ADDRESS,
    FAULT_INDEX,
    FAULT_WAVE,
    LOG_COLUMNS,
    WAVES,
    OWNERS,
    ORDER,
    RANDOM,
    ZEROS,
    WAVE_COUNT,
    IMAGE_BASE,
    BYTE_ACCESS,
    FOLDED,
    SCALAR_COUNTS,
) = range(0, 192, 8)
# Whether LDS accesses are logged: by several waves, or beside direct-to-LDS loads. Where tokens of stores lie, by
# window; the next token, the first ones of this launch and of this workgroup, and that of bytes that several waves of
# the workgroup stored alike.
LOGGED, STORE_TABLE, NEXT_TOKEN, LAUNCH_TOKEN, GROUP_TOKEN, SHARED_TOKEN = range(208, 256, 8)
HELPERS: Final = 256  # table of pointers to runtime functions
CONTEXT_BYTES: Final = 1024

# LDS log record: u32 instruction, wave, kind, size, low, high, silent, folded; u64 mask; from 64 on 64 u32 addresses.
LOG_RECORD_BYTES: Final = 320
LOG_INSTRUCTION, LOG_WAVE, LOG_KIND, LOG_SIZE, LOG_LOW, LOG_HIGH, LOG_SILENT, LOG_FOLDED, LOG_MASK, LOG_ADDRESSES = (
    0,
    4,
    8,
    12,
    16,
    20,
    24,
    28,
    32,
    64,
)
LOG_READ, LOG_WRITE, LOG_ATOMIC = 0, 1, 2

# Beside the records, columns of u32 for the search of races: low, high, and wave | kind << 16. Where an interval has
# more accesses, all of them are folded into maps of bytes; one instruction adds at most 64 before that, and waves keep
# at most two full queues each.
LOG_RECORDS: Final = 1 << 16
FOLD_AT: Final = LOG_RECORDS - 64
# Owners of a byte in those maps: 0 nobody, wave + 1, or several readers.
SEVERAL: Final = 255
COLUMN_BYTES: Final = 4 * LOG_RECORDS + 64

# A direct-to-LDS load in flight: u64 mask, u32 size, u32 LDS base; from 64 on 64 pieces of 16 bytes.
DIRECT_BYTES: Final = 64 + 1024
DIRECT_MASK, DIRECT_SIZE, DIRECT_BASE, DIRECT_DATA = 0, 8, 12, 64

# Word 3 of a buffer descriptor (CDNA3 ISA, table of the buffer resource): a data format has to be there, as 0 makes it
# no buffer at all; which one, and what components are selected (bits 0 to 14), is nothing to accesses without a format.
# The bits above add thread numbers, swizzles or pages, or say that it describes something else.
DATA_FORMAT, UNKNOWN_WORD3 = 0x00078000, 0xFFF80000

# Ways a wave stops.
AT_BARRIER, ENDED, FAULTED, OVER_BUDGET = 1, 2, 3, 4

# LDS and scratch hold these where nothing was written, and where a direct-to-LDS load is still in flight. A read that
# meets one of them (in a half of a dword, once bytes were accessed alone in any case) consults the shadow; a byte
# repeats so that every width of read meets it. As f16 it is a NaN, as bf16 and f32 huge: data rarely look like it.
CANARY = 0xFE
SHADOW_WRITTEN, SHADOW_IN_FLIGHT = 0xFF, 0x01
# The same in all bytes of a dword.
CANARY_WORD, WRITTEN_WORD, IN_FLIGHT_WORD = (0x01010101 * byte for byte in (CANARY, SHADOW_WRITTEN, SHADOW_IN_FLIGHT))
