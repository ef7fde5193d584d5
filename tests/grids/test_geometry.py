"""Geometry functions against brute force, and ints against columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cache_schema.errors import UnknownValueError
from cache_schema.problem import ConvProblem
from grids import geometry
from grids.gemm.records import Gemm
from tests.grids.kernels import kernel
from tests.grids.problems import random_problem

POWERS = (16, 32, 64, 128, 256)


def tile_arguments(seed: int, count: int) -> Iterator[dict[str, int]]:
    """Random arguments of lds_layout."""
    rng = random.Random(seed)
    for _ in range(count):
        yield {
            "tile_m": rng.choice(POWERS),
            "tile_n": rng.choice(POWERS),
            "tile_k": rng.choice((8, 16, 32, 64)),
            **{name: rng.randrange(2) for name in ("cshuffle", "async_dma", "unroll_k", "lds_k_outer")},
        }


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
def test_lds_holds_every_element_exactly_once(direction: str) -> None:
    """Placing every element of A, B and C by the layout's strides fills distinct bytes below total_bytes, tightly."""
    for arguments in tile_arguments(1, 40):
        m, n, k = (min(arguments[name], 64) for name in ("tile_m", "tile_n", "tile_k"))
        arguments |= {"tile_m": m, "tile_n": n}
        layout = geometry.lds_layout(direction, **arguments)
        a_rows = k if direction == "wgrad" and arguments["lds_k_outer"] else m
        b_rows = k if direction != "fwd" and arguments["lds_k_outer"] else n
        pair = layout.a_bytes + layout.b_bytes
        used: list[int] = []
        for buffer in range(2 if arguments["async_dma"] or arguments["unroll_k"] else 1):
            for start, rows, cols, stride in (
                (0, a_rows, m * k // a_rows, layout.a_row_elems),
                (layout.a_bytes, b_rows, n * k // b_rows, layout.b_row_elems),
            ):
                assert stride >= cols
                used += [buffer * pair + start + 2 * (row * stride + col) for row in range(rows) for col in range(cols)]
        assert len(used) == len(set(used))
        c_end = layout.c_offset + 2 * m * n * arguments["cshuffle"]
        if direction == "wgrad":
            assert layout.c_offset > max(used)
        slack = 2 * max(layout.a_row_elems, layout.b_row_elems)
        assert max(max(used) + 2, c_end) <= layout.total_bytes <= max(max(used) + 2 + slack, c_end)


def test_lds_known_sizes() -> None:
    """Reference sizes worked out by hand: padded rows, the doubled loop, the overlaid and the separate C tile."""
    common = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "async_dma": 0, "lds_k_outer": 0}
    plain = geometry.lds_layout("fwd", **common, cshuffle=1, unroll_k=0)
    assert plain.total_bytes == 256 * 72 * 2  # 36864, above the 32768 of C
    assert geometry.lds_layout("fwd", **common, cshuffle=1, unroll_k=1).total_bytes == 2 * 256 * 72 * 2
    assert geometry.lds_layout("wgrad", **common, cshuffle=1, unroll_k=0).total_bytes == 256 * 72 * 2 + 128 * 128 * 2
    turned = geometry.lds_layout("dgrad", **(common | {"lds_k_outer": 1}), cshuffle=0, unroll_k=0)
    assert (turned.a_bytes, turned.b_bytes) == (128 * 72 * 2, 64 * 136 * 2)
    packed = geometry.lds_layout("fwd", **(common | {"async_dma": 1}), cshuffle=0, unroll_k=0)
    assert packed.total_bytes == 2 * 256 * 64 * 2


def test_lds_unknown_direction() -> None:
    """A direction string that is none never falls through to forward."""
    with pytest.raises(UnknownValueError, match="direct_fwd"):
        geometry.lds_layout("direct_fwd", **next(tile_arguments(0, 1)))


def test_lds_of_identity_reads_the_identity() -> None:
    """The layout of an identity is the layout of its fields."""
    identity = kernel("implicit_gemm", tile_n=64, tile_k=32, epilogue="cshuffle", unroll_k=True)
    assert isinstance(identity, Gemm)
    assert geometry.lds_of_identity(identity) == geometry.lds_layout(
        "fwd", tile_m=128, tile_n=64, tile_k=32, cshuffle=1, async_dma=0, unroll_k=1, lds_k_outer=0
    )
    turned = kernel("tilde", tile_n=64, tile_k=32, epilogue="default", vector_size_c=1, lds_k_outer=True)
    assert isinstance(turned, Gemm)
    assert geometry.lds_of_identity(turned) == geometry.lds_layout(
        "dgrad", tile_m=128, tile_n=64, tile_k=32, cshuffle=0, async_dma=0, unroll_k=0, lds_k_outer=1
    )


def test_columns_agree_with_ints() -> None:
    """A column gives element by element what ints give, for every function that takes tiles."""
    cases = list(tile_arguments(2, 300))
    columns: dict[str, Any] = {name: np.array([case[name] for case in cases], dtype=np.int32) for name in cases[0]}
    for direction in ("fwd", "dgrad", "wgrad"):
        layout = geometry.lds_layout(direction, **columns)
        for index, case in enumerate(cases):
            one = geometry.lds_layout(direction, **case)
            for field in geometry.LdsLayout.__slots__:
                value = np.broadcast_to(getattr(layout, field), len(cases))[index]
                assert value == getattr(one, field), (direction, field, case)
    rng = random.Random(3)
    tiles = {
        "rows": [rng.choice(POWERS) for _ in range(300)],
        "cols": [rng.choice((16, 32, 48, 64)) for _ in range(300)],
        "threads": [64 << rng.randrange(5) for _ in range(300)],
    }
    widths = [1 << rng.randrange(4) for _ in range(300)]
    wide: dict[str, Any] = {name: np.array(values, dtype=np.int32) for name, values in tiles.items()}
    checks: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
        (geometry.clamped_width, {"request": widths}),
        (geometry.loads_evenly, {"vec": widths}),
        (geometry.loader_chunks, {"vec": widths}),
    )
    for function, extra in checks:
        got = function(**wide, **{name: np.array(values, dtype=np.int32) for name, values in extra.items()})
        expected = [
            function(**{name: values[i] for name, values in tiles.items()}, **{name: v[i] for name, v in extra.items()})
            for i in range(300)
        ]
        assert got.tolist() == expected
    chunks = geometry.async_chunk(**wide, run=48, dwords=(4, 3, 1))
    assert chunks.tolist() == [
        geometry.async_chunk(**{name: values[i] for name, values in tiles.items()}, run=48, dwords=(4, 3, 1))
        for i in range(300)
    ]
    assert {0, 2, 6, 8} == set(chunks.tolist())


def test_widths_by_search() -> None:
    """Clamped widths and async chunks are what trying every candidate from the widest down finds."""
    rng = random.Random(4)
    for _ in range(500):
        rows, cols, threads = rng.choice(POWERS), rng.choice((16, 24, 32, 64)), 64 << rng.randrange(5)
        request, run = 1 << rng.randrange(4), rng.choice((8, 12, 16, 24, 64))

        def even(width: int, rows: int = rows, cols: int = cols, threads: int = threads) -> bool:
            # Deal the tile's vectors out to the threads in turn and see whether all get the same number.
            return cols % width == 0 and len(range(0, rows * cols, width)) % threads == 0

        clamped = next((width for width in (8, 4, 2, 1) if width <= request and even(width)), 0)
        assert geometry.clamped_width(rows=rows, cols=cols, threads=threads, request=request) == clamped
        assert geometry.store_vector(tile_m=rows, tile_n=cols, threads=threads, request=request) == clamped
        chunk = next((elems for elems in (8, 6, 2) if run % elems == 0 and even(elems)), 0)
        assert geometry.async_chunk(rows=rows, cols=cols, threads=threads, run=run, dwords=(4, 3, 1)) == chunk


def test_gemm_extents_count_the_work() -> None:
    """Extents multiply to the multiply-adds of the definition; dgrad at stride 1 has its own M."""
    rng = random.Random(5)
    for _ in range(300):
        problem = random_problem(rng)
        extents = geometry.gemm_extents(problem)
        if problem.direction == "dgrad":
            assert extents == geometry.GemmExtents(
                problem.n * problem.h * problem.w, problem.cpg, problem.y * problem.x * problem.kpg
            )
        else:
            assert 2 * extents.m * extents.n * extents.k * problem.groups == problem.flops


def test_launch_grids_cover_the_output() -> None:
    """Every output element has exactly one workgroup, and no workgroup is without one."""
    rng = random.Random(6)
    for _ in range(200):
        m, n, tile_m, tile_n = rng.randint(1, 5000), rng.randint(1, 5000), rng.choice(POWERS), rng.choice(POWERS)
        groups, slices = rng.randint(1, 9), rng.randint(1, 9)
        x, y, z = geometry.launch_grid(gemm_m=m, gemm_n=n, tile_m=tile_m, tile_n=tile_n, groups=groups, slices=slices)
        assert (x - 1) * tile_n < n <= x * tile_n
        assert (y - 1) * tile_m < m <= y * tile_m
        assert z == groups * slices
    assert geometry.reduce_grid(elements=3 * 9 * 65) == (7, 1, 1)
    assert geometry.dgrad_grid(total_tiles=7, groups=3) == (7, 3, 1)


def test_arithmetic_has_no_32_bit_limit_on_ints() -> None:
    """Problem extents are Python ints, so sizes beyond 2^31 come out right."""
    problem = ConvProblem("fwd", "bf16", n=1 << 20, c=1, h=32, w=16, k=1, y=1, x=1)
    assert geometry.gemm_extents(problem).m == 1 << 29
    assert geometry.ceil_div((1 << 40) + 1, 1 << 10) == (1 << 30) + 1


def test_accumulators_and_fragments() -> None:
    """A 256x256 tile on 2x2 waves of 32x32 atoms: 4x4 fragments of 16 accumulators per lane."""
    assert geometry.fragments(tile=256, warps=2, edge=32) == 4
    assert geometry.accumulators_per_lane(tile_m=256, tile_n=256, warp_m=2, warp_n=2, wave_size=64) == 256
    assert geometry.block_threads(warp_m=2, warp_n=4, wave_size=64) == 512
