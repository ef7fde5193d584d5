"""The rules of forward kernels. F1 to F5 are the published validator's; the rest is what our builder needs.

F6 to F10 there are about waves of 32 lanes and options that no kernel here has.

Loads take their widths verbatim, so a tile that they cannot share out evenly is no kernel at all (F11, F12); a
direct-to-LDS loop ignores them and needs a chunk instead (F13); stores of the cshuffle epilogue are verbatim too (F14).
"""

from __future__ import annotations

import numpy as np

from grids.geometry import MAX_ACCUMULATORS
from grids.rule import Rule

FORWARD_RULES = (
    Rule(
        "F1_divisibility",
        "the tile is no multiple of waves times matrix instruction, or tile_k none of its depth",
        lambda r: r.tiles_divide,
    ),
    Rule(
        "F2_threads",
        "the workgroup has more threads than the target allows",
        lambda r: r.threads <= r.target.max_threads,
    ),
    Rule(
        "F3_store_width",
        "the default epilogue stores single elements only",
        lambda r: r.cshuffle | (r.vector_size_c == 1),
    ),
    Rule("F4_atom", "the target has no such matrix instruction for this dtype", lambda r: r.atom_exists),
    Rule("F5_lds", "the tiles do not fit in LDS", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
    Rule(
        "F11_load_a",
        "A loads of this width do not share the tile out evenly over the threads",
        lambda r: r.is_async | (r.vector_size_a > 0) & r.loads_evenly(r.tile_m, np.maximum(r.vector_size_a, 1)),
        builder=True,
    ),
    Rule(
        "F12_load_b",
        "B loads of this width do not share the tile out evenly over the threads",
        lambda r: r.is_async | (r.vector_size_b > 0) & r.loads_evenly(r.tile_n, np.maximum(r.vector_size_b, 1)),
        builder=True,
    ),
    Rule(
        "F13_async_chunk",
        "no direct-to-LDS chunk shares both tiles out evenly over the threads",
        lambda r: (
            r.chunk_fits(r.async_chunk_a, rows=r.tile_m, cols=r.tile_k)
            & r.chunk_fits(r.async_chunk_b, rows=r.tile_n, cols=r.tile_k)
        ),
        builder=True,
    ),
    Rule(
        "F14_store",
        "stores of this width do not share the output tile out evenly over the threads",
        lambda r: ~r.cshuffle | (r.vector_size_c > 0) & r.stores_evenly(np.maximum(r.vector_size_c, 1)),
        builder=True,
    ),
    Rule(
        "F15_accumulators",
        "the accumulators of one lane exceed what it can hold without spilling",
        lambda r: r.accumulators <= MAX_ACCUMULATORS,
        builder=True,
    ),
    Rule(
        "F16_one_loop",
        "the direct-to-LDS loop is double-buffered already",
        lambda r: ~r.is_async | (r.unroll_k == 0),
        builder=True,
    ),
    Rule(
        "F17_shifts", "a tile extent, a number of waves or a width is no power of two", lambda r: r.shifts, builder=True
    ),
)
