"""Enumeration on columns against a product written as loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from cache_schema.digest import table_digests
from cache_schema.identity import Identity
from grids.axes import load_axes
from grids.families import families, known_family, select
from grids.family import FamilyAxes
from grids.rules import evaluate
from grids.targets import target
from tests.grids.kernels import ATOM_DEPTH, candidates, candidates_of

#: Small axes for the loops: every kind of value is there.
SMALL = {
    "tile_m": (64, 256), "tile_n": (16, 128), "tile_k": (16, 64), "warp_m": (1, 4), "warp_n": (1, 2),
    "warp_tile": (16, 32), "group_merge": (2, 16), "vector_size_a": (1, 8), "vector_size_b": (2, 8),
    "max_sub_gemms": (4, 64), "ws_replicas": (4, 8),
}  # fmt: skip
#: Every K loop, also for families that have one of them in the catalogue.
LOOPS = {"k_loop": ("plain", "unroll_k", "async_dma")}
#: Reduction of the deepest matrix instruction by edge, and dwords of direct-to-LDS loads.
DEPTH = {arch: {16: 2 * depth, 32: depth} for arch, depth in ATOM_DEPTH.items()}
DWORDS = {"gfx950": (4, 3, 1), "gfx942": (1,)}


def small(axes: FamilyAxes) -> FamilyAxes:
    return {axis: (SMALL | LOOPS).get(axis, values) for axis, values in axes.items()}


def clamp(rows: int, cols: int, threads: int, request: int) -> int:
    fits = [v for v in (1, 2, 4, 8) if v <= request and cols % v == 0 and rows * cols % (threads * v) == 0]
    return max(fits, default=0)


def chunk(arch: str, rows: int, cols: int, threads: int) -> int:
    """Widest direct-to-LDS load that divides rows of the tile and of 64 channels, and is dealt out evenly."""
    fits = [2 * d for d in DWORDS[arch] if cols % (2 * d) == 64 % (2 * d) == rows * cols % (threads * 2 * d) == 0]
    return max(fits, default=0)


def slow_candidates(arch: str, dtype: str, family: str, axes: FamilyAxes) -> list[Identity]:
    """The same candidates, one at a time."""
    record, direction, found = known_family(family).record, known_family(family).direction, []
    for values in product(*axes.values()):
        a: dict[str, Any] = dict(zip(axes, values, strict=True))
        e, m, n, k, wm, wn = (a[name] for name in ("warp_tile", "tile_m", "tile_n", "tile_k", "warp_m", "warp_n"))
        depth = DEPTH[arch][e]
        if m % (wm * e) or n % (wn * e) or k % depth or m // wm * (n // wn) // 64 > 256:
            continue
        loop = a.get("k_loop", "plain")
        if loop == "async_dma" and a["pipeline"] != "mem":
            continue
        threads = 64 * wm * wn
        vec_a, vec_b = a.get("vector_size_a", 0), a.get("vector_size_b", 0)
        fields: dict[str, Any] = {name: a[name] for name in ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n")}
        fields |= {"warp_tile_m": e, "warp_tile_n": e, "warp_tile_k": depth}
        fields |= {name: a[name] for name in ("pipeline", "epilogue", "max_sub_gemms", "ws_replicas") if name in a}
        if direction == "fwd":
            fields |= {"vector_size_a": vec_a, "vector_size_b": vec_a, "vector_size_c": a["vector_size_c"]}
            sizes = chunk(arch, m, k, threads), chunk(arch, n, k, threads)
        elif family != "merged":
            fields |= {"vector_size_a": vec_a, "vector_size_b": vec_b}
            fields["vector_size_c"] = vec_b if a["epilogue"] == "cshuffle" else 1
        if direction == "dgrad":
            fields |= {"lds_k_outer": arch == "gfx950" and vec_b > 1, "uniform_k_decode": m * n <= 128 * threads}
        if direction == "wgrad":
            run_a, run_b = vec_a, vec_b
            if family == "merged":
                fields["group_merge"] = a["group_merge"]
                run_a = run_b = min(a["group_merge"], 8)
            loads = sum(k * f // (threads * (clamp(k, f, threads, r) or 1)) for f, r in ((m, run_a), (n, run_b)))
            light = m * n * max(1, threads // 256) <= 128 * threads
            fields["lds_k_outer"] = arch == "gfx950"
            if family != "stream_k":
                fields["prefetch_addr"] = light and loads <= 16
            sizes = chunk(arch, k, m, threads), chunk(arch, k, n, threads)
        if "k_loop" in a:
            fields |= {"unroll_k": loop == "unroll_k", "async_dma": loop == "async_dma"}
        if loop == "async_dma":
            fields |= {"async_chunk_a": sizes[0], "async_chunk_b": sizes[1]}
        found.append(record(arch, dtype, dtype, dtype, **fields))
    return found


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("family", [name for name, family in families().items() if not family.is_step])
def test_columns_are_the_loops(arch: str, family: str) -> None:
    """On small axes, every family's table is row for row a set equal to the product written as nested loops."""
    axes = small(load_axes()[family])
    table = known_family(family).candidates(target(arch), "fp16", axes)
    expected = slow_candidates(arch, "fp16", family, axes)
    rows = [table.row(i) for i in range(len(table))]
    assert len(rows) == len(expected) > 100
    assert set(rows) == set(expected)


def test_one_reduction_per_count_of_replicas() -> None:
    """Reductions depend on the type of dW and the replicas alone, fix-ups on the type alone, and all build."""
    rows = []
    for family, axes in (("reduce", {"ws_replicas": (4, 8)}), ("fix_up", {})):
        table = known_family(family).candidates(target("gfx942"), "fp16", axes)
        assert evaluate(table).buildable.all()
        rows += [table.row(i) for i in range(len(table))]
    assert [(row.family, getattr(row, "ws_replicas", None)) for row in rows] == [
        ("reduce", 4), ("reduce", 8), ("fix_up", None)
    ]  # fmt: skip
    assert {(row.arch, row.dtype_a, row.dtype_b, row.dtype_d) for row in rows} == {("gfx942", "fp16", "fp16", "fp16")}


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
def test_no_identity_twice(direction: str) -> None:
    """Every candidate of a direction is an identity of its own."""
    digests = table_digests(candidates_of("gfx950", "bf16", direction))
    assert len(np.unique(digests, axis=0)) == len(digests)


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_candidates_are_what_was_asked_for(arch: str) -> None:
    """A family's candidates are of its record, direction, architecture and data type, and none is empty."""
    for family in families().values():
        table = candidates(arch, "fp16", family.name)
        assert table.schemas == (family.schema,)
        assert table.directions == (family.direction,)
        assert table.vocab["arch"] == (arch,)
        assert table.vocab["dtype_a"] == table.vocab["dtype_b"] == table.vocab["dtype_d"] == ("fp16",)
        assert isinstance(table.row(len(table) - 1), family.record)


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
def test_a_direction_is_its_families(direction: str) -> None:
    """The candidates of a direction, joined, tell their families apart and lose no row."""
    table = candidates_of("gfx942", "bf16", direction)
    sizes = {family.name: len(candidates("gfx942", "bf16", family.name)) for family in select([direction])}
    assert {name: int(table.of_families([name]).sum()) for name in sizes} == sizes
    assert len(table) == sum(sizes.values()) == table.of_direction(direction).sum()
    # What each family finds when it asks for its rows.
    assert {schema.family: len(part) for schema, _, part in table.parts()} == sizes


def test_forward_async_widths_share_chunks() -> None:
    """Forward direct-to-LDS kernels that differ in load widths alone record the same chunks, so they are one binary."""
    table = candidates("gfx950", "bf16", "implicit_gemm")
    table = table.take(table.columns["async_dma"] & (table.columns["async_chunk_a"] > 0))
    names = [name for name in table.columns if name not in ("vector_size_a", "vector_size_b")]
    rows = np.stack([table.columns[name].astype(np.int64) for name in names], axis=1)
    assert len(table) == 4 * len(np.unique(rows, axis=0)) > 0
