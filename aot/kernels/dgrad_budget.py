"""How a backward-data kernel saves registers where they are short: what a thread keeps of its rows in the K loop."""

from __future__ import annotations

from dataclasses import dataclass

from aot.kernels import budget
from aot.kernels.chunks import ChunkMap
from aot.kernels.k_rows import KRowChunks, most_rows
from aot.kernels.tile import Tile

#: Registers of a row of A, and of the counter of a row of B.
ENTRY, COUNTER = 3, 3
#: Lane addresses, counters of the column of A, temporaries; measured on kernels that fill their share of registers.
OVERHEAD = 80
#: The same without what the scheduler can still arrange.
HINTED_OVERHEAD = 40


@dataclass(frozen=True, slots=True)
class GradientBudget:
    """Decisions of one kernel. A batch of None keeps all chunks of the operand in registers at once.

    `hints` says that the scheduler may be told to read fragments ahead: it then minds no register.
    """

    accumulates_in_agprs: bool
    prefetches: bool
    weights: KRowChunks
    a_batch: int | None
    b_batch: int | None
    hints: bool


def plan(tile: Tile, a: ChunkMap, b_vec: int, *, transposed: bool) -> GradientBudget:
    """The first choice that fits: as a forward kernel; fewer rows of B; no prefetch; rows of A in a table."""
    even = ChunkMap(tile.k, tile.n, tile.threads, b_vec, tile.elem.bytes)
    usual = budget.plan(tile, a, even, staged=True)
    share, accumulators = budget.share_of(tile.threads), budget.accumulator_registers(tile)
    room = min(budget.ORDINARY, share - accumulators)
    hinted_room = room if usual.accumulates_in_agprs else min(budget.ORDINARY, share) - accumulators
    fragments, staging = budget.fragment_registers(tile), budget.staging_registers(a, even)

    def choice(rows: int, prefetches: bool, a_batch: int | None) -> tuple[GradientBudget, bool]:
        """A choice and whether it fits."""
        weights = KRowChunks(tile.k, tile.n, tile.threads, b_vec, tile.elem.bytes, transposed, rows)
        needed = ENTRY * (a_batch or a.passes) + COUNTER * weights.run + staging * prefetches
        hints = HINTED_OVERHEAD + fragments * tile.steps + needed <= hinted_room
        made = GradientBudget(usual.accumulates_in_agprs, prefetches, weights, a_batch, usual.b_batch, hints)
        return made, OVERHEAD + fragments + needed <= room

    choices = [
        choice(most_rows(tile.elem.bytes), usual.prefetches, usual.a_batch),
        choice(1, usual.prefetches, usual.a_batch),
        choice(1, False, usual.a_batch),
    ]
    lean, _ = choice(1, False, min(usual.a_batch or a.passes, budget.LEAN_BATCH))
    return next((made for made, fits in choices if fits), lean)
