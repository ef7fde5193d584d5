"""The rules of forward kernels. F1 to F10 are the published validator's; the rest is what our builder needs.

Loads take their widths verbatim, so a tile that they cannot share out evenly is no kernel at all (F11, F12); a
direct-to-LDS loop ignores them and needs a chunk instead (F13); stores of the cshuffle epilogue are verbatim too (F14).
"""

from __future__ import annotations

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
        lambda r: r.launch_threads <= r.target.max_threads,
    ),
    Rule(
        "F3_store_width",
        "the default epilogue stores single elements only",
        lambda r: r.cshuffle | (r.vector_size_c == 1),
    ),
    Rule("F4_atom", "the target has no such matrix instruction for this dtype and wave size", lambda r: r.atom_exists),
    Rule("F5_lds", "the tiles do not fit in LDS", lambda r: r.lds.total_bytes <= r.target.lds_bytes),
    Rule(
        "F6_wavelet", "the wavelet pipeline is for WMMA targets only", lambda r: ~r.wavelet | (r.target.wave_size == 32)
    ),
    Rule(
        "F7_basic_async",
        "the basic pipeline has no direct-to-LDS loop",
        lambda r: ~r.text("pipeline", "basic") | ~r.is_async,
    ),
    Rule(
        "F8_wave32",
        "wave32 kernels are 16x16, mem or wavelet, with a plain K loop",
        lambda r: (r.wave_size == 64) | r.wave32_shape & r.text("pipeline", "mem", "wavelet"),
    ),
    Rule(
        "F9_async_layout",
        "direct-to-LDS loads need packed LDS tiles",
        lambda r: ~r.is_async | ((r.lds_k_pad == 0) & r.text("lds_layout", "default")),
    ),
    Rule("F10_epilogue", "no accumulator transform is offered", lambda r: r.text("acc_epilogue", "none")),
    Rule(
        "F11_load_a",
        "A loads of this width do not share the tile out evenly over the threads",
        lambda r: r.is_async | r.loads_evenly(r.tile_m, r.vector_size_a),
        builder=True,
    ),
    Rule(
        "F12_load_b",
        "B loads of this width do not share the tile out evenly over the threads",
        lambda r: r.is_async | r.loads_evenly(r.tile_n, r.vector_size_b),
        builder=True,
    ),
    Rule(
        "F13_async_chunk",
        "no direct-to-LDS chunk shares both tiles out evenly over the threads",
        lambda r: ~r.is_async | ((r.async_chunk_a > 0) & (r.async_chunk_b > 0)),
        builder=True,
    ),
    Rule(
        "F14_store",
        "stores of this width do not share the output tile out evenly over the threads",
        lambda r: ~r.cshuffle | r.stores_evenly(r.vector_size_c),
        builder=True,
    ),
    Rule(
        "F15_accumulators",
        "the accumulators of one lane exceed what it can hold without spilling",
        lambda r: r.accumulators <= MAX_ACCUMULATORS,
        builder=True,
    ),
)
