"""How a backward-weights kernel shares out its loads and spends its registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.kernels import budget
from aot.kernels.chunks import ChunkMap
from aot.kernels.k_rows import KRowChunks, most_rows
from aot.kernels.tile import Tile
from cache_schema.problem import ELEM_BYTES
from grids import geometry
from grids.gemm.records import Gemm, Wgrad

#: Registers of a row of X (coordinates, offset, masked coordinate) and of a column (tap, offset).
ROW, COLUMN = 4, 3
#: Lane addresses of both tiles, counters, temporaries.
OVERHEAD = 40
#: Widest load of a merged kernel, whose identity leaves widths open.
MERGED_WIDTH = 8


@dataclass(frozen=True, slots=True)
class WgradBudget:
    """Decisions of one kernel. A batch of None keeps all chunks of the operand in registers at once.

    `hints` says that there is room for the fragments of all k steps, which scheduling hints may bring forward, `fits`
    that there is room for everything in the loop and what stays in registers around it.
    """

    accumulates_in_agprs: bool
    prefetches: bool
    hints: bool
    gradients: KRowChunks
    pixels: KRowChunks
    a_batch: int | None
    b_batch: int | None
    fits: bool = True


def load_chunks(identity: Wgrad) -> tuple[KRowChunks, KRowChunks]:
    """How threads share the tiles of dY and of X: as wide as the identity says and the tile allows."""
    threads = geometry.block_threads(warp_m=identity.warp_m, warp_n=identity.warp_n, wave_size=identity.wave_size)
    merged, elem_bytes = min(identity.group_merge, MERGED_WIDTH), ELEM_BYTES[identity.dtype_a]

    def chunks(free: int, width: int) -> KRowChunks:
        vec = geometry.clamped_width(
            rows=identity.tile_k, cols=free, threads=threads, request=width or merged, elem_bytes=elem_bytes
        )
        turned = not identity.lds_k_outer
        return KRowChunks(identity.tile_k, free, threads, vec, elem_bytes, turned, most_rows(elem_bytes))

    return chunks(identity.tile_m, identity.vector_size_a), chunks(identity.tile_n, identity.vector_size_b)


def plan(identity: Wgrad, tile: Tile) -> WgradBudget:
    """Keep tiles in registers if there is room, the next one too if the pipeline wants it, else load in batches."""
    gradients, pixels = load_chunks(identity)
    if identity.async_dma:
        return WgradBudget(_needs_agprs(identity, tile), False, False, gradients, pixels, None, None)
    share, accumulators = budget.share_of(tile.threads), budget.accumulator_registers(tile)
    limit = budget.batch_limit(tile.threads)
    for batch in (limit, limit // 2, limit // 4):
        batches = [
            batch if chunks.passes * chunks.run > batch and not identity.prefetch_addr else None
            for chunks in (gradients, pixels)
        ]
        for prefetches in (True, False):
            if prefetches and any(batches):
                continue
            needed = _needed(identity, tile, (gradients, pixels), batches, prefetches)
            for in_agprs in (False, True):
                ordinary = budget.ORDINARY if in_agprs else budget.ORDINARY - accumulators
                room = min(ordinary, share - accumulators)
                if needed <= room:
                    hints = needed + (tile.steps - 1) * budget.fragment_registers(tile) <= room
                    return WgradBudget(in_agprs, prefetches, hints, gradients, pixels, batches[0], batches[1])
    in_agprs = accumulators > budget.ORDINARY // 2
    return WgradBudget(in_agprs, False, False, gradients, pixels, batches[0], batches[1], fits=False)


def direct_chunks(identity: Gemm) -> tuple[ChunkMap, ChunkMap]:
    """How threads share the tiles of dY and of X that go straight to LDS: in thread order, row by row."""
    threads = geometry.block_threads(warp_m=identity.warp_m, warp_n=identity.warp_n, wave_size=identity.wave_size)
    elem_bytes = ELEM_BYTES[identity.dtype_a]
    return (
        ChunkMap(identity.tile_k, identity.tile_m, threads, identity.async_chunk_a, elem_bytes),
        ChunkMap(identity.tile_k, identity.tile_n, threads, identity.async_chunk_b, elem_bytes),
    )


def _needs_agprs(identity: Wgrad, tile: Tile) -> bool:
    """Whether what a direct-to-LDS loop keeps leaves no room for accumulators beside it."""
    gradients, pixels = direct_chunks(identity)
    state = gradients.passes + (ROW + identity.prefetch_addr) * pixels.passes + COLUMN
    return OVERHEAD + state + budget.fragment_registers(tile) + budget.accumulator_registers(tile) > budget.ORDINARY


def _needed(
    identity: Wgrad,
    tile: Tile,
    chunks: tuple[KRowChunks, KRowChunks],
    batches: Sequence[int | None],
    prefetches: bool,
) -> int:
    """Registers besides the accumulators. A tile that is turned on its way to LDS is there twice for a moment."""
    staging = 0
    for side, batch in zip(chunks, batches, strict=True):
        held = max(1, batch // side.run) if batch else side.passes
        staging += held * side.run * side.registers * (1 + side.transposed)
    gradients, pixels = chunks
    columns = 2 if batches[1] else pixels.passes
    state = gradients.run + ROW * pixels.run + COLUMN * columns
    state += identity.prefetch_addr * pixels.passes * pixels.run
    fragments = budget.fragment_registers(tile)
    return OVERHEAD + state + (fragments + staging if prefetches else max(fragments, staging))
