"""The error model of plans: near what sums really do, never below the worst case, and what is chosen by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aot.runtime.accuracy import (
    BY_DEFAULT,
    ONE_ROUNDING,
    AccuracyError,
    Demand,
    accuracy_of,
    most_slices,
)
from aot.runtime.choose import choose, forecast
from aot.runtime.float16 import Reals, format_of, narrow, widen
from aot.runtime.plan import make_plan
from aot.runtime.plan_data import Plan
from aot.runtime.plan_options import AUTOMATIC_DEGREE, PlanOptions
from cache_schema.digest import table_digests
from cache_schema.errors import RequestError
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.catalogue import buildable
from grids.serving import serves
from tests.aot.kernels.wgrad_machine import run, wgrad
from tests.aot.runtime.test_wgrad_plan import unbuilt

ATOMIC = wgrad(split_k=2, epilogue="cshuffle", vector_size_c=4)
TWO_STAGE = wgrad(split_k=2, two_stage=True, ws_replicas=8)
STREAM_K, PLAIN = wgrad(stream_k=True), wgrad()
#: Gradients of ones over ones, each result the number of pixels: 32,768 and 36,864, which bf16 holds.
LONG = (
    ConvProblem("wgrad", "bf16", n=2, c=16, h=128, w=128, k=16, y=1, x=1),
    ConvProblem("wgrad", "bf16", n=4, c=24, h=96, w=96, k=16, y=1, x=1),
)


def added_in_16_bits(slices: Reals, dtype: str) -> Reals:
    """Sums along the first axis, each addend and each sum rounded."""
    total = np.zeros(slices.shape[1:])
    for addend in slices:
        total = widen(narrow(total + widen(narrow(addend, dtype), dtype), dtype), dtype)
    return total


def rms_ulps(error: Reals, exact: Reals, dtype: str) -> float:
    """Root mean square of errors in units of the last place of the exact values."""
    _, exponent = np.frexp(exact)
    ulp = np.ldexp(1.0, exponent - 1 - format_of(dtype).fraction_bits)
    return float(np.sqrt(np.mean((error / ulp) ** 2)))


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7, 16, 50])
def test_the_model_is_near_what_sums_do(dtype: str, degree: int) -> None:
    """Equal and nearly equal slices that end in the upper half of a binade, and slices of random sign, on average."""
    generator = np.random.default_rng(7)
    modelled = accuracy_of(dtype, terms=1, rounded_sums=degree)
    total = generator.uniform(1.5, 2, 4000)
    measured = 0.0
    for spread in (0, 2.0**-8):
        share = 1 + spread * generator.uniform(-1, 1, (degree, 4000))
        alike = total * share / share.sum(axis=0)
        measured = max(measured, rms_ulps(added_in_16_bits(alike, dtype) - total, total, dtype))
    assert measured / 1.2 < modelled.expected_ulps < 2 * measured
    mixed = generator.normal(size=(degree, 4000))
    exact = mixed.sum(axis=0)
    kept = (np.abs(exact) > degree**0.5 / 2) & (np.abs(exact) < 2 * degree**0.5)
    error = (added_in_16_bits(mixed, dtype) - exact)[kept]
    measured = rms_ulps(error, exact[kept], dtype)
    assert measured / 2 < modelled.random_ulps < 2 * measured
    assert modelled.random_ulps <= modelled.expected_ulps <= modelled.worst_ulps


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("degree", [2, 3, 9, 64, 512])
def test_no_sum_is_worse_than_the_worst_case(dtype: str, degree: int) -> None:
    """Ones, equal slices that round alike, steep slices; the errors count in ulps of what was added up."""
    generator = np.random.default_rng(8)
    worst = accuracy_of(dtype, terms=1, rounded_sums=degree).worst_ulps
    half = 2.0 ** -(format_of(dtype).fraction_bits + 1)
    for slices in (
        np.ones((degree, 9)) * 64,
        np.broadcast_to(generator.uniform(1, 2, 500), (degree, 500)),
        np.concatenate([np.ones((1, 9)), np.full((degree - 1, 9), half * 1.01)]),
        generator.uniform(-1, 1, (degree, 500)) * 2.0 ** generator.integers(-6, 6, (degree, 500)),
    ):
        exact, magnitude = slices.sum(axis=0), np.abs(slices).sum(axis=0)
        error = np.abs(added_in_16_bits(slices, dtype) - exact)
        assert rms_ulps(error.max() * np.ones(1), magnitude[error.argmax()] * np.ones(1), dtype) <= worst


def test_stagnation_is_expected() -> None:
    """512 equal slices in bf16, where the sum stops at half its value: 64 ulps off, and the model expects that much."""
    exact = np.array([32768.0])
    assert added_in_16_bits(np.full((512, 1), 64.0), "bf16") == 16384
    assert 64 <= accuracy_of("bf16", terms=64, rounded_sums=512).expected_ulps < 2 * 64
    assert rms_ulps(np.array([16384.0]), exact, "bf16") == 64


def test_f32_sums_hardly_count() -> None:
    """A long f32 sum and many f32 partial sums are one rounding to 16 bits, until f32 stagnates too."""
    for dtype in ("bf16", "fp16"):
        assert accuracy_of(dtype, terms=1 << 22).expected_ulps < 1.05 * ONE_ROUNDING
        assert accuracy_of(dtype, terms=1 << 12, partial_sums=1024).expected_ulps < 1.01 * ONE_ROUNDING
        assert accuracy_of(dtype, terms=1 << 26).expected_ulps > 10


def test_the_degree_by_default_is_the_largest_within_two_roundings() -> None:
    """Two slices, which commute; more where more is allowed, all of them where nobody minds."""
    for limit in (0.3, 2 * ONE_ROUNDING, 1.0, 10.0):
        most = most_slices(limit)
        assert accuracy_of("bf16", terms=1, rounded_sums=most).expected_ulps <= limit
        assert accuracy_of("bf16", terms=1, rounded_sums=most + 1).expected_ulps > limit
    assert BY_DEFAULT.atomic_slices == 2
    assert Demand(deterministic=True, fast=True).atomic_slices == 2
    assert Demand(max_error=10).atomic_slices == most_slices(10) > 50
    assert Demand(fast=True).atomic_slices > 10000


def default_plan(problem: ConvProblem, *identities: Identity, demand: Demand = BY_DEFAULT) -> tuple[Identity, Plan]:
    """The first choice among these, and its plan."""
    table = IdentityTable.from_identities(identities)
    chosen = identities[int(choose(table, table_digests(table), problem, "gfx950", demand).rows[0])]
    return chosen, make_plan(unbuilt(chosen), problem, PlanOptions(helper=unbuilt, demand=demand))


@pytest.mark.parametrize("problem", LONG)
def test_long_gradients_of_ones_are_right(problem: ConvProblem) -> None:
    """By default every choice gives the exact count of pixels, on the emulator, whatever families a cache has."""
    for choice in ((ATOMIC,), (ATOMIC, PLAIN), (ATOMIC, TWO_STAGE), (ATOMIC, STREAM_K), (ATOMIC, TWO_STAGE, STREAM_K)):
        chosen, plan = default_plan(problem, *choice)
        assert plan.accuracy.expected_ulps < 2 * ONE_ROUNDING
        outcome = run(chosen, problem, inputs="ones")
        assert outcome.right
        assert set(widen(outcome.output, "bf16").flat) == {float(problem.n * problem.h * problem.w)}


def test_what_stagnates_is_wrong() -> None:
    """Told to add 512 slices, the atomic kernel is off by half, its plan says so and its judge calls it wrong."""
    outcome = run(ATOMIC, LONG[0], inputs="ones", split_k=512)
    assert set(widen(outcome.output, "bf16").flat) == {16384.0}
    assert outcome.plan.accuracy.expected_ulps >= 64
    assert not outcome.verdict.right


def test_demands_decide() -> None:
    """Fast takes the atomics with all slices, deterministic what gives equal bits, a limit what it admits."""
    problem = LONG[0]
    chosen, plan = default_plan(problem, ATOMIC, PLAIN, demand=Demand(fast=True))
    assert chosen == ATOMIC
    assert plan.rounded_sums > 100
    chosen, plan = default_plan(problem, ATOMIC, PLAIN, demand=Demand(max_error=10))
    assert 50 < plan.rounded_sums <= most_slices(10)
    for kernel in (ATOMIC, TWO_STAGE, STREAM_K):
        chosen, plan = default_plan(problem, kernel, demand=Demand(deterministic=True))
        assert plan.deterministic
    assert default_plan(problem, TWO_STAGE, demand=Demand(deterministic=True))[1].launches[0].grid[2] == 16


def test_a_cache_of_atomics_says_what_its_error_is() -> None:
    """Two slices are near enough to the best there is."""
    _, plan = default_plan(LONG[0], ATOMIC)
    assert plan.rounded_sums == 2
    assert plan.to_json()["accuracy"] == {"random_ulps": 0.408, "expected_ulps": 0.408, "worst_ulps": 2.25}


def test_kernels_that_are_twice_as_wrong_come_last() -> None:
    """Sixteen slices by 16-bit atomics, estimated quicker, lose against a kernel that rounds once, and only then."""
    at = ConvProblem("wgrad", "bf16", n=64, c=16, h=64, w=64, k=16, y=1, x=1)
    quick, slow = ATOMIC, wgrad(vector_size_a=1, vector_size_b=1)
    table = IdentityTable.from_identities([quick, slow])
    digests = table_digests(table)
    told = forecast(table, at, "gfx950", Demand(fast=True), 16)
    assert told.clk[0] < told.clk[1]
    strict = Demand(max_error=1.0)
    choice = choose(table, digests, at, "gfx950", strict, AUTOMATIC_DEGREE)
    assert choice.admitted.all()
    many = forecast(table, at, "gfx950", strict, 16)
    assert strict.admits(many.expected_ulps, many.deterministic).tolist() == [False, True]
    assert choose(table, digests, at, "gfx950", Demand(fast=True)).rows.tolist() == [0, 1]


@pytest.mark.parametrize("demand", [BY_DEFAULT, Demand(deterministic=True), Demand(max_error=3)])
def test_forecasts_are_kept_by_plans(demand: Demand) -> None:
    """What a listing says of a kernel is what its plan says, all over the catalogue."""
    table = buildable("gfx950", ["bf16"], ["wgrad"], limit=120)
    compared = 0
    for problem in (*LONG, ConvProblem("wgrad", "bf16", n=8, c=64, h=56, w=56, k=64, y=3, x=3, pad_h=1, pad_w=1)):
        served = table.take(np.flatnonzero(serves(table, problem)[0]))
        told = forecast(served, problem, "gfx950", demand, AUTOMATIC_DEGREE)
        for row in range(len(served)):
            identity: Any = served.row(row)
            plan = make_plan(unbuilt(identity), problem, PlanOptions(helper=unbuilt, demand=demand))
            assert plan.accuracy.expected_ulps == pytest.approx(told.expected_ulps[row], rel=0.01)
            if demand.deterministic or not identity.two_stage:
                assert plan.deterministic == told.deterministic[row]
            compared += 1
    assert compared > 100


def test_contradictions_are_refused() -> None:
    """Fast with a limit, a limit below one rounding, a limit that is no number."""
    for bad in ({"fast": True, "max_error": 1.0}, {"max_error": 0.1}, {"max_error": float("nan")}):
        with pytest.raises(RequestError):
            Demand(**bad)  # type: ignore[arg-type]
    with pytest.raises(AccuracyError, match="ulps"):
        Demand(max_error=1.0).require(2.0, True)
    with pytest.raises(AccuracyError, match="equal bits"):
        Demand(deterministic=True).require(0.3, False)
    Demand(fast=True).require(100.0, False)
