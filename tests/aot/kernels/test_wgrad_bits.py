"""What must be equal bit for bit: other codings of one computation, and deterministic kernels in another order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from grids.gemm.records import Wgrad
from tests.aot.kernels.wgrad_machine import problem, run, wgrad

RAGGED = problem(n=3, c=40, h=8, w=11, k=72, pad_h=1, pad_w=2, stride_h=2, dilation_w=2)
PACKED = {"epilogue": "cshuffle", "vector_size_c": 4}
KERNELS = [
    wgrad(),
    wgrad(pipeline="compv3", tile_k=64, vector_size_a=8, vector_size_b=8, **{**PACKED, "vector_size_c": 8}),
    wgrad(pipeline="compv4", tile_m=128, warp_tile_m=32, warp_tile_n=32, warp_tile_k=16, vector_size_a=2, **PACKED),
    wgrad(tile_n=128, vector_size_a=1, vector_size_b=1),
    wgrad(pipeline="compv3", tile_m=32, warp_m=1, unroll_k=True),
    wgrad(tile_m=16, tile_n=16, warp_m=1, warp_n=1),
]
#: Matrix instructions with four elements per lane, which the catalogue leaves out on gfx950.
SHORT = [wgrad(warp_tile_k=16), wgrad(warp_tile_m=32, warp_tile_n=32, warp_tile_k=8)]


@pytest.mark.parametrize("identity", KERNELS + SHORT)
def test_k_outer_and_m_outer_tiles_agree(identity: Wgrad) -> None:
    """The layout of LDS tiles decides where numbers pass, not what is computed."""
    turned = run(replace(identity, lds_k_outer=False), RAGGED)
    assert turned.right
    assert np.array_equal(run(identity, RAGGED).output, turned.output)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("chunk", [2, 8])
@pytest.mark.parametrize("tile", [(64, 64, 2, 2), (128, 128, 2, 2), (64, 256, 1, 4)])
def test_direct_to_lds_loads_agree(tile: tuple[int, ...], chunk: int, ahead: bool) -> None:
    """Numbers that never pass through registers on their way to LDS are the same numbers."""
    fields = dict(zip(("tile_m", "tile_n", "warp_m", "warp_n"), tile, strict=True))
    plain = wgrad(vector_size_a=chunk, vector_size_b=chunk, **fields)
    unset: dict[str, Any] = {"vector_size_a": 0, "vector_size_b": 0, "async_chunk_a": chunk, "async_chunk_b": chunk}
    direct = run(replace(plain, async_dma=True, prefetch_addr=ahead, **unset), RAGGED)
    assert direct.right
    assert np.array_equal(run(plain, RAGGED).output, direct.output)


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("identity", KERNELS)
def test_prefetched_addresses_agree(identity: Wgrad, arch: str) -> None:
    """Addresses computed one tile ahead are the same addresses."""
    depth = identity.warp_tile_k if arch == "gfx950" else identity.warp_tile_k // 2
    kernel = replace(identity, arch=arch, warp_tile_k=depth, lds_k_outer=arch == "gfx950")
    ahead = run(replace(kernel, prefetch_addr=True), RAGGED)
    assert ahead.right
    assert np.array_equal(run(kernel, RAGGED).output, ahead.output)


@pytest.mark.parametrize(
    ("identity", "split_k"),
    [
        (wgrad(), -1),
        (wgrad(stream_k=True, pipeline="compv3"), -1),
        (wgrad(split_k=2, **PACKED), 2),
        (wgrad(split_k=2, two_stage=True, ws_replicas=8), 16),
    ],
)
def test_deterministic_kernels_repeat_bits(identity: Wgrad, split_k: int) -> None:
    """Whatever the order of workgroups: no split, stream-K, and splits in which at most two slices meet."""
    at = problem(n=8, c=16, h=9, w=9, k=24, pad_h=1)
    runs = [run(identity, at, order=order, split_k=split_k) for order in range(4)]
    assert all(outcome.plan.deterministic and outcome.right for outcome in runs)
    assert all(np.array_equal(outcome.output, runs[0].output) for outcome in runs)


def test_the_order_of_many_slices_shows() -> None:
    """Plans of more slices do not promise equal bits, and rightly so."""
    at = problem(n=8, c=16, h=9, w=9, k=24, pad_h=1)
    runs = [run(wgrad(split_k=2, **PACKED), at, order=order, split_k=9) for order in range(4)]
    assert all(outcome.right and not outcome.plan.deterministic for outcome in runs)
    assert any(not np.array_equal(outcome.output, runs[0].output) for outcome in runs)
