"""The rules of backward-weights kernels. W1 to W12 are the published validator's, and so are W15 and W16,
which have no number there; the rest is what our builder needs. W7, W8 and W11 are about options of no kernel here.
"""

from __future__ import annotations

from grids.gemm.rows import GemmRows
from grids.geometry import MAX_ACCUMULATORS, MAX_VECTOR_BYTES, loads_evenly
from grids.policies import (
    FULL_REGISTERS_THREADS,
    MAX_ACCUMULATORS_WITH_STATE,
    MAX_CARRIED_OFFSETS,
    k_outer_possible,
)
from grids.probe import PROBE_CHANNELS, PROBE_TAPS
from grids.rule import Column, Mask, Rule

MAX_WIDTH = MAX_VECTOR_BYTES // 2


def _width_ok(vec: Column) -> Mask:
    """Unset, or a width that divides the probe's channels."""
    mask: Mask = (vec == 0) | ((vec >= 1) & (vec <= MAX_WIDTH) & (PROBE_CHANNELS % (vec + (vec == 0)) == 0))
    return mask


def _pairs_aligned(rows: GemmRows) -> Mask:
    """Packed 16-bit atomics: rows of dW start on a pair, and stores hold whole pairs."""
    even_rows = PROBE_TAPS * PROBE_CHANNELS % 2 == 0
    mask: Mask = rows.cshuffle & (rows.vector_size_c % 2 == 0) & (rows.vector_size_c > 0) & even_rows
    return mask


def _merge_fits(rows: GemmRows) -> Mask:
    """All merged groups of the depthwise probe fit one tile."""
    degree = rows.group_merge
    mask: Mask = (degree <= rows.tile_m) & (degree * PROBE_TAPS <= rows.tile_n)
    return mask


def _loads_share(rows: GemmRows, tile_free: Column) -> Mask:
    # Loads are clamped to what fits, so a tile fails only if single elements do.
    mask: Mask = loads_evenly(rows=rows.tile_k, cols=tile_free, threads=rows.threads, vec=1 + 0 * rows.threads)
    return mask | rows.is_async


def _async_possible(rows: GemmRows) -> Mask:
    mask: Mask = (rows.lds_k_outer == 1) & (rows.vector_size_a == 0) & (rows.vector_size_b == 0)
    return mask


def _few_direct_loads(rows: GemmRows) -> Mask:
    """Every chunk of a direct-to-LDS tile has a pixel of its own in registers, and there is a chunk."""
    mask: Mask = rows.chunk_fits(rows.async_chunk_a, rows=rows.tile_k, cols=rows.tile_m)
    mask = mask & rows.chunk_fits(rows.async_chunk_b, rows=rows.tile_k, cols=rows.tile_n)
    for free, chunk in ((rows.tile_m, rows.async_chunk_a), (rows.tile_n, rows.async_chunk_b)):
        mask = mask & (~rows.is_async | (rows.tile_k * free <= MAX_CARRIED_OFFSETS * rows.threads * chunk))
    return mask


def _stream_k_possible(rows: GemmRows) -> Mask:
    """The K loop leaves registers for the loop over output tiles around it."""
    shares = (rows.threads + FULL_REGISTERS_THREADS - 1) // FULL_REGISTERS_THREADS
    mask: Mask = rows.accumulators * shares <= MAX_ACCUMULATORS_WITH_STATE
    return mask


def _is_power(values: Column) -> Mask:
    mask: Mask = values & (values - 1) == 0
    return mask


def _replicas_possible(rows: GemmRows) -> Mask:
    # A slice finds its replica by masking its number.
    return _is_power(rows.ws_replicas)


def _k_outer_possible(rows: GemmRows) -> Mask:
    mask: Mask = k_outer_possible(rows.target, rows.dtype, rows.warp_tile_m)
    return mask


#: The tile and its stores, of every family; those of one family follow, then loads and registers.
WGRAD_TILE = (
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
)
#: Of kernels that add into dW.
ATOMIC = (
    Rule(
        "W4_atomic_pairs",
        "packed 16-bit atomics need the cshuffle epilogue and stores of an even width",
        _pairs_aligned,
    ),
)
#: Of kernels that add into a workspace.
TWO_STAGE = (
    Rule("W3_replicas", "the number of replicas is no power of two", _replicas_possible, builder=True),
    Rule(
        "W5_two_stage_epilogue",
        "two-stage adds f32 from registers, so its epilogue is default",
        lambda r: r.text("epilogue", "default"),
    ),
)
#: Loads and LDS, of every family.
WGRAD_LOADS = (
    Rule(
        "W6_widths",
        "a load width does not divide the channels or exceeds 16 bytes",
        lambda r: _width_ok(r.vector_size_a) & _width_ok(r.vector_size_b),
    ),
    Rule(
        "W9_async",
        "direct-to-LDS loads need K-outer tiles and widths left unset",
        lambda r: ~r.is_async | _async_possible(r),
    ),
    Rule("W10_lds", "the tiles do not fit in LDS", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
)
#: Of kernels that merge groups.
MERGED = (
    Rule("W15_merge", "the merged groups do not fit one tile", _merge_fits),
    Rule("W21_merge_shift", "the merge degree is no power of two", lambda r: _is_power(r.group_merge), builder=True),
)
#: Of kernels whose workgroups share K tiles.
STREAM_K = (
    Rule("W17_stream_k", "stream-K needs registers for the loop around its K loop", _stream_k_possible, builder=True),
)
#: What else the builder needs of every family.
WGRAD_REGISTERS = (
    Rule(
        "W16_k_outer",
        "K-outer tiles need transposing LDS reads and the default pad",
        lambda r: (r.lds_k_outer == 0) | _k_outer_possible(r),
    ),
    Rule(
        "W18_async_loads",
        "no direct-to-LDS chunk shares both tiles out evenly, or a thread has more than 16 of one tile",
        _few_direct_loads,
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
    Rule(
        "W19_one_loop",
        "the direct-to-LDS loop is double-buffered already",
        lambda r: ~r.is_async | (r.unroll_k == 0),
        builder=True,
    ),
    Rule(
        "W20_shifts", "a tile extent, a number of waves or a width is no power of two", lambda r: r.shifts, builder=True
    ),
)
