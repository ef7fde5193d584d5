"""How a backward-data kernel saves registers where they are short: what a thread keeps of its rows in the K loop."""

from __future__ import annotations

from dataclasses import dataclass

from aot.kernels import budget
from aot.kernels.chunks import ChunkMap
from aot.kernels.dgrad_weights import MAX_ROWS, WeightChunks
from aot.kernels.tile import Tile

#: Registers of a row of A, and of the counter of a row of B.
ENTRY, COUNTER = 3, 3
#: Lane addresses, counters of the column of A, temporaries; measured on kernels that fill their share of registers.
OVERHEAD = 80


@dataclass(frozen=True, slots=True)
class GradientBudget:
    """Decisions of one kernel. A batch of None keeps all chunks of the operand in registers at once."""

    accumulates_in_agprs: bool
    prefetches: bool
    weights: WeightChunks
    a_batch: int | None
    b_batch: int | None


def plan(tile: Tile, a: ChunkMap, b_vec: int, *, transposed: bool) -> GradientBudget:
    """Keep rows in registers if there is room, else fewer rows of B per thread, else the rows of A in a table."""
    usual = budget.plan(tile, a, ChunkMap(tile.k, tile.n, tile.threads, b_vec), staged=True)
    a_batch, b_batch = usual.a_batch, usual.b_batch
    share = budget.REGISTER_FILE // -(-tile.threads // budget.THREADS_PER_SIMD_WAVE)
    room = min(budget.ORDINARY, share - tile.atom.accumulator.lanes * tile.fragments_m * tile.fragments_n)
    fixed = OVERHEAD + (tile.fragments_m + tile.fragments_n) * tile.atom.operand.bytes // 4
    rows = ENTRY * (a_batch or a.passes)

    def weights(most: int) -> WeightChunks:
        return WeightChunks(tile.k, tile.n, tile.threads, b_vec, transposed, most)

    chunks = weights(MAX_ROWS)
    if fixed + rows + COUNTER * chunks.run <= room:
        return GradientBudget(usual.accumulates_in_agprs, usual.prefetches, chunks, a_batch, b_batch)
    chunks = weights(1)
    if fixed + rows + COUNTER * chunks.run > room:
        a_batch = min(a_batch or a.passes, budget.LEAN_BATCH)
    return GradientBudget(usual.accumulates_in_agprs, usual.prefetches and a_batch is None, chunks, a_batch, b_batch)
