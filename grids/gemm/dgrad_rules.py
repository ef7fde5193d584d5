"""The rules of backward-data kernels. D1 to D12 are the published validator's; D9b and D13 are what our builder needs.

D2 (depthwise) there is a rule of serving here; D5, D7, D10 and D11 are about options that no kernel here has.
"""

from __future__ import annotations

import numpy as np

from grids.gemm.rows import GemmRows
from grids.geometry import MAX_ACCUMULATORS, clamped_width
from grids.policies import k_outer_possible
from grids.probe import probe
from grids.rule import Mask, Rule
from grids.tilde import sub_gemms


def _sub_gemms_fit(rows: GemmRows) -> Mask:
    """The records of the probe fit the table; a binary for any stride is judged at stride 2."""
    mask: Mask = rows.max_sub_gemms >= len(sub_gemms(probe("dgrad", rows.dtype, stride=2)))
    return mask


def _b_width(rows: GemmRows) -> Mask:
    # The widest load that shares B out evenly; B runs along its free axis in memory.
    width = clamped_width(rows=rows.tile_k, cols=rows.tile_n, threads=rows.threads, request=rows.vector_size_b)
    mask: Mask = width > 0
    return mask


def _b_can_be_k_outer(rows: GemmRows) -> Mask:
    mask: Mask = k_outer_possible(rows.target, rows.dtype, rows.warp_tile_n)
    return mask


#: Of kernels that search a table of sub-GEMMs.
SUB_GEMM_RULES = (Rule("D1_sub_gemms", "the sub-GEMM table is too small", _sub_gemms_fit),)
DGRAD_RULES = (
    Rule(
        "D3_tile",
        (
            "the tile is no multiple of waves times matrix instruction, the workgroup is too large, or the "
            "target has no such instruction"
        ),
        lambda r: r.tile_exists,
    ),
    Rule(
        "D4_store_width",
        "the default epilogue stores single elements only",
        lambda r: (r.vector_size_c == 1) | r.cshuffle & (r.vector_size_c > 0),
    ),
    Rule(
        "D6_accumulators",
        "the accumulators of one lane exceed what it can hold without spilling",
        lambda r: r.accumulators <= MAX_ACCUMULATORS,
    ),
    Rule("D8_lds", "the tiles do not fit in LDS", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
    Rule(
        "D9_load_a",
        "A loads of this width do not share the tile out evenly over the threads",
        lambda r: (r.vector_size_a > 0) & r.loads_evenly(r.tile_m, np.maximum(r.vector_size_a, 1)),
    ),
    Rule("D9b_load_b", "not even single elements share the B tile out evenly over the threads", _b_width, builder=True),
    Rule(
        "D12_k_outer",
        "a K-outer B tile needs transposing LDS reads",
        lambda r: (r.lds_k_outer == 0) | _b_can_be_k_outer(r),
    ),
    Rule(
        "D13_shifts", "a tile extent, a number of waves or a width is no power of two", lambda r: r.shifts, builder=True
    ),
)
