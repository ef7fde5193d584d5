"""Enumeration on columns against a product written as loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from cache_schema.digest import table_digests
from cache_schema.errors import UnknownValueError
from cache_schema.identity import Identity
from grids.axes import FamilyAxes, load_axes
from grids.enumerate import candidates, family_candidates
from grids.families import FAMILIES, family_codes, family_names, select
from grids.rules import evaluate
from grids.targets import target

#: Small axes for the loops: every kind of value is there.
SMALL = {
    "tile_m": (64, 256), "tile_n": (16, 128), "tile_k": (16, 64), "warp_m": (1, 4), "warp_n": (1, 2),
    "warp_tile": (16, 32), "group_merge": (2, 16), "vector_size_a": (1, 8), "vector_size_b": (2, 8),
}  # fmt: skip


def small(axes: FamilyAxes) -> FamilyAxes:
    return {axis: SMALL.get(axis, values) for axis, values in axes.items()}


def clamp(rows: int, cols: int, threads: int, request: int) -> int:
    fits = [v for v in (1, 2, 4, 8) if v <= request and cols % v == 0 and rows * cols % (threads * v) == 0]
    return max(fits, default=0)


def slow_candidates(arch: str, dtype: str, family: str, axes: FamilyAxes) -> list[Identity]:
    """The same candidates, one at a time."""
    gpu, found = target(arch), []
    for values in product(*axes.values()):
        a = dict(zip(axes, values, strict=True))
        e, m, n, k = (int(a[name]) for name in ("warp_tile", "tile_m", "tile_n", "tile_k"))
        depth = gpu.atom_k(dtype, e)
        wm, wn = int(a["warp_m"]), int(a["warp_n"])
        if m % (wm * e) or n % (wn * e) or k % depth or m // wm * (n // wn) // 64 > 256:
            continue
        if a["k_loop"] == "async_dma" and a["pipeline"] != "mem":
            continue
        threads, light = 64 * wm * wn, m * n <= 128 * 64 * wm * wn
        fields: dict[str, Any] = {}
        direction = FAMILIES[family].direction
        vec_a, vec_b = int(a.get("vector_size_a", 0)), int(a.get("vector_size_b", 0))
        if direction == "fwd":
            fields |= {"vector_size_b": vec_a, "vector_size_c": a["vector_size_c"]}
            if a["k_loop"] == "async_dma":
                for name, rows in (("async_chunk_a", m), ("async_chunk_b", n)):
                    sizes = [d * 2 for d in gpu.async_dwords if k % (2 * d) == 0 and 64 % (2 * d) == 0]
                    fields[name] = max((s for s in sizes if rows * k % (threads * s) == 0), default=0)
        else:
            fields["vector_size_b"] = vec_b
            fields["vector_size_c"] = 0 if not vec_b else vec_b if a["epilogue"] == "cshuffle" else 1
        if direction == "dgrad":
            fields |= {"lds_k_outer": arch == "gfx950" and vec_b > 1 and a["pipeline"] != "wavelet"}
            fields |= {"uniform_k_decode": light, "max_sub_gemms": 64}
            if family == "stride1":
                fields |= {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
        if direction == "wgrad":
            merge = int(a.get("group_merge", 1))
            run_a, run_b = (vec_a, vec_b) if vec_a else (min(merge, 8), min(merge, 8))
            loads = sum(k * f // (threads * (clamp(k, f, threads, r) or 1)) for f, r in ((m, run_a), (n, run_b)))
            light = m * n * max(1, threads // 256) <= 128 * threads
            fields |= {"lds_k_outer": arch == "gfx950", "prefetch_addr": light and loads <= 16, "group_merge": merge}
            if family == "stream_k":
                fields |= {"stream_k": True, "prefetch_addr": False}
            elif family != "nonsplit":
                fields["split_k"] = 2
            if family in ("two_stage", "merged"):
                fields |= {"two_stage": True, "ws_replicas": 8}
        fields |= {"tile_m": m, "tile_n": n, "tile_k": k, "warp_m": wm, "warp_n": wn, "vector_size_a": vec_a}
        fields |= {"warp_tile_m": e, "warp_tile_n": e, "warp_tile_k": depth, "grouped": True}
        fields |= {"pipeline": a["pipeline"], "epilogue": a["epilogue"]}
        fields |= {"unroll_k": a["k_loop"] == "unroll_k", "async_dma": a["k_loop"] == "async_dma"}
        found.append(Identity(arch, direction, "implicit_gemm", dtype, dtype, dtype, **fields))
    return found


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "reduce"])
def test_columns_are_the_loops(arch: str, family: str) -> None:
    """On small axes, every family's table is row for row a set equal to the product written as nested loops."""
    axes = small(load_axes()[family])
    table = family_candidates(arch, "fp16", FAMILIES[family], axes)
    expected = slow_candidates(arch, "fp16", family, axes)
    rows = [table.row(i) for i in range(len(table))]
    assert len(rows) == len(expected) > 100
    assert set(rows) == set(expected)


def test_one_reduction_per_count_of_replicas() -> None:
    """Second steps depend on the type of dW and the replicas alone, stream-K has one of its own, and all build."""
    axes = {**load_axes()["reduce"], "ws_replicas": (4, 8)}
    table = family_candidates("gfx942", "fp16", FAMILIES["reduce"], axes)
    assert [(table.row(i).ws_replicas, table.row(i).stream_k) for i in range(3)] == [(4, False), (8, False), (0, True)]
    assert evaluate(table).buildable.all()
    assert set(family_names(table)) == {"reduce"}


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
def test_no_identity_twice(direction: str) -> None:
    """Every candidate of a direction is an identity of its own."""
    digests = table_digests(candidates("gfx950", "bf16", direction))
    assert len(np.unique(digests, axis=0)) == len(digests)


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
def test_family_follows_from_the_fields(direction: str) -> None:
    """The family of a row can be told from its identity alone."""
    for family in select([direction]):
        table = family_candidates("gfx942", "bf16", family, small(load_axes()[family.name]))
        assert set(family_names(table)) == {family.name}
    assert set(np.unique(family_codes(candidates("gfx942", "bf16", direction)))) == {
        1 + list(FAMILIES).index(family.name) for family in select([direction])
    }


def test_forward_async_widths_share_chunks() -> None:
    """Forward direct-to-LDS kernels that differ in load widths alone record the same chunks, so they are one binary."""
    table = candidates("gfx950", "bf16", "fwd")
    table = table.take(table.columns["async_dma"] & (table.columns["async_chunk_a"] > 0))
    names = [name for name in table.columns if name not in ("vector_size_a", "vector_size_b")]
    rows = np.stack([table.columns[name].astype(np.int64) for name in names], axis=1)
    assert len(table) == 4 * len(np.unique(rows, axis=0)) > 0


def test_unknown_names() -> None:
    """Unknown architecture, dtype and direction are errors that name the value; nothing falls through to forward."""
    for arguments, word in (
        (("gfx1100", "bf16", "fwd"), "gfx1100"),
        (("gfx950", "fp32", "fwd"), "fp32"),
        (("gfx950", "bf16", "forward"), "forward"),
    ):
        with pytest.raises(UnknownValueError, match=word):
            candidates(*arguments)
