"""Split-K degrees: the published formula, the limits, and what a launch relies on."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from cache_schema.problem import ConvProblem
from grids import split_k
from grids.families.atomic import Atomic
from grids.families.merged import Merged
from grids.families.nonsplit import Nonsplit
from grids.families.stream_k import StreamK
from grids.families.two_stage import TwoStage
from grids.geometry import gemm_extents
from grids.targets import target
from tests.grids.problems import random_problem

#: Of kernels that are split, stored directly, and merge eight groups.
TILES: dict[str, Any] = {
    "arch": "gfx950", "dtype_a": "bf16", "dtype_b": "bf16", "dtype_d": "bf16", "tile_m": 64, "tile_n": 64,
    "tile_k": 32, "warp_m": 2, "warp_n": 2, "warp_tile_m": 32, "warp_tile_n": 32, "warp_tile_k": 16,
}  # fmt: skip
KERNEL, DIRECT = Atomic(**TILES), Nonsplit(**TILES)
MERGED = Merged(**(TILES | {"tile_m": 16, "tile_n": 128}), group_merge=8)


def wgrad(**fields: int) -> ConvProblem:
    shape = {"n": 32, "c": 64, "h": 56, "w": 56, "k": 64, "y": 3, "x": 3, "pad_h": 1, "pad_w": 1} | fields
    return ConvProblem("wgrad", "bf16", **shape)


def test_listed_degrees() -> None:
    """Degrees stop where a slice would have no K tile and where groups times degree leaves grid z."""
    assert split_k.usable_degrees(gemm_k=32 * 128, tile_k=32, groups=1) == (128, 64, 32, 16, 8, 4, 2)
    assert split_k.usable_degrees(gemm_k=32 * 127, tile_k=32, groups=1) == (64, 32, 16, 8, 4, 2)
    assert split_k.usable_degrees(gemm_k=33, tile_k=32, groups=1) == (2,)
    assert split_k.usable_degrees(gemm_k=32, tile_k=32, groups=1) == ()
    assert split_k.usable_degrees(gemm_k=1 << 20, tile_k=32, groups=4096) == (8, 4, 2)[-3:]
    assert split_k.usable_degrees(gemm_k=1 << 20, tile_k=32, groups=40000) == ()


@pytest.mark.parametrize(
    ("arch", "shape", "degree"),
    [
        # Ungrouped: floor(2 * CUs / tiles), at least 1, at most K.
        ("gfx950", {"base_tiles": 9, "gemm_k": 100352, "groups": 1, "threads": 256}, 56),
        ("gfx942", {"base_tiles": 9, "gemm_k": 100352, "groups": 1, "threads": 256}, 67),
        ("gfx950", {"base_tiles": 600, "gemm_k": 100352, "groups": 1, "threads": 256}, 1),
        ("gfx950", {"base_tiles": 1, "gemm_k": 49, "groups": 1, "threads": 256}, 49),
        # Grouped: 4 blocks of 4 waves per CU; 1024 / (3 * 4) = 85, down to a multiple of 8 / gcd(3, 8) = 8.
        ("gfx950", {"base_tiles": 3, "gemm_k": 100352, "groups": 4, "threads": 256}, 80),
        # 304 * 4 / (2 * 100) = 6, multiple of 8 / gcd(2, 8) = 4.
        ("gfx942", {"base_tiles": 2, "gemm_k": 100352, "groups": 100, "threads": 256}, 4),
        # Below one step it goes up to the step ...
        ("gfx950", {"base_tiles": 1, "gemm_k": 100352, "groups": 1024, "threads": 256}, 8),
        # ... unless that leaves grid z or K.
        ("gfx950", {"base_tiles": 1, "gemm_k": 100352, "groups": 16384, "threads": 256}, 1),
        ("gfx950", {"base_tiles": 1, "gemm_k": 5, "groups": 512, "threads": 256}, 2),
        # A tile count that is a multiple of the XCDs needs no step.
        ("gfx950", {"base_tiles": 8, "gemm_k": 100352, "groups": 2, "threads": 64}, 256),
    ],
)
def test_published_formula(arch: str, shape: dict[str, int], degree: int) -> None:
    """Values of the published formula worked out by hand."""
    assert split_k.formula_degree(**shape, target=target(arch)) == degree


def test_degrees_are_launchable() -> None:
    """Whatever the problem, every offered degree fits grid z, covers K with whole tiles, and leaves no slice empty
    once chosen automatically."""
    rng, seen = random.Random(9), 0
    while seen < 400:
        problem = random_problem(rng, large=True)
        extents = gemm_extents(problem)
        if problem.direction != "wgrad" or not extents.k or problem.groups > 32000:
            continue
        seen += 1
        kernel = replace(KERNEL, tile_k=rng.choice((16, 32, 64)), warp_m=rng.choice((1, 2, 4)))
        degrees = split_k.wgrad_degrees(kernel, problem, target("gfx942"))
        automatic = split_k.automatic_degree(kernel, problem, target("gfx942"))
        assert list(degrees) == sorted(set(degrees), reverse=True)
        for degree in (*degrees, automatic):
            assert problem.groups * degree <= 65535
            assert degree <= max(1, ceil(extents.k / kernel.tile_k))
            extent = split_k.slice_extent(gemm_k=extents.k, tile_k=kernel.tile_k, degree=degree)
            assert extent % kernel.tile_k == 0
            assert extent * degree >= extents.k
        extent = split_k.slice_extent(gemm_k=extents.k, tile_k=kernel.tile_k, degree=automatic)
        assert (automatic - 1) * extent < extents.k
        assert bool(degrees) == (automatic > 1)


def test_non_split_kernels_have_degree_one() -> None:
    """A kernel that stores directly is launched in one slice and no other way."""
    for kernel in (DIRECT, StreamK(**TILES)):
        assert split_k.wgrad_degrees(kernel, wgrad(), target("gfx950")) == (1,)
        assert split_k.automatic_degree(kernel, wgrad(), target("gfx950")) == 1


def test_two_stage_kernels_split_like_atomic_ones() -> None:
    """Where the slices are added changes nothing about their number."""
    for problem in (wgrad(), wgrad(n=1, h=14, w=14), wgrad(c=512, k=512, groups=8)):
        for choose in (split_k.wgrad_degrees, split_k.automatic_degree):
            assert choose(TwoStage(**TILES), problem, target("gfx942")) == choose(KERNEL, problem, target("gfx942"))


def test_long_reductions_get_more_slices() -> None:
    """Where dW is a single tile and K is long, one-wave workgroups are offered the degrees that fill the GPU."""
    problem = wgrad(n=256, c=8, k=8, h=112, w=112)
    small = replace(KERNEL, tile_m=16, tile_n=128, warp_m=1, warp_n=1)
    degrees = split_k.wgrad_degrees(small, problem, target("gfx950"))
    assert degrees[:5] == (4096, 2048, 1024, 512, 256)
    assert split_k.automatic_degree(small, problem, target("gfx950")) > 4000
    short = wgrad(n=1, c=8, k=8, h=28, w=28)
    assert split_k.wgrad_degrees(small, short, target("gfx950"))[0] == 16
    big = replace(KERNEL, tile_m=256, tile_n=256, warp_m=4, warp_n=4)
    assert split_k.wgrad_degrees(big, wgrad(c=512, k=512), target("gfx950"))[0] == 128


def test_merged_groups_count_once() -> None:
    """A merged kernel has fewer, larger groups: its degree is that of the merged problem."""
    problem = wgrad(c=64, k=64, groups=64)
    # 8 merged groups of one tile each: 1024 blocks / 8 = 128. Of its 3136 K tiles a slice takes 25, so 126 have work.
    assert split_k.automatic_degree(MERGED, problem, target("gfx950")) == 126


def test_workspace_is_exact_beyond_32_bits() -> None:
    """f32, 8 replicas, every group: 4 * G * R * kpg * Y * X * cpg bytes, also when that exceeds 2^32."""
    assert split_k.two_stage_workspace_bytes(wgrad(groups=2), 8) == 4 * 2 * 8 * 32 * 9 * 32
    huge = wgrad(n=1, h=7, w=7, c=4096, k=8192)
    assert split_k.two_stage_workspace_bytes(huge, 8) == 32 * 8192 * 9 * 4096 > 2**33
