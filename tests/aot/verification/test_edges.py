"""The edge problems of a kernel are served by it and reach what they promise, all over the forward catalogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aot.runtime.bounds import judge, tolerance
from aot.runtime.float16 import narrow
from aot.runtime.plan import make_plan
from aot.runtime.plan_options import PlanOptions
from aot.verification.edges import edge_cases
from aot.verification.edges_forward import channel_step, filter_step
from aot.verification.edges_wgrad import wgrad_filter_step
from aot.verification.run_case import operands
from cache_schema.errors import UnknownValueError
from cache_schema.table import IdentityTable
from grids.catalogue import buildable
from grids.families import family_of
from grids.geometry import gemm_extents
from grids.selection import spread
from grids.serving import serves, serving_reasons
from grids.tilde import must_zero_dx, sub_gemms
from tests.aot.runtime.test_wgrad_plan import unbuilt
from tests.aot.samples import forward
from tests.cache_schema.records import Alpha


def sample(arch: str, direction: str = "fwd") -> list[Any]:
    """Identities spread over all axes of the grid of one direction."""
    table = buildable(arch, ["bf16"], [direction], None, None, 300)
    return [table.row(index) for index in range(len(table))]


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_every_case_is_served(arch: str, direction: str) -> None:
    """No case is a problem that the kernel must refuse; all names differ."""
    identities = sample(arch, direction)
    assert len(identities) >= 200
    for identity in identities[::2]:
        cases = edge_cases(identity)
        assert len({case.name for case in cases}) == len(cases) >= (4 if family_of(identity).is_step else 7)
        if family_of(identity).is_step:  # it serves no problem: its cases are extents of dW
            continue
        for case in cases:
            _, codes = serves(IdentityTable.from_identities([identity]), case.problem)
            assert serving_reasons()[int(codes[0])] == "", (identity, case)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_cases_reach_the_edges(arch: str) -> None:
    """Partial tiles in every axis, odd and even K tile counts, both K loops, and the smallest problem there is."""
    for identity in sample(arch):
        cases = {case.name: case.problem for case in edge_cases(identity)}
        ragged = gemm_extents(cases["ragged"])
        assert ragged.m % identity.tile_m
        assert ragged.m > identity.tile_m
        assert ragged.n > identity.tile_n
        assert ragged.n % identity.tile_n or identity.tile_n % filter_step(identity)
        assert ragged.k > 2 * identity.tile_k
        assert ragged.k % identity.tile_k
        lean, even = cases["uniform"], cases["even"]
        assert lean.cpg % identity.tile_k == even.cpg % identity.tile_k == 0
        assert gemm_extents(lean).k // identity.tile_k % 2 == (lean.cpg // identity.tile_k) % 2
        assert gemm_extents(even).k // identity.tile_k % 2 == 0
        assert gemm_extents(even).m < identity.tile_m
        assert cases["taps"].y * cases["taps"].x > 32
        assert cases["grouped"].groups == 3
        smallest = cases["smallest"]
        assert (smallest.c, smallest.k) == (channel_step(identity), filter_step(identity))
        assert max(problem.flops for problem in cases.values()) < 2**31


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_cases_of_backward_data_reach_its_edges(arch: str) -> None:
    """Partial tiles in every axis; at any stride several sub-GEMMs, lattices without a tap and pixels nobody writes."""
    kinds = set()
    for identity in sample(arch, "dgrad"):
        cases = {case.name: case.problem for case in edge_cases(identity)}
        ragged = gemm_extents(cases["ragged"])
        assert ragged.m % identity.tile_m
        assert ragged.m > identity.tile_m
        assert ragged.n > identity.tile_n
        assert ragged.k > 2 * identity.tile_k
        assert ragged.k % identity.tile_k
        assert cases["uniform"].kpg % identity.tile_k == 0
        assert cases["taps"].y * cases["taps"].x > 32
        kinds.add(identity.folded)
        if identity.folded:
            assert {(p.stride_h, p.stride_w, p.dilation_h) for n, p in cases.items() if n != "grouped"} == {(1, 1, 1)}
            assert not any(must_zero_dx(problem) for problem in cases.values())
        else:
            assert len(sub_gemms(cases["strided"])) == 4
            assert must_zero_dx(cases["holes"])
            assert must_zero_dx(cases["dilated"])
            assert not must_zero_dx(cases["strided"])
    assert kinds == {False, True}


def test_specials_are_planted_and_one_case_repeats() -> None:
    """NaN and infinity runs exist, integers are among the inputs, and one case is run twice for equal bits."""
    cases = edge_cases(forward())
    assert {"nan", "inf", "ints", "uniform"} <= {case.inputs for case in cases}
    assert sum(case.repeat for case in cases) == 1


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_cases_of_backward_weights_reach_its_edges(arch: str) -> None:
    """Partial tiles in every axis; slices of one tile and of none; whole and several merges."""
    kinds = set()
    for identity in sample(arch, "wgrad"):
        if family_of(identity).is_step:
            continue
        found = {case.name: case for case in edge_cases(identity)}
        cases = {name: case.problem for name, case in found.items()}
        ragged = gemm_extents(cases["ragged"])
        assert ragged.k > 2 * identity.tile_k
        assert ragged.k % identity.tile_k
        kinds.add((identity.split_k, identity.two_stage, identity.group_merge > 1))
        if identity.group_merge > 1:
            assert cases["all-merged"].groups == identity.group_merge
            assert cases["ragged"].groups == 3 * identity.group_merge
        else:
            assert ragged.m > identity.tile_m
            assert ragged.m % identity.tile_m or identity.tile_m % wgrad_filter_step(identity)
            assert ragged.n > identity.tile_n
            assert ragged.n % identity.tile_n
            assert gemm_extents(cases["strided"]).k == 2 * identity.tile_k
            assert cases["pointwise"].groups == 3
            assert ("multiplier" in cases) == (cases["smallest"].c == 1)
        if identity.split_k > 1:
            tiles = -(-gemm_extents(cases["slice-per-tile"]).k // identity.tile_k)
            assert found["slice-per-tile"].degree == tiles > 2
            assert found["empty-slices"].degree > tiles
            assert found["one-slice"].degree == 1
            assert gemm_extents(cases["many-slices"]).k > found["many-slices"].degree * identity.tile_k
    assert kinds == {(1, False, False), (2, False, False), (2, True, False), (2, True, True)}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_half_and_twice_the_result_are_wrong(arch: str) -> None:
    """No edge case of a kernel that adds 16-bit sums has a bound that lets them through, be it at many slices."""
    table = buildable(arch, ["bf16"], ["wgrad"])
    chosen = spread(table.take(table.of_families(["atomic"])), 6)
    summed = set()
    for identity in (chosen.row(number) for number in range(len(chosen))):
        for case in edge_cases(identity):
            plan = make_plan(unbuilt(identity), case.problem, PlanOptions(case.degree))
            _, _, exact = operands(case.problem, case.inputs, 1, 8)
            allowed = tolerance(exact, "bf16", plan.partial_sums, plan.rounded_sums)
            assert allowed.meaningful
            for factor in (0.5, 2.0):
                verdict = judge(narrow(factor * exact.value, "bf16"), allowed)
                nonzero = int((np.isfinite(exact.value) & (exact.value != 0)).sum())
                assert 2 * verdict.wrong > nonzero, (case, factor, verdict)
            summed.add(plan.rounded_sums)
    assert {1, 2} < summed


def test_families_without_problems_are_refused() -> None:
    """Silence would count as proof."""
    with pytest.raises(UnknownValueError, match="alpha"):
        edge_cases(Alpha("gfx950", "bf16", "bf16", "bf16"))
