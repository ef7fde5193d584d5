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
    """The first choice that fits: as a forward kernel; fewer rows of B; no prefetch; rows of A in a table."""
    even = ChunkMap(tile.k, tile.n, tile.threads, b_vec)
    usual = budget.plan(tile, a, even, staged=True)
    share = budget.REGISTER_FILE // -(-tile.threads // budget.THREADS_PER_SIMD_WAVE)
    room = min(budget.ORDINARY, share - tile.atom.accumulator.lanes * tile.fragments_m * tile.fragments_n)
    fixed = OVERHEAD + (tile.fragments_m + tile.fragments_n) * tile.atom.operand.bytes // 4
    staging = sum(chunks.passes * max(1, chunks.vec // 2) for chunks in (a, even))

    def choice(most_rows: int, prefetches: bool, a_batch: int | None) -> GradientBudget:
        weights = WeightChunks(tile.k, tile.n, tile.threads, b_vec, transposed, most_rows)
        return GradientBudget(usual.accumulates_in_agprs, prefetches, weights, a_batch, usual.b_batch)

    def fits(made: GradientBudget) -> bool:
        rows = ENTRY * (made.a_batch or a.passes) + COUNTER * made.weights.run
        return fixed + rows + staging * made.prefetches <= room

    choices = [
        choice(MAX_ROWS, usual.prefetches, usual.a_batch),
        choice(1, usual.prefetches, usual.a_batch),
        choice(1, False, usual.a_batch),
    ]
    lean = choice(1, False, min(usual.a_batch or a.passes, budget.LEAN_BATCH))
    return next((made for made in choices if fits(made)), lean)
