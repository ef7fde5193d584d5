"""The bound for sums in 16 bits: it holds for every order, and is not so wide that it says nothing."""

from __future__ import annotations

import numpy as np
import pytest

from aot.runtime.bounds import compare
from aot.runtime.float16 import Reals, narrow, widen
from aot.runtime.reference import Reference


def slices_of(generator: np.random.Generator, dtype: str, degree: int) -> tuple[Reals, Reference]:
    """Partial sums of a few results, [slice, result], and the reference of their total."""
    terms = generator.uniform(-1, 1, (degree, 40, 1, 1, 3)) * 2.0 ** generator.integers(-9, 9, (1, 40, 1, 1, 3))
    terms = widen(narrow(terms, dtype), dtype)
    total = terms.sum(axis=0)
    return terms, Reference(total, np.abs(terms).sum(axis=0), degree, -40, np.zeros(total.shape, dtype=np.bool_))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("degree", [1, 2, 7, 64])
def test_every_order_is_within_the_bound(dtype: str, degree: int) -> None:
    """Slices rounded to 16 bits and added one by one, each sum rounded, in many orders."""
    generator = np.random.default_rng(3)
    terms, reference = slices_of(generator, dtype, degree)
    for _ in range(20):
        total = np.zeros(terms.shape[1:], dtype=np.uint16)
        for number in generator.permutation(degree):
            total = narrow(widen(total, dtype) + widen(narrow(terms[number], dtype), dtype), dtype)
        verdict = compare(total, reference, dtype, 0, degree)
        assert verdict.right, verdict
        assert np.isfinite(verdict.bound)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_lost_slice_is_noticed(dtype: str) -> None:
    """Of two slices one is as large as the other, and losing it is far beyond the bound."""
    terms, reference = slices_of(np.random.default_rng(4), dtype, 2)
    assert not compare(narrow(terms[0], dtype), reference, dtype, 0, 2).right


def test_small_integers_stay_exact() -> None:
    """Sums that 16 bits hold leave no room at all."""
    terms = np.random.default_rng(5).integers(-3, 4, (16, 1, 1, 1, 9)).astype(np.float64)
    total, magnitude = terms.sum(axis=0), np.abs(terms).sum(axis=0)
    reference = Reference(total, magnitude, 16, 0, np.zeros(total.shape, dtype=np.bool_))
    verdict = compare(narrow(total, "bf16"), reference, "bf16", 0, 16)
    assert verdict.right
    assert verdict.exact_elements == total.size
    assert not compare(narrow(total + 1, "bf16"), reference, "bf16", 0, 16).right
