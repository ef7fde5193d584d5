"""How a backward-weights kernel shares out its loads and spends its registers."""

from __future__ import annotations

from dataclasses import dataclass

from aot.kernels import budget
from aot.kernels.dgrad_weights import WeightChunks
from aot.kernels.tile import Tile
from cache_schema.identity import Identity
from grids import geometry

#: Registers of a row of X (coordinates, offset, masked coordinate) and of a column (tap, offset).
ROW, COLUMN = 4, 3
#: Widest load of a merged kernel, whose identity leaves widths open.
MERGED_WIDTH = 8


@dataclass(frozen=True, slots=True)
class WgradBudget:
    """Decisions of one kernel. A batch of None keeps all chunks of the operand in registers at once."""

    accumulates_in_agprs: bool
    prefetches: bool
    gradients: WeightChunks
    pixels: WeightChunks
    a_batch: int | None
    b_batch: int | None


def load_chunks(identity: Identity) -> tuple[WeightChunks, WeightChunks]:
    """How threads share the tiles of dY and of X: as wide as the identity says and the tile allows."""
    threads = geometry.block_threads(warp_m=identity.warp_m, warp_n=identity.warp_n, wave_size=identity.wave_size)
    merged = min(identity.group_merge, MERGED_WIDTH)

    def chunks(free: int, width: int) -> WeightChunks:
        vec = geometry.clamped_width(rows=identity.tile_k, cols=free, threads=threads, request=width or merged)
        return WeightChunks(identity.tile_k, free, threads, vec, not identity.lds_k_outer)

    return chunks(identity.tile_m, identity.vector_size_a), chunks(identity.tile_n, identity.vector_size_b)


def plan(identity: Identity, tile: Tile) -> WgradBudget:
    """Keep tiles in registers if there is room, the next one too if the pipeline wants it."""
    gradients, pixels = load_chunks(identity)
    limit = budget.batch_limit(tile.threads)
    batches = [limit if c.passes * c.run > limit and not identity.prefetch_addr else None for c in (gradients, pixels)]
    share = budget.REGISTER_FILE // -(-tile.threads // budget.THREADS_PER_SIMD_WAVE)
    accumulators = tile.atom.accumulator.lanes * tile.fragments_m * tile.fragments_n
    needed = budget.OVERHEAD + (tile.fragments_m + tile.fragments_n) * tile.atom.operand.bytes // 4
    needed += gradients.run + ROW * pixels.run + COLUMN * (2 if batches[1] else pixels.passes)
    needed += identity.prefetch_addr * pixels.passes * pixels.run
    staging = sum(
        c.passes * c.run * max(1, c.vec // 2)
        for c, batch in zip((gradients, pixels), batches, strict=True)
        if batch is None
    )
    batched = any(batches)

    def fits(in_agprs: bool, prefetching: bool) -> bool:
        room = min(budget.ORDINARY, share - accumulators) if in_agprs else min(budget.ORDINARY, share) - accumulators
        return needed + staging * prefetching <= room

    choices = [(in_agprs, not batched) for in_agprs in (False, True)] + [(False, False), (True, False)]
    for in_agprs, prefetching in choices:
        if fits(in_agprs, prefetching):
            return WgradBudget(in_agprs, prefetching, gradients, pixels, batches[0], batches[1])
    return WgradBudget(accumulators > budget.ORDINARY // 2, False, gradients, pixels, batches[0], batches[1])
