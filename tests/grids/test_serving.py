"""Serving rules on columns against the rules restated for one kernel and one problem."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable, concat
from grids.catalogue import buildable
from grids.serving import SERVING_REASONS, serves
from grids.tilde import sub_gemms
from tests.grids.problems import random_problem


def sub_gemm_count(p: ConvProblem) -> int:
    """Lattices with taps and rows, counted from the published text."""

    def axis(taps: int, stride: int, dilation: int, pad: int, size: int, out: int) -> int:
        lattices = stride // np.gcd(stride, dilation)
        extent = out + (ceil(dilation * (taps - 1) / stride) if taps > 1 else 0)
        rows = min(extent, ceil((pad + size - 1) / stride) + 1) - max(0, pad - dilation * (lattices - 1)) // stride
        return sum(ceil((taps - offset) / lattices) > 0 and rows > 0 for offset in range(min(lattices, taps)))

    return axis(p.y, p.stride_h, p.dilation_h, p.pad_h, p.h, p.ho) * axis(
        p.x, p.stride_w, p.dilation_w, p.pad_w, p.w, p.wo
    )


def workspace_bytes(i: Identity, dw_f32_bytes: int) -> int:
    """Replicas of dW; for stream-K two parts of every workgroup that the registers of all compute units hold."""
    if i.two_stage:
        return dw_f32_bytes * i.ws_replicas
    if not i.stream_k or not i.tile_m:
        return 0
    waves = i.warp_m * i.warp_n
    per_simd = min(4, 512 // (i.tile_m * i.tile_n // (64 * waves) + 96))
    workgroups = max(1, per_simd * 4 // waves) * {"gfx950": 256, "gfx942": 304}[i.arch]
    return workgroups * 2 * i.tile_m * i.tile_n * 4


def fits_32_bits(i: Identity, p: ConvProblem) -> bool:
    """Coordinates below 2^28 one tile past the filter, rows and tensors of the sizes that offsets hold, counts too."""
    past = 2 * max(i.tile_n if p.direction == "wgrad" else i.tile_k, 1)
    coordinates = [p.h + 2 * p.pad_h, p.w + 2 * p.pad_w]
    coordinates += [
        (taps + past) * (step if taps > 1 else 1) for taps, step in ((p.y, p.dilation_h), (p.x, p.dilation_w))
    ]
    if p.direction == "fwd":
        return max(coordinates) < 2**28 and 2 * p.k <= 2**23
    tile_m, tile_n = max(i.tile_m, 1), max(i.tile_n, 1)
    if p.direction == "dgrad":
        parts = sub_gemms(p)
        rows = max((part.gemm_m for part in parts), default=0)
        tiles = sum(ceil(part.gemm_m / tile_m) * ceil(p.cpg / tile_n) for part in parts)
        return (
            max(*coordinates, 2 * p.stride_h, 2 * p.stride_w) < 2**28
            and (2 * p.c <= 2**23 and p.x_bytes <= 0x7FFFFFF0)
            and rows + tile_m <= 2**31
            and (len(parts) <= 64 and tiles * max(i.warp_m, 1) * max(i.warp_n, 1) * 64 < 2**32)
        )
    columns, pixels = p.y * p.x * p.cpg, p.n * p.ho * p.wo
    elem = 4 if i.dtype_d == "fp32" else 2
    written = 4 * (p.kpg + tile_m) * columns if i.two_stage else p.w_bytes + elem * tile_m * columns
    k_tiles = p.groups * ceil(p.kpg / tile_m) * ceil(columns / tile_n) * ceil(pixels / max(i.tile_k, 1))
    return (
        max(coordinates) < 2**28
        and (2 * p.k <= 2**22 and written <= 2**31 and pixels + 2 * i.tile_k < 2**31)
        and (not i.stream_k or 2 * k_tiles < 2**31)
    )


def slow_reason(i: Identity, p: ConvProblem, limit: int | None) -> str:
    """The first failing serving rule, "" when the kernel serves."""
    merge, taps, direct = i.group_merge, p.y * p.x, i.algorithm.startswith("direct")
    m, n, k = {
        "fwd": (p.n * p.ho * p.wo, p.kpg, taps * p.cpg),
        "wgrad": (p.kpg, taps * p.cpg, p.n * p.ho * p.wo),
        "dgrad": (p.n * p.h * p.w, p.cpg, taps * p.kpg),
    }[p.direction]
    a_run, c_run = (p.cpg, p.kpg) if p.direction == "fwd" else (p.kpg, p.cpg)
    chunk_run = p.kpg if p.direction == "wgrad" else p.cpg
    split = i.split_k > 1 and not direct
    tile_m, tile_n = max(i.tile_m, 1), max(i.tile_n, 1)

    def divides(width: int, run: int) -> bool:
        return width == 0 or run % width == 0

    def baked(recorded: int, value: int) -> bool:
        return recorded in (0, value)

    grid = {
        "fwd": (ceil(n / tile_n), ceil(m / tile_m), p.groups) if not direct else (1, 1, 1),
        "wgrad": ((ceil(n * merge / tile_n), ceil(m * merge / tile_m), p.groups / merge) if not direct else (1, 1, 1)),
        "dgrad": (1, p.groups, 1) if not direct else (1, 1, 1),
    }[p.direction]
    checks: dict[str, Any] = {
        "S_direction": i.direction in (p.direction, "direct_" + p.direction),
        "S_helper": i.algorithm != "implicit_gemm_reduce",
        "S_no_tile": min(i.tile_m, i.tile_n, i.tile_k, i.warp_m, i.warp_n) > 0,
        "S_dtype": i.dtype_a == i.dtype_b == p.dtype,
        "S_group_merge": merge == 1
        or (
            (p.direction == "wgrad" and p.cpg == p.kpg == 1 and p.groups % merge == 0)
            and (merge <= i.tile_m and taps * merge <= i.tile_n)
        ),
        "S_width_a": divides(i.vector_size_a, a_run),
        "S_width_b": divides(i.vector_size_b, p.cpg),
        "S_width_c": divides(i.vector_size_c, c_run),
        "S_dimensions": not i.is_3d,
        "S_pointwise": not i.is_pointwise or (taps == p.stride_h == p.stride_w == 1 and p.pad_h == p.pad_w == 0),
        "S_grouped": p.groups == 1 or i.grouped or direct,
        "S_atomic_pairs": p.direction != "wgrad"
        or not split
        or i.two_stage
        or (n % 2 == 0 and i.vector_size_c % 2 == 0),
        "S_filter": baked(i.filter_h, p.y) and baked(i.filter_w, p.x),
        "S_stride": baked(i.stride_h, p.stride_h) and baked(i.stride_w, p.stride_w),
        "S_dilation": baked(i.dilation_h, p.dilation_h) and baked(i.dilation_w, p.dilation_w),
        "S_pad": (i.pad_h, i.pad_w) == (p.pad_h, p.pad_w)
        or (not direct and baked(i.pad_h, p.pad_h) and baked(i.pad_w, p.pad_w)),
        "S_channels": baked(i.cpg, p.cpg) and baked(i.kpg, p.kpg),
        "S_async_chunk": not i.async_dma
        or (
            i.async_chunk_a > 0
            and i.async_chunk_b > 0
            and chunk_run % i.async_chunk_a == 0
            and p.cpg % i.async_chunk_b == 0
        ),
        "S_sub_gemms": p.direction != "dgrad" or direct or sub_gemm_count(p) <= (i.max_sub_gemms or 64),
        "S_depthwise_dgrad": not (p.direction == "dgrad" and p.groups > 1 and p.cpg == 1 and not direct),
        "S_reduction": p.direction != "fwd" or direct or k < 2**23,
        "S_split_degree": p.direction != "wgrad"
        or not split
        or (ceil(k / max(i.tile_k, 1)) >= 2 and p.groups / merge * 2 <= 65535),
        "S_workspace": p.direction != "wgrad" or limit is None or workspace_bytes(i, 4 * p.groups * m * n) <= limit,
        "S_grid": m > 0 and n > 0 and max(grid) <= 65535,
        "S_addressing": direct or fits_32_bits(i, p),
    }
    assert tuple(checks) == SERVING_REASONS[1:]
    return next((code for code, holds in checks.items() if not holds), "")


#: Capabilities that the catalogue does not vary, so that the rules for them are tested too.
MUTATIONS: dict[str, tuple[Any, ...]] = {
    "grouped": (False,), "is_3d": (True,), "is_pointwise": (True,), "filter_h": (3,), "filter_w": (1, 3),
    "stride_h": (2,), "stride_w": (1,), "dilation_w": (2,), "pad_h": (1, 2), "pad_w": (1,), "cpg": (8,), "kpg": (1, 16),
    "max_sub_gemms": (0, 1, 4), "split_k": (1, 2, 4), "async_dma": (True,), "async_chunk_a": (0, 2, 6), "tile_m": (16,),
    "async_chunk_b": (2, 8), "vector_size_c": (3, 8), "group_merge": (1, 2, 3), "algorithm": ("direct_grouped",),
    "two_stage": (True, False), "ws_replicas": (8, 16), "dtype_a": ("fp16",), "direction": ("direct_fwd",),
}  # fmt: skip


def plain(direction: str, **extents: int) -> ConvProblem:
    """A 1x1 problem on one pixel, but for the given extents."""
    return ConvProblem(direction, "bf16", **({"n": 1, "c": 8, "h": 1, "w": 1, "k": 8, "y": 1, "x": 1} | extents))


#: Problems on both sides of the limits: reduction 2^23, grid y of a tile of 16, groups in grid y or z, two slices.
AT_LIMITS = (
    *(plain("fwd", c=channels) for channels in (2**23 - 8, 2**23)),
    *(plain("fwd", n=pixels) for pixels in (65535 * 16, 65535 * 16 + 1)),
    *(plain(d, c=8 * g, k=8 * g, groups=g) for d in ("fwd", "dgrad", "wgrad") for g in (65535, 65536)),
    *(plain("wgrad", c=8 * g, k=8 * g, groups=g, n=128) for g in (32767, 32768)),
    *(plain("wgrad", n=pixels) for pixels in (0, 16, 17, 64, 65)),
    *(plain("fwd", pad_h=pad, stride_h=2**28) for pad in (2**27 - 1, 2**27)),
    *(plain("wgrad", h=2**22, y=2, dilation_h=d) for d in (2**22 - 1, 2**20, 2**21)),
    *(plain(d, k=k) for d in ("fwd", "wgrad") for k in (2**21, 2**21 + 8, 2**22, 2**22 + 8)),
    *(plain("dgrad", c=c) for c in (2**22, 2**22 + 8)),
    *(plain("dgrad", n=n, c=1, k=1) for n in (2**30 - 8, 2**30 - 7)),
    *(plain("dgrad", h=2, stride_h=s) for s in (2**27 - 1, 2**27)),
    *(plain("dgrad", h=17, w=17, stride_h=s, stride_w=s, y=9, x=9) for s in (8, 9)),
)


@pytest.fixture(scope="module")
def kernels() -> IdentityTable:
    """A spread of kernels of all directions, most of them as catalogued, some with capabilities changed."""
    rng = random.Random(11)
    catalogued = concat([buildable(arch, ["bf16", "fp16"], limit=200) for arch in ("gfx950", "gfx942")])
    changed = []
    for index in range(len(catalogued)):
        identity = catalogued.row(index)
        for field in rng.sample(sorted(MUTATIONS), rng.randint(1, 2)):
            identity = replace(identity, **{field: rng.choice(MUTATIONS[field])})
        changed.append(identity)
    changed += [replace(catalogued.row(0), tile_k=0), replace(catalogued.row(-1), warp_n=0)]
    return concat([catalogued, IdentityTable.from_identities(changed)])


def test_columns_agree_with_scalars(kernels: IdentityTable) -> None:
    """For random problems, small and huge, every kernel gets the reason of the scalar rules; every reason occurs."""
    rng, seen = random.Random(12), set[str]()
    identities = [kernels.row(index) for index in range(len(kernels))]
    for trial in range(120):
        problem = AT_LIMITS[trial] if trial < len(AT_LIMITS) else random_problem(rng, large=trial % 2 == 1)
        limit = rng.choice((None, 0, 1 << 16, 1 << 24))
        mask, codes = serves(kernels, problem, limit)
        expected = [slow_reason(identity, problem, limit) for identity in identities]
        assert [SERVING_REASONS[code] for code in codes] == expected, problem
        assert (mask == (codes == 0)).all()
        seen |= set(expected)
    assert seen == set(SERVING_REASONS)


def test_constant_columns_change_nothing(kernels: IdentityTable) -> None:
    """A row judged alone, where every column is constant, gets the same reason as in its table."""
    rng = random.Random(13)
    for _ in range(20):
        problem = random_problem(rng)
        _, codes = serves(kernels, problem)
        for index in rng.sample(range(len(kernels)), 20):
            one = kernels.take(np.array([index]))
            doubled = kernels.take(np.array([index, index]))
            assert [serves(one, problem)[1][0], *serves(doubled, problem)[1]] == [codes[index]] * 3


def test_stride1_and_tilde_binaries() -> None:
    """The stride-1 binary is offered at stride 1 and dilation 1 only; the tilde binary at every stride."""
    table = buildable("gfx950", ["bf16"], ["dgrad"], limit=400)
    folded = table.columns["stride_h"] == 1
    shape = {"n": 2, "c": 64, "h": 28, "w": 28, "k": 64, "y": 3, "x": 3, "pad_h": 2, "pad_w": 2}
    for stride, dilation, serves_folded in ((1, 1, True), (2, 1, False), (1, 2, False), (2, 3, False)):
        problem = ConvProblem(
            "dgrad", "bf16", **shape, stride_h=stride, stride_w=stride, dilation_h=dilation, dilation_w=dilation
        )
        mask, _ = serves(table, problem)
        assert mask[~folded].all()
        assert mask[folded].all() == mask[folded].any() == serves_folded


def test_odd_channels_reach_no_atomics() -> None:
    """A 3-channel stem is served by single-element kernels without packed atomics, and by some."""
    table = buildable("gfx950", ["bf16"], ["wgrad"], limit=2000)
    stem = ConvProblem(
        "wgrad", "bf16", n=8, c=3, h=224, w=224, k=64, y=7, x=7, stride_h=2, stride_w=2, pad_h=3, pad_w=3
    )
    mask, _ = serves(table, stem)
    served = table.take(mask).columns
    assert mask.any()
    assert not ((served["split_k"] > 1) & ~served["two_stage"]).any()
    assert set(served["vector_size_b"]) == {1}


def test_empty_table() -> None:
    """No kernels, no answers, no error."""
    mask, codes = serves(IdentityTable.from_identities([]), random_problem(random.Random(14)))
    assert len(mask) == len(codes) == 0
