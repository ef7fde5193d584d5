"""The rules of forward kernels. F1 to F10 are the published validator's; the rest is what our builder needs.

Loads take their widths verbatim, so a tile that they cannot share out evenly is no kernel at all (F11, F12); a
direct-to-LDS loop ignores them and needs a chunk instead (F13); stores of the cshuffle epilogue are verbatim too (F14).
"""

from __future__ import annotations

from grids.geometry import MAX_ACCUMULATORS
from grids.rule import Rule

# fmt: off
FORWARD_RULES = (
    Rule("F1_divisibility", lambda r: r.tiles_divide),
    Rule("F2_threads", lambda r: r.launch_threads <= r.target.max_threads),
    Rule("F3_store_width", lambda r: r.cshuffle | (r.vector_size_c == 1)),
    Rule("F4_atom", lambda r: r.atom_exists),
    Rule("F5_lds", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
    Rule("F6_wavelet", lambda r: ~r.wavelet | (r.target.wave_size == 32)),
    Rule("F7_basic_async", lambda r: ~r.text("pipeline", "basic") | ~r.is_async),
    Rule("F8_wave32", lambda r: (r.wave_size == 64) | r.wave32_shape & r.text("pipeline", "mem", "wavelet")),
    Rule("F9_async_layout", lambda r: ~r.is_async | ((r.lds_k_pad == 0) & r.text("lds_layout", "default"))),
    Rule("F10_epilogue", lambda r: r.text("acc_epilogue", "none")),
    Rule("F11_load_a", lambda r: r.is_async | r.loads_evenly(r.tile_m, r.vector_size_a), builder=True),
    Rule("F12_load_b", lambda r: r.is_async | r.loads_evenly(r.tile_n, r.vector_size_b), builder=True),
    Rule("F13_async_chunk", lambda r: ~r.is_async | ((r.async_chunk_a > 0) & (r.async_chunk_b > 0)), builder=True),
    Rule("F14_store", lambda r: ~r.cshuffle | r.stores_evenly(r.vector_size_c), builder=True),
    Rule("F15_accumulators", lambda r: r.accumulators <= MAX_ACCUMULATORS, builder=True),
)
# fmt: on
