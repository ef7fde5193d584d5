"""The rules of backward-data kernels. D1 to D12 are the published validator's; D9b is what our builder needs."""

from __future__ import annotations

from grids.geometry import MAX_ACCUMULATORS, clamped_width
from grids.policies import k_outer_possible
from grids.probe import probe
from grids.rule import Mask, Rows, Rule
from grids.tilde import sub_gemms


def _sub_gemms_fit(rows: Rows) -> Mask:
    """The records of the probe fit the table; a binary for any stride is judged at stride 2."""
    folded, strided = (len(sub_gemms(probe("dgrad", rows.dtype, stride=stride))) for stride in (1, 2))
    mask: Mask = rows.max_sub_gemms >= folded + (strided - folded) * (rows.stride_h != 1)
    return mask


def _b_width(rows: Rows) -> Mask:
    # The widest load that shares B out evenly; B runs along its free axis in memory.
    width = clamped_width(rows=rows.tile_k, cols=rows.tile_n, threads=rows.threads, request=rows.vector_size_b)
    mask: Mask = width > 0
    return mask


def _b_can_be_k_outer(rows: Rows) -> Mask:
    possible = k_outer_possible(rows.target, rows.dtype, rows.warp_tile_n)
    mask: Mask = possible & rows.text("lds_layout", "default") & ~rows.wavelet
    return mask


# fmt: off
DGRAD_RULES = (
    Rule("D1_sub_gemms", _sub_gemms_fit),
    Rule("D2_depthwise", lambda r: (r.grouped == 0) | (r.cpg != 1)),
    Rule("D3_tile", lambda r: r.tile_exists),
    Rule("D4_store_width", lambda r: r.cshuffle | (r.vector_size_c == 1)),
    Rule("D5_split", lambda r: (r.split_k >= 1) & ((r.split_k == 1) | (r.wave_size == 64))),
    Rule("D6_accumulators", lambda r: r.accumulators <= MAX_ACCUMULATORS),
    Rule("D7_k_loop", lambda r: ~r.is_async & (r.unroll_k == 0) & (r.chiplet_swizzle == 0)),
    Rule("D8_lds", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
    Rule("D9_load_a", lambda r: r.loads_evenly(r.tile_m, r.vector_size_a)),
    Rule("D9b_load_b", _b_width, builder=True),
    Rule("D10_wavelet", lambda r: ~r.wavelet | (r.target.wave_size == 32)),
    Rule("D11_wave32", lambda r: (r.wave_size == 64) | r.wave32_shape & r.text("pipeline", "mem", "wavelet")),
    Rule("D12_k_outer", lambda r: (r.lds_k_outer == 0) | _b_can_be_k_outer(r)),
)
# fmt: on
