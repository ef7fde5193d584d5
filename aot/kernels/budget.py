"""How a kernel spends its registers: what is kept per chunk, whether a tile is prefetched, where accumulators live.

The register file of a SIMD (512 per lane) is shared by its waves; a wave reaches 256 of its share as ordinary
registers, the rest only as accumulation registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aot.kernels.chunks import ChunkMap
from aot.kernels.tile import Tile

REGISTER_FILE, ORDINARY = 512, 256
THREADS_PER_SIMD_WAVE = 256
#: Entry of a row of A in the general loop, offset of a row of B.
A_ENTRY, B_ENTRY = 3, 1
#: Lane addresses, counters of the general loop, temporaries.
OVERHEAD = 40
#: Bytes that one LDS instruction reads for a lane: LLVM joins the reads of two k steps whose fragments are half of it.
JOINED_BYTES = 16
#: Row fragments of a wave from which on LLVM reads all of them early: there are four column fragments at most, so that
#: a row has too few products to hide the next read behind.
TALL = 16
#: Registers that must be left over before anything is kept that can be worked out again: LLVM was up to 2 short where
#: this estimate left 4.
ROOM = 8
#: Chunks per batch where registers are short.
LEAN_BATCH = 2


@dataclass(frozen=True, slots=True)
class Budget:
    """Decisions of one kernel. A batch of None keeps an entry per chunk of the operand in registers.

    `hints` says that the scheduler may be told how to order the matrix phase: it may then read the fragments of all k
    steps at once, and needs room for them. `roomy` says that `ROOM` registers are left over.
    """

    accumulates_in_agprs: bool
    prefetches: bool
    a_batch: int | None
    b_batch: int | None
    hints: bool = False
    roomy: bool = False


def share_of(threads: int) -> int:
    """Registers of a lane, of both kinds, where one workgroup of this size has a compute unit to itself."""
    return REGISTER_FILE // -(-threads // THREADS_PER_SIMD_WAVE)


def accumulator_registers(tile: Tile) -> int:
    """Registers of a lane's accumulators."""
    return tile.atom.accumulator.lanes * tile.fragments_m * tile.fragments_n


def fragment_registers(tile: Tile) -> int:
    """Registers of the fragments of one k step."""
    return (tile.fragments_m + tile.fragments_n) * tile.atom.operand.bytes // 4


def read_ahead_registers(tile: Tile) -> int:
    """Registers of what LLVM reads for later k steps unasked: half of their fragments, as measured.

    Without it, kernels were 17 to 26 registers short where the estimate left 4 and 24, and had enough where it left 20
    and 28 to other tiles.
    """
    joins = tile.atom.operand.bytes < JOINED_BYTES
    return fragment_registers(tile) * (tile.steps - 1) // 2 if joins and tile.fragments_m >= TALL else 0


def staging_registers(*operands: ChunkMap) -> int:
    """Registers of the chunks that a thread has in flight."""
    return sum(chunks.passes * max(1, chunks.vec // 2) for chunks in operands)


def batch_limit(threads: int) -> int:
    """Chunks of a thread and operand that may be kept in registers; a batch when there are more."""
    return min(16, 4096 // threads)


def is_batched(chunks: ChunkMap) -> bool:
    """Whether a thread has too many chunks to keep them in registers, whatever else the kernel needs."""
    return chunks.passes > batch_limit(chunks.threads)


def plan(tile: Tile, a: ChunkMap, b: ChunkMap, *, staged: bool, hinted: bool = False) -> Budget:
    """The first choice that fits, from fast to lean.

    `staged` says that loads pass through registers, `hinted` that the pipeline has scheduling hints.
    """
    share, accumulators, fragments = share_of(tile.threads), accumulator_registers(tile), fragment_registers(tile)
    staging = staging_registers(a, b) * staged
    # Without hints to give, mem never prefetches, and dgrad has an estimate of its own beside this one.
    ahead = read_ahead_registers(tile) * (staged and hinted)
    a_batch, b_batch = (batch_limit(tile.threads) // 2 if is_batched(chunks) else None for chunks in (a, b))

    def left_over(choice: Budget) -> int:
        entries = A_ENTRY * (choice.a_batch or a.passes) + B_ENTRY * (choice.b_batch or b.passes)
        in_flight = fragments * (tile.steps if choice.hints else 1) + staging * choice.prefetches
        in_agprs = choice.accumulates_in_agprs
        room = min(ORDINARY, share - accumulators) if in_agprs else min(ORDINARY, share) - accumulators
        # Elsewhere accumulation registers are left for what is short for a moment.
        if accumulators + room == share and choice.prefetches and not choice.hints:
            in_flight += ahead
        return room - OVERHEAD - entries - in_flight

    choices = [
        Budget(in_agprs, prefetches, a_batch, b_batch, hints)
        for prefetches in ((True, False) if a_batch is None and b_batch is None else (False,))
        for hints in ((True, False) if hinted else (False,))
        for in_agprs in (False, True)
    ]
    lean = [
        Budget(in_agprs, False, min(a_batch or a.passes, LEAN_BATCH), lean_b)
        for lean_b in (b_batch, min(b_batch or b.passes, LEAN_BATCH))
        for in_agprs in (False, True)
    ]
    fitting = (choice for choice in choices + lean if left_over(choice) >= 0)
    made = next(fitting, lean[-1 if accumulators > ORDINARY // 2 else -2])
    return replace(made, roomy=left_over(made) >= ROOM)
