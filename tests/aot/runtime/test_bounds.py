"""The derived bound holds for f32 sums in any order, catches one lost term, and is exact for integers."""

from __future__ import annotations

import numpy as np
import pytest

from aot.runtime.bounds import accumulation_error, compare
from aot.runtime.float16 import Bits, narrow, quiet_nan, widen
from aot.runtime.inputs import make_inputs
from aot.runtime.reference import reference
from cache_schema.problem import ConvProblem


def dot_problem(terms: int, dtype: str, k: int = 64) -> ConvProblem:
    """A 1x1 convolution over one pixel row: every result is a plain dot product."""
    return ConvProblem("fwd", dtype, n=1, c=terms, h=1, w=16, k=k, y=1, x=1)


def in_f32(a: Bits, b: Bits, dtype: str, order: np.ndarray[tuple[int], np.dtype[np.int64]], parts: int) -> Bits:
    """The dot products of pixels and filters in f32, one addition after the other, in `parts` partial sums."""
    left = widen(a, dtype).astype(np.float32).reshape(16, -1)[:, order]
    right = widen(b, dtype).astype(np.float32).reshape(b.shape[0], -1)[:, order]
    total = np.zeros((16, b.shape[0]), np.float32)
    for piece in np.array_split(np.arange(order.size), parts):
        partial = np.zeros_like(total)
        for term in piece:
            partial += left[:, term, None] * right[None, :, term]
        total += partial
    return narrow(total, dtype).reshape(1, 1, 16, b.shape[0])


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("kind", ["uniform", "ints", "cancel", "onehot", "overflow", "subnormal"])
@pytest.mark.parametrize("parts", [1, 5])
def test_f32_sums_in_any_order_pass(dtype: str, kind: str, parts: int) -> None:
    """Random orders and splits of an f32 sum are right for every kind of inputs."""
    problem = dot_problem(150, dtype)
    a, b = make_inputs(problem, kind, 23)
    exact = reference(problem, a, b)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(150)
        verdict = compare(in_f32(a, b, dtype, order, parts), exact, dtype, parts)
        assert verdict.right, verdict
        assert verdict.elements == 16 * 64


@pytest.mark.parametrize("kind", ["ints", "cancel", "onehot", "subnormal"])
def test_exact_inputs_leave_one_right_value(kind: str) -> None:
    """Integers, cancelling and subnormal operands have no allowance: one step off is wrong."""
    problem = dot_problem(150, "bf16")
    a, b = make_inputs(problem, kind, 4)
    exact = reference(problem, a, b)
    assert not accumulation_error(exact).any()
    right = narrow(exact.value, "bf16")
    assert compare(right, exact, "bf16").exact_elements == right.size
    at = tuple(np.argwhere(right & 0x7FFF)[7].tolist())
    off = right.copy()
    off[at] ^= 1
    verdict = compare(off, exact, "bf16")
    assert verdict.wrong == 1
    assert verdict.first_wrong == at
    assert verdict.least == verdict.greatest == widen(right, "bf16")[at]


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_lost_term_is_seen(dtype: str) -> None:
    """Leaving out one of 64 uniform terms moves most results out of their interval."""
    problem = dot_problem(64, dtype)
    a, b = make_inputs(problem, "uniform", 9)
    exact = reference(problem, a, b)
    lost = a.copy()
    lost[..., 63] = 0
    verdict = compare(in_f32(lost, b, dtype, np.arange(64), 1), exact, dtype)
    assert verdict.wrong > verdict.elements * 0.75


def test_sums_in_16_bits_fail_on_cancelling_terms() -> None:
    """Parts added up in bf16 lose the residue, which is what these inputs are for."""
    problem = dot_problem(64, "bf16")
    a, b = make_inputs(problem, "cancel", 2)
    exact = reference(problem, a, b)
    cuts = slice(32), slice(32, 64)
    halves = [in_f32(a[..., cut].copy(), b[..., cut].copy(), "bf16", np.arange(32), 1) for cut in cuts]
    summed = narrow(widen(halves[0], "bf16") + widen(halves[1], "bf16"), "bf16")
    assert not compare(summed, exact, "bf16", parts=2).right


def test_specials_must_match_in_kind_and_sign() -> None:
    """NaN for a number, a number for NaN, and the wrong infinity are wrong; a NaN of any payload is a NaN."""
    problem = ConvProblem("fwd", "bf16", n=1, c=2, h=4, w=4, k=2, y=1, x=1)
    a, b = make_inputs(problem, "nan", 1)
    exact = reference(problem, a, b)
    right = narrow(exact.value, "bf16")
    assert compare(right, exact, "bf16").right
    payload = right.copy()
    payload[np.isnan(exact.value)] = 0xFFC1
    assert compare(payload, exact, "bf16").right
    leaked = right.copy()
    leaked[0, 2, 2, 1] = quiet_nan("bf16")
    assert compare(leaked, exact, "bf16").first_wrong == (0, 2, 2, 1)
    swallowed = right.copy()
    swallowed[0, 0, 0, 0] = 0
    assert compare(swallowed, exact, "bf16").first_wrong == (0, 0, 0, 0)
    a, b = make_inputs(problem, "inf", 1)
    exact = reference(problem, a, b)
    right = narrow(exact.value, "bf16")
    assert compare(right, exact, "bf16").right
    negated = right.copy()
    negated[0, 0, 0, 0] ^= 0x8000
    assert compare(negated, exact, "bf16").wrong == 1


def test_overflow_may_go_either_way_only_at_the_edge() -> None:
    """A result far beyond the range must be infinite; the largest finite value is wrong for it."""
    problem = dot_problem(50, "fp16")
    a, b = make_inputs(problem, "overflow", 6)
    exact = reference(problem, a, b)
    right = narrow(exact.value, "fp16")
    beyond = np.argwhere(np.abs(exact.value) > 80000)[0]
    clamped = right.copy()
    clamped[tuple(beyond)] = 0x7BFF | (right[tuple(beyond)] & 0x8000)
    assert compare(right, exact, "fp16").right
    assert compare(clamped, exact, "fp16").first_wrong == tuple(beyond)


def test_verdict_is_plain_data() -> None:
    """Infinite figures become strings, so that the record is valid JSON."""
    problem = dot_problem(50, "fp16")
    a, b = make_inputs(problem, "overflow", 6)
    exact = reference(problem, a, b)
    zeros = np.zeros_like(narrow(exact.value, "fp16"))
    zeros[...] = 0x7C00
    record = compare(zeros, exact, "fp16").to_json()
    assert record["got"] == "inf"
    assert record["wrong"] > 0
