"""How a kernel spends its registers: what is kept per chunk, whether a tile is prefetched, where accumulators live.

The register file of a SIMD (512 per lane) is shared by its waves; a wave reaches 256 of its share as ordinary
registers, the rest only as accumulation registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.kernels.chunks import ChunkMap
from aot.kernels.tile import Tile

REGISTER_FILE, ORDINARY = 512, 256
THREADS_PER_SIMD_WAVE = 256
#: Entry of a row of A in the general loop, offset of a row of B.
A_ENTRY, B_ENTRY = 3, 1
#: Lane addresses, counters of the general loop, temporaries.
OVERHEAD = 32


@dataclass(frozen=True, slots=True)
class Budget:
    """Decisions of one kernel."""

    accumulates_in_agprs: bool
    prefetches: bool


def batch_limit(threads: int) -> int:
    """Chunks of a thread and operand that are kept in registers; a batch when there are more."""
    return min(16, 4096 // threads)


def is_batched(chunks: ChunkMap) -> bool:
    """Whether a thread loads the tile in batches."""
    return chunks.passes > batch_limit(chunks.threads)


def plan(tile: Tile, a: ChunkMap, b: ChunkMap, *, staged: bool) -> Budget:
    """Estimate registers; `staged` says that loads pass through registers."""
    share = REGISTER_FILE // -(-tile.threads // THREADS_PER_SIMD_WAVE)
    accumulators = tile.atom.accumulator.lanes * tile.fragments_m * tile.fragments_n
    needed = OVERHEAD + (tile.fragments_m + tile.fragments_n) * tile.atom.operand.bytes // 4
    staging, batched = 0, False
    for chunks, entry in ((a, A_ENTRY), (b, B_ENTRY)):
        if is_batched(chunks):
            batched = True
            continue
        needed += chunks.passes * entry
        staging += chunks.passes * max(1, chunks.vec // 2) * staged

    def fits(in_agprs: bool, prefetching: bool) -> bool:
        room = min(ORDINARY, share - accumulators) if in_agprs else min(ORDINARY, share) - accumulators
        return needed + staging * prefetching <= room

    choices = [(in_agprs, not batched) for in_agprs in (False, True)] + [(False, False), (True, False)]
    for in_agprs, prefetching in choices:
        if fits(in_agprs, prefetching):
            return Budget(in_agprs, prefetching)
    return Budget(accumulators > ORDINARY // 2, False)
