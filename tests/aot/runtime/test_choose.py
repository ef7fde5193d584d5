"""The default choice: sensible on shapes where the answer is plain, and the same in whatever order rows come."""

from __future__ import annotations

import numpy as np

from aot.runtime.choose import choose
from cache_schema.digest import table_digests
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from tests.aot.samples import forward

LARGE = ConvProblem("fwd", "bf16", n=64, c=256, h=56, w=56, k=256, y=3, x=3, pad_h=1, pad_w=1)
TINY = ConvProblem("fwd", "bf16", n=1, c=64, h=7, w=7, k=32, y=1, x=1)


def best(problem: ConvProblem, *identities: Identity) -> Identity:
    """The first choice among these."""
    table = IdentityTable.from_identities(identities)
    return identities[int(choose(table, table_digests(table), problem, "gfx950").rows[0])]


def wide(**fields: int | str | bool) -> Identity:
    """A kernel with 16-byte accesses."""
    return forward(**{"vector_size_a": 8, "vector_size_b": 8, "vector_size_c": 8, "epilogue": "cshuffle", **fields})  # type: ignore[arg-type]


def test_large_problems_take_large_tiles_and_small_ones_small_tiles() -> None:
    """Reuse wins where there is work for every compute unit, waste decides where there is not."""
    small = wide(tile_m=32, tile_n=32, tile_k=64)
    large = wide(tile_m=256, tile_n=256, tile_k=64)
    assert best(LARGE, small, large) == large
    assert best(TINY, small, large) == small


def test_wide_vectors_win() -> None:
    """With equal tiles the wider loads, then the wider stores, are taken."""
    assert best(LARGE, wide(vector_size_a=1), wide()) == wide()
    assert best(LARGE, wide(vector_size_c=2), wide()) == wide()
    assert best(LARGE, forward(vector_size_a=8, vector_size_b=8), wide()) == wide()


def test_chunks_of_direct_loads_count_as_their_width() -> None:
    """Loads that go straight to LDS move their chunk; the hidden share makes them better than staged ones."""
    direct = wide(async_dma=True, async_chunk_a=8, async_chunk_b=8)
    assert best(LARGE, wide(), direct) == direct
    narrow = wide(async_dma=True, async_chunk_a=2, async_chunk_b=2, vector_size_a=2, vector_size_b=2)
    assert best(LARGE, narrow, direct) == direct


def test_ragged_channels_prefer_a_tile_that_divides_them() -> None:
    """96 channels keep the lean K loop with tile_k 32 and lose it with 64."""
    problem = ConvProblem("fwd", "bf16", n=64, c=96, h=28, w=28, k=128, y=3, x=3, pad_h=1, pad_w=1)
    assert best(problem, wide(tile_k=64), wide(tile_k=32)) == wide(tile_k=32)


def test_order_does_not_depend_on_the_order_of_rows() -> None:
    """Equal estimates are ordered by digest, so any permutation of the rows ranks the same identities."""
    identities = [
        wide(tile_m=tile, pipeline=pipeline) for tile in (32, 64, 128) for pipeline in ("mem", "compv3", "compv4")
    ]
    rankings = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(identities))
        table = IdentityTable.from_identities([identities[i] for i in order])
        choice = choose(table, table_digests(table), LARGE, "gfx950")
        assert (np.diff(np.round(choice.forecast.clk, 3)) >= 0).all()
        rankings.append([identities[order[i]] for i in choice.rows])
    assert rankings[0] == rankings[1] == rankings[2]
    assert sorted(map(str, rankings[0])) == sorted(map(str, identities))
