"""The rules on columns against the rules restated for one identity at a time."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cache_schema.errors import UnknownValueError
from cache_schema.identity import Identity
from cache_schema.table import IdentityTable, concat
from grids.enumerate import candidates
from grids.reasons import explain, explanations
from grids.rules import REASONS, RULES, evaluate
from grids.serving import SERVING_REASONS

LDS = {"gfx950": 160 * 1024, "gfx942": 64 * 1024}
ATOMS = {"gfx950": {(16, 16), (16, 32), (32, 8), (32, 16)}, "gfx942": {(16, 16), (32, 8)}}


def tile_bytes(i: Identity, free: int, turned: bool) -> int:
    pad = 0 if i.async_dma else 8
    if turned:
        return 2 * i.tile_k * (free + pad)
    return 2 * free * (i.tile_k + (pad if i.tile_k >= 16 else 0))


def lds_bytes(i: Identity) -> int:
    ab = tile_bytes(i, i.tile_m, i.lds_k_outer and i.direction == "wgrad")
    ab += tile_bytes(i, i.tile_n, i.lds_k_outer and i.direction != "fwd")
    if i.async_dma or i.unroll_k:
        ab *= 2
    c = 2 * i.tile_m * i.tile_n if i.epilogue == "cshuffle" else 0
    apart = i.cshuffle_no_alias or i.pipeline == "wavelet" or i.direction == "wgrad"
    return ab + c if apart else max(ab, c)


def slow_verdict(i: Identity) -> str:
    """The first failing rule of one identity, published rules first, "" when it is buildable."""
    threads = i.warp_m * i.warp_n * 64
    block = threads + (256 if i.pipeline == "wavelet" else 0)
    divides = not (i.tile_m % (i.warp_m * i.warp_tile_m) or i.tile_n % (i.warp_n * i.warp_tile_n))
    divides = divides and i.tile_k % i.warp_tile_k == 0
    atom = (i.warp_tile_m, i.warp_tile_k) in ATOMS[i.arch] and i.warp_tile_m == i.warp_tile_n
    atom = atom and i.wave_size == 64 and i.dtype_a == i.dtype_b == i.dtype_d
    accumulators = (i.tile_m // i.warp_m) * (i.tile_n // i.warp_n) // 64
    cshuffle, atomic = i.epilogue == "cshuffle", i.split_k > 1 and not i.two_stage
    plain = not i.async_dma and not i.unroll_k and not i.chiplet_swizzle

    def shared(free: int, vec: int) -> bool:
        return free * i.tile_k % (threads * vec) == 0

    small_wave = i.warp_tile_m == 16 and plain and i.pipeline in ("mem", "wavelet")
    k_outer = i.arch == "gfx950"
    if i.direction == "fwd":
        checks: dict[str, Any] = {
            "F1_divisibility": divides,
            "F2_threads": block <= 1024,
            "F3_store_width": cshuffle or i.vector_size_c == 1,
            "F4_atom": atom,
            "F5_lds": lds_bytes(i) <= LDS[i.arch],
            "F6_wavelet": i.pipeline != "wavelet",
            "F7_basic_async": not (i.pipeline == "basic" and i.async_dma),
            "F8_wave32": i.wave_size == 64 or small_wave,
            "F9_async_layout": not i.async_dma or (i.lds_k_pad == 0 and i.lds_layout == "default"),
            "F10_epilogue": i.acc_epilogue == "none",
            "F11_load_a": i.async_dma or shared(i.tile_m, i.vector_size_a),
            "F12_load_b": i.async_dma or shared(i.tile_n, i.vector_size_b),
            "F13_async_chunk": not i.async_dma or (i.async_chunk_a and i.async_chunk_b),
            "F14_store": not cshuffle or i.tile_m * i.tile_n % (threads * i.vector_size_c) == 0,
            "F15_accumulators": accumulators <= 256,
        }
    elif i.direction == "dgrad":
        checks = {
            "D1_sub_gemms": i.max_sub_gemms >= (1 if i.stride_h == 1 else 4),
            "D2_depthwise": not (i.grouped and i.cpg == 1),
            "D3_tile": divides and block <= 1024 and atom,
            "D4_store_width": cshuffle or i.vector_size_c == 1,
            "D5_split": i.split_k == 1 or (i.split_k > 1 and i.wave_size == 64),
            "D6_accumulators": accumulators <= 256,
            "D7_k_loop": plain,
            "D8_lds": lds_bytes(i) <= LDS[i.arch],
            "D9_load_a": shared(i.tile_m, i.vector_size_a),
            "D10_wavelet": i.pipeline != "wavelet",
            "D11_wave32": i.wave_size == 64 or small_wave,
            "D12_k_outer": not i.lds_k_outer
            or (k_outer and i.warp_tile_n in (16, 32) and i.lds_layout == "default" and i.pipeline != "wavelet"),
            "D5b_whole": i.split_k == 1,
            "D9b_load_b": shared(i.tile_n, 1),
        }
    else:
        merge = i.group_merge
        checks = {
            "W1_tile": divides and block <= 1024 and atom,
            "W2_store_width": cshuffle or i.vector_size_c <= 1,
            "W3_two_stage": not i.two_stage or (i.split_k > 1 and i.ws_replicas >= 1 and i.wave_size == 64),
            "W4_atomic_pairs": not atomic or (cshuffle and i.vector_size_c > 0 and i.vector_size_c % 2 == 0),
            "W5_two_stage_epilogue": not i.two_stage or not cshuffle,
            "W6_widths": all(v == 0 or (v <= 8 and 64 % v == 0) for v in (i.vector_size_a, i.vector_size_b)),
            "W7_pipeline": i.pipeline != "wavelet" and not (i.pipeline == "basic" and i.async_dma),
            "W8_pointwise": not (i.is_pointwise and i.grouped),
            "W9_async": not i.async_dma or (i.lds_k_outer and i.vector_size_a == i.vector_size_b == 0),
            "W10_lds": lds_bytes(i) <= LDS[i.arch],
            "W11_wave32": i.wave_size == 64 or (small_wave and i.pipeline == "mem" and not cshuffle),
            "W12_prefetch": not (i.prefetch_addr and i.stream_k),
            "W15_merge": merge == 1
            or (merge <= i.tile_m and 9 * merge <= i.tile_n and i.wave_size == 64 and not atomic),
            "W16_k_outer": not i.lds_k_outer or (k_outer and i.warp_tile_m in (16, 32) and i.lds_k_pad == 0),
            "W17_stream_k": not i.stream_k
            or (
                (i.split_k == 1 and not i.two_stage and merge == 1 and not i.unroll_k and not i.async_dma)
                and accumulators * max(1, -(-threads // 256)) <= 128
            ),
            "W18_async_loads": not i.async_dma
            or all(
                chunk and i.tile_k * free <= 16 * threads * chunk
                for free, chunk in ((i.tile_m, i.async_chunk_a), (i.tile_n, i.async_chunk_b))
            ),
            "W13_load": i.async_dma or (shared(i.tile_m, 1) and shared(i.tile_n, 1)),
            "W14_accumulators": accumulators <= 256,
        }
    return next((code for code, holds in checks.items() if not holds), "")


#: Values that a mutation may put into a field, many of them wrong.
MUTATIONS: dict[str, tuple[Any, ...]] = {
    "tile_m": (16, 48, 512), "tile_n": (512,), "tile_k": (8, 16, 128), "warp_m": (1, 3, 16), "warp_tile_m": (4, 16, 32),
    "warp_tile_n": (16, 32), "warp_tile_k": (4, 8, 16, 32), "pipeline": ("basic", "wavelet", "mem"),
    "epilogue": ("default", "cshuffle"), "wave_size": (32, 64), "vector_size_a": (0, 3, 16), "vector_size_c": (0, 1, 8),
    "async_dma": (True,), "unroll_k": (True,), "chiplet_swizzle": (True,), "lds_layout": ("xor",), "lds_k_pad": (4,),
    "lds_k_outer": (True,), "acc_epilogue": ("relu",), "split_k": (1, 2, 0), "two_stage": (True,),
    "ws_replicas": (0, 8), "group_merge": (2, 64), "cshuffle_no_alias": (True,), "stream_k": (True,),
    "prefetch_addr": (True,), "is_pointwise": (True,), "max_sub_gemms": (1, 64), "cpg": (1,), "dtype_d": ("fp32",),
    "async_chunk_a": (0, 8), "stride_h": (0, 1),
}  # fmt: skip
#: A vector width of 0 means "derived" in wgrad; elsewhere a builder is never given one.
WGRAD_ONLY = {("vector_size_a", 0), ("vector_size_c", 0)}


def mutated(identity: Identity, rng: random.Random) -> Identity:
    for field in rng.sample(sorted(MUTATIONS), rng.randint(1, 3)):
        value = rng.choice(MUTATIONS[field])
        if (field, value) not in WGRAD_ONLY or identity.direction == "wgrad":
            identity = replace(identity, **{field: value})
    return identity


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
def test_columns_agree_with_scalars(arch: str, direction: str) -> None:
    """On random candidates, and on candidates with random fields spoilt, the first failing rule is the same."""
    rng = random.Random(f"{arch} {direction}")
    table = candidates(arch, "bf16", direction)
    gemms = np.flatnonzero(table.equals("algorithm", "implicit_gemm")).tolist()
    sample = [table.row(i) for i in rng.sample(gemms, 3000)]
    sample += [mutated(identity, rng) for identity in sample]
    verdicts = evaluate(IdentityTable.from_identities(sample))
    expected = [slow_verdict(identity) for identity in sample]
    assert [verdicts.reason(i) for i in range(len(sample))] == expected
    seen, known = set(expected), {rule.code for rule in RULES[direction]}
    # What basic and wave32 rules forbid is forbidden by an earlier rule already on wave64 targets.
    assert known - seen <= {
        "F7_basic_async",
        "F8_wave32",
        "D11_wave32",
        "W11_wave32",
        "F13_async_chunk",
        "D9b_load_b",
        "W13_load",
        "W18_async_loads",
    }


def test_mixed_tables_are_judged_part_by_part() -> None:
    """A table that mixes architectures, directions and dtypes gets row by row the verdicts of its pure parts."""
    pure = [
        candidates(arch, dtype, direction).take(np.arange(0, 60000, 97))
        for arch, dtype, direction in (
            ("gfx950", "bf16", "fwd"),
            ("gfx942", "bf16", "fwd"),
            ("gfx942", "fp16", "wgrad"),
            ("gfx950", "fp16", "dgrad"),
        )
    ]
    order = np.random.default_rng(8).permutation(sum(map(len, pure)))
    mixed = evaluate(concat(pure).take(order))
    assert (mixed.codes == np.concatenate([evaluate(table).codes for table in pure])[order]).all()
    assert (mixed.admitted == (mixed.published == 0)).all()
    assert (mixed.buildable == (mixed.codes == 0)).all()
    assert sum(mixed.counts().values()) + mixed.buildable.sum() == len(order)


def test_empty_table() -> None:
    """No rows, no verdicts, no error."""
    verdicts = evaluate(IdentityTable.from_identities([]))
    assert len(verdicts.codes) == 0
    assert verdicts.counts() == {}


def test_unknown_architecture() -> None:
    """Identities of a GPU that no target describes are an error and not silently admitted."""
    row = replace(candidates("gfx950", "bf16", "fwd").row(0), arch="gfx1100")
    with pytest.raises(UnknownValueError, match="gfx1100"):
        evaluate(IdentityTable.from_identities([row]))


def test_every_reason_has_one_sentence() -> None:
    """The vocabulary for people is complete and has no sentence for a reason that does not exist."""
    codes = {code for code in (*REASONS, *SERVING_REASONS) if code}
    assert set(explanations()) == codes
    assert len(REASONS) + len(SERVING_REASONS) - 2 == len(codes)
    assert all(sentence and "\n" not in sentence for sentence in explanations().values())
    with pytest.raises(UnknownValueError, match="F99_unheard"):
        explain("F99_unheard")
