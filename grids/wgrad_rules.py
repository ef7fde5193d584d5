"""The rules of backward-weights kernels. W1 to W12 are the published validator's, and so are W15 and W16,
which have no number there; W13 and W14 are what our builder needs.
"""

from __future__ import annotations

from grids.geometry import MAX_ACCUMULATORS, MAX_VECTOR_BYTES, loads_evenly
from grids.policies import (
    FULL_REGISTERS_THREADS,
    MAX_ACCUMULATORS_WITH_STATE,
    MAX_CARRIED_OFFSETS,
    k_outer_possible,
)
from grids.probe import PROBE_CHANNELS, PROBE_TAPS
from grids.rule import Column, Mask, Rows, Rule

MAX_WIDTH = MAX_VECTOR_BYTES // 2


def _width_ok(vec: Column) -> Mask:
    """Unset, or a width that divides the probe's channels."""
    mask: Mask = (vec == 0) | ((vec >= 1) & (vec <= MAX_WIDTH) & (PROBE_CHANNELS % (vec + (vec == 0)) == 0))
    return mask


def _pairs_aligned(rows: Rows) -> Mask:
    """Packed 16-bit atomics: rows of dW start on a pair, and stores hold whole pairs."""
    even_rows = PROBE_TAPS * PROBE_CHANNELS % 2 == 0
    mask: Mask = rows.cshuffle & (rows.vector_size_c % 2 == 0) & (rows.vector_size_c > 0) & even_rows
    return mask


def _merge_fits(rows: Rows) -> Mask:
    """All merged groups of the depthwise probe fit one tile; a split merge is two-stage."""
    degree = rows.group_merge
    fits = (degree <= rows.tile_m) & (degree * PROBE_TAPS <= rows.tile_n)
    mask: Mask = (degree == 1) | (fits & (rows.wave_size == 64) & ~rows.atomic)
    return mask


def _loads_share(rows: Rows, tile_free: Column) -> Mask:
    # Loads are clamped to what fits, so a tile fails only if single elements do.
    mask: Mask = loads_evenly(rows=rows.tile_k, cols=tile_free, threads=rows.threads, vec=1 + 0 * rows.threads)
    return mask | rows.is_async


def _async_possible(rows: Rows) -> Mask:
    mask: Mask = (rows.lds_k_outer == 1) & (rows.vector_size_a == 0) & (rows.vector_size_b == 0)
    return mask


def _few_direct_loads(rows: Rows) -> Mask:
    """Every chunk of a direct-to-LDS tile has a pixel of its own in registers, and there is a chunk."""
    mask: Mask = (rows.async_chunk_a > 0) & (rows.async_chunk_b > 0)
    for free, chunk in ((rows.tile_m, rows.async_chunk_a), (rows.tile_n, rows.async_chunk_b)):
        mask = mask & (rows.tile_k * free <= MAX_CARRIED_OFFSETS * rows.threads * chunk)
    return mask


def _two_stage_possible(rows: Rows) -> Mask:
    mask: Mask = (rows.split_k > 1) & (rows.ws_replicas >= 1) & (rows.wave_size == 64)
    return mask


def _stream_k_possible(rows: Rows) -> Mask:
    """Workgroups share output tiles of one group, through a single-buffered loop that leaves registers for another."""
    plain = (rows.split_k == 1) & (rows.two_stage == 0) & (rows.group_merge == 1)
    shares = (rows.threads + FULL_REGISTERS_THREADS - 1) // FULL_REGISTERS_THREADS
    roomy = rows.accumulators * shares <= MAX_ACCUMULATORS_WITH_STATE
    mask: Mask = plain & roomy & (rows.unroll_k == 0) & ~rows.is_async
    return mask


def _k_outer_possible(rows: Rows) -> Mask:
    mask: Mask = k_outer_possible(rows.target, rows.dtype, rows.warp_tile_m) & (rows.lds_k_pad == 0)
    return mask


WGRAD_RULES = (
    Rule(
        "W1_tile",
        (
            "the tile is no multiple of waves times matrix instruction, the workgroup is too large, or the "
            "target has no such instruction"
        ),
        lambda r: r.tile_exists,
    ),
    Rule(
        "W2_store_width",
        "the default epilogue stores single elements only",
        lambda r: r.cshuffle | (r.vector_size_c <= 1),
    ),
    Rule(
        "W3_two_stage",
        "two-stage needs a split, replicas and a wave64 target",
        lambda r: (r.two_stage == 0) | _two_stage_possible(r),
    ),
    Rule(
        "W4_atomic_pairs",
        "packed 16-bit atomics need the cshuffle epilogue and stores of an even width",
        lambda r: ~r.atomic | _pairs_aligned(r),
    ),
    Rule(
        "W5_two_stage_epilogue",
        "two-stage adds f32 from registers, so its epilogue is default",
        lambda r: (r.two_stage == 0) | r.text("epilogue", "default"),
    ),
    Rule(
        "W6_widths",
        "a load width does not divide the channels or exceeds 16 bytes",
        lambda r: _width_ok(r.vector_size_a) & _width_ok(r.vector_size_b),
    ),
    Rule(
        "W7_pipeline",
        "backward weights has no wavelet pipeline, and basic no direct-to-LDS loop",
        lambda r: ~r.wavelet & ~(r.text("pipeline", "basic") & r.is_async),
    ),
    Rule(
        "W8_pointwise",
        "the pointwise shortcut is wrong for grouped problems",
        lambda r: (r.is_pointwise == 0) | (r.grouped == 0),
    ),
    Rule(
        "W9_async",
        "direct-to-LDS loads need K-outer tiles and widths left unset",
        lambda r: ~r.is_async | _async_possible(r),
    ),
    Rule("W10_lds", "the tiles do not fit in LDS", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
    Rule(
        "W11_wave32",
        "wave32 kernels are 16x16, mem, with the default epilogue",
        lambda r: (r.wave_size == 64) | r.wave32_shape & r.text("pipeline", "mem") & ~r.cshuffle,
    ),
    Rule(
        "W12_prefetch",
        "prefetched addresses and stream-K exclude each other",
        lambda r: (r.prefetch_addr == 0) | (r.stream_k == 0),
    ),
    Rule("W15_merge", "the merged groups do not fit one tile, or a split merge is not two-stage", _merge_fits),
    Rule(
        "W16_k_outer",
        "K-outer tiles need transposing LDS reads and the default pad",
        lambda r: (r.lds_k_outer == 0) | _k_outer_possible(r),
    ),
    Rule(
        "W17_stream_k",
        "stream-K neither splits nor merges, has a plain K loop, and leaves registers for the loop around it",
        lambda r: (r.stream_k == 0) | _stream_k_possible(r),
        builder=True,
    ),
    Rule(
        "W18_async_loads",
        "no direct-to-LDS chunk shares both tiles out evenly, or a thread has more than 16 of one tile",
        lambda r: ~r.is_async | _few_direct_loads(r),
        builder=True,
    ),
    Rule(
        "W13_load",
        "not even single elements share a tile out evenly over the threads",
        lambda r: _loads_share(r, r.tile_m) & _loads_share(r, r.tile_n),
        builder=True,
    ),
    Rule(
        "W14_accumulators",
        "the accumulators of one lane exceed what it can hold without spilling",
        lambda r: r.accumulators <= MAX_ACCUMULATORS,
        builder=True,
    ),
)
REDUCE_RULES = (
    Rule("R1_replicas", "a reduction needs at least one replica", lambda r: (r.ws_replicas >= 1) | (r.stream_k == 1)),
    Rule("R2_wave", "the target has another wave size", lambda r: r.wave_size == r.target.wave_size),
)
