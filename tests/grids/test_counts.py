"""The sizes of the catalogue, as published or as recounted from the published rules."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from grids.families import families
from grids.rules import evaluate
from tests.grids.kernels import candidates, candidates_of

#: Families that the published catalogue does not have.
OWN_FAMILIES = ("stream_k", "reduce", "fix_up")
ARCHES = ("gfx950", "gfx942")
DTYPES = ("bf16", "fp16")

# (arch, family) -> published candidates, admitted under the published rules, buildable
SIZES = {
    ("gfx950", "implicit_gemm"): (192096, 86800, 78456),
    ("gfx942", "implicit_gemm"): (247104, 93340, 77270),
    ("gfx950", "tilde"): (85376, 56064, 56064),
    ("gfx942", "tilde"): (109824, 65208, 64920),
    ("gfx950", "stride1"): (85376, 56064, 56064),
    ("gfx942", "stride1"): (109824, 65208, 64920),
    ("gfx950", "nonsplit"): (64032, 57600, 57600),
    ("gfx942", "nonsplit"): (82368, 63264, 63264 - 768),
    ("gfx950", "atomic"): (64032, 20880, 20880),
    ("gfx942", "atomic"): (82368, 19548, 19548 - 288),
    ("gfx950", "two_stage"): (64032, 29760, 29760),
    ("gfx942", "two_stage"): (82368, 37200, 37200 - 384),
    ("gfx950", "reduce"): (1, 1, 1),
    ("gfx942", "reduce"): (1, 1, 1),
    ("gfx950", "fix_up"): (1, 1, 1),
    ("gfx942", "fix_up"): (1, 1, 1),
    ("gfx950", "merged"): (24012, 4950, 4950),
    ("gfx942", "merged"): (30888, 6006, 6006 - 48),
}
#: Of forward and backward data the published catalogue lists one pipeline more, for waves of 32 lanes, which no rule
#: admits on these GPUs. Per geometry: K loops beside the direct-to-LDS one, epilogues, widths of loads and of stores
#: (forward) or of A and B loads (backward data).
WAVELET_AXES = {"implicit_gemm": (2, 2, 4, 4), "tilde": (1, 2, 4, 4), "stride1": (1, 2, 4, 4)}
ATOM_DEPTH = {"gfx950": {16: 32, 32: 16}, "gfx942": {16: 16, 32: 8}}


def geometries(arch: str) -> int:
    """Tiles of whole atoms with at most 256 accumulators per lane, counted one at a time."""
    tiles, depths, waves = (16, 32, 64, 128, 256), (16, 32, 64), (1, 2, 4, 8)
    found = 0
    for m, n, k, warp_m, warp_n, edge in product(tiles, tiles, depths, waves, waves, (16, 32)):
        whole = m % (warp_m * edge) == n % (warp_n * edge) == k % ATOM_DEPTH[arch][edge] == 0
        found += whole and m * n <= 256 * 64 * warp_m * warp_n
    return found


def wavelet_rows(arch: str, family: str) -> int:
    """Published candidates that are not enumerated here."""
    return geometries(arch) * prod(WAVELET_AXES[family]) if family in WAVELET_AXES else 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("arch", "family"), SIZES)
def test_family_sizes(arch: str, family: str, dtype: str) -> None:
    """Candidates, admitted and buildable of every family are the published and recounted numbers, for both dtypes."""
    table = candidates(arch, dtype, family)
    verdicts = evaluate(table)
    published = len(table) + wavelet_rows(arch, family)
    assert (published, verdicts.admitted.sum(), verdicts.buildable.sum()) == SIZES[arch, family]


def test_every_family_is_counted() -> None:
    """Only stream-K has no number of its own: it is neither published nor a single kernel."""
    assert {family for _, family in SIZES} == set(families()) - {"stream_k"}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(("direction", "totals"), [("dgrad", (112128, 130416)), ("wgrad", (113190, 126018))])
def test_direction_totals(arch: str, direction: str, totals: tuple[int, int]) -> None:
    """A direction's admitted total over all published families is the published one."""
    table = candidates_of(arch, "bf16", direction)
    published = ~table.of_families(OWN_FAMILIES)
    assert (evaluate(table).admitted & published).sum() == totals[ARCHES.index(arch)]


@pytest.mark.parametrize(("arch", "after_loads"), [("gfx950", 78940), ("gfx942", 77854)])
def test_forward_chain(arch: str, after_loads: int) -> None:
    """The forward count after load widths and async chunk alone, before the store rule, is the recounted one."""
    verdicts = evaluate(candidates(arch, "bf16", "implicit_gemm"))
    others = [verdicts.reasons.index(code) for code in ("F14_store", "F15_accumulators")]
    passed = verdicts.admitted & (
        (verdicts.builder == 0) | (verdicts.builder == others[0]) | (verdicts.builder == others[1])
    )
    assert passed.sum() == after_loads


@pytest.mark.parametrize(
    ("arch", "published", "loaded"),
    [
        (
            "gfx950",
            {"plain": (7440, 29760), "unroll_k": (7440, 29760), "async_dma": (2480, 9920)},
            {"plain": (6678, 26712), "unroll_k": (6678, 26712), "async_dma": (2432, 9728)},
        ),
        (
            "gfx942",
            {"plain": (9300, 35280), "unroll_k": (7428, 28752), "async_dma": (2644, 9936)},
            {"plain": (7794, 29328), "unroll_k": (5988, 23064), "async_dma": (2464, 9216)},
        ),
    ],
)
def test_forward_by_loop_and_epilogue(
    arch: str, published: dict[str, tuple[int, int]], loaded: dict[str, tuple[int, int]]
) -> None:
    """Forward by K loop and epilogue (default, cshuffle) is as recounted, before and after F11 to F13."""
    table = candidates(arch, "bf16", "implicit_gemm")
    verdicts = evaluate(table)
    unroll, is_async = table.columns["unroll_k"], table.columns["async_dma"]
    loops = {"plain": ~unroll & ~is_async, "unroll_k": unroll, "async_dma": is_async}
    store = verdicts.builder == verdicts.reasons.index("F14_store")
    for level, expected in (
        (verdicts.admitted, published),
        (verdicts.admitted & ((verdicts.builder == 0) | store), loaded),
    ):
        counts = {
            loop: tuple(int((mask & level & table.equals("epilogue", e)).sum()) for e in ("default", "cshuffle"))
            for loop, mask in loops.items()
        }
        assert counts == expected


@pytest.mark.parametrize(("arch", "counts"), [("gfx950", (1776, 1518, 1098, 558)), ("gfx942", (2199, 1857, 1317, 633))])
def test_merge_degrees(arch: str, counts: tuple[int, ...]) -> None:
    """Merged wgrad by degree 2, 4, 8, 16 is as recounted, and degrees 32 and 64 never fit the probe's filter."""
    table = candidates(arch, "bf16", "merged")
    admitted = table.take(evaluate(table).admitted).columns["group_merge"]
    assert tuple((admitted == degree).sum() for degree in (2, 4, 8, 16, 32, 64)) == (*counts, 0, 0)


@pytest.mark.parametrize(("arch", "per_epilogue"), [("gfx950", (9344, 9344)), ("gfx942", (11176, 10560))])
def test_dgrad_by_pipeline_and_epilogue(arch: str, per_epilogue: tuple[int, int]) -> None:
    """Each dgrad pipeline holds the recounted number of admitted kernels per epilogue."""
    table = candidates(arch, "bf16", "tilde")
    admitted = evaluate(table).admitted
    for pipeline in ("mem", "compv3", "compv4"):
        for epilogue, count in zip(("default", "cshuffle"), per_epilogue, strict=True):
            assert (admitted & table.equals("pipeline", pipeline) & table.equals("epilogue", epilogue)).sum() == count


@pytest.mark.parametrize(("arch", "without"), [("gfx950", 59520), ("gfx942", 72480)])
def test_dgrad_without_the_load_rule(arch: str, without: int) -> None:
    """Control: leaving D9 out gives the recounted wrong total, so D9 is what makes the published one."""
    verdicts = evaluate(candidates(arch, "bf16", "tilde"))
    others = (verdicts.published == 0) | (verdicts.published == verdicts.reasons.index("D9_load_a"))
    assert others.sum() == without
