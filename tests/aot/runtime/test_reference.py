"""The float64 reference against the definition spelled out in loops, and its view of NaN and infinity."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from aot.runtime.bounds import compare
from aot.runtime.float16 import Reals, narrow, widen
from aot.runtime.inputs import KINDS, make_inputs
from aot.runtime.reference import TENSORS, reference, tensor_shape
from cache_schema.problem import ConvProblem

SHAPES = [
    {"n": 2, "c": 4, "h": 5, "w": 4, "k": 6, "y": 3, "x": 2, "pad_h": 1, "pad_w": 0},
    {"n": 1, "c": 6, "h": 7, "w": 6, "k": 3, "y": 2, "x": 3, "stride_h": 2, "stride_w": 3, "groups": 3, "pad_w": 2},
    {"n": 2, "c": 2, "h": 6, "w": 9, "k": 2, "y": 3, "x": 3, "dilation_h": 2, "dilation_w": 4, "pad_h": 2, "groups": 2},
    {"n": 1, "c": 3, "h": 2, "w": 2, "k": 2, "y": 5, "x": 4, "pad_h": 4, "pad_w": 3, "stride_h": 3, "dilation_w": 2},
]  # fmt: skip


def by_definition(problem: ConvProblem, a: Reals, b: Reals) -> Reals:
    """One scalar term after the other; terms outside the image do not exist."""
    p = problem
    result = np.zeros(tensor_shape(p, TENSORS[p.direction][2]))
    for n, ho, wo, k, i, j, c in product(*map(range, (p.n, p.ho, p.wo, p.k, p.y, p.x, p.cpg))):
        hi = ho * p.stride_h - p.pad_h + i * p.dilation_h
        wi = wo * p.stride_w - p.pad_w + j * p.dilation_w
        if not (0 <= hi < p.h and 0 <= wi < p.w):
            continue
        channel = k // p.kpg * p.cpg + c
        at_x, at_w, at_y = (n, hi, wi, channel), (k, i, j, c), (n, ho, wo, k)
        if p.direction == "fwd":
            result[at_y] += a[at_x] * b[at_w]
        elif p.direction == "wgrad":
            result[at_w] += a[at_y] * b[at_x]
        else:
            result[at_x] += a[at_y] * b[at_w]
    return result


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_agrees_with_the_definition(direction: str, shape: int) -> None:
    """Values equal the scalar sums, exactly for small integers; magnitudes bound those of the absolute terms.

    The bound is the sum itself wherever f32 sums may round, and else small enough to say that they do not.
    """
    problem = ConvProblem(direction=direction, dtype="fp16", **SHAPES[shape])
    for kind in ("ints", "uniform"):
        a, b = make_inputs(problem, kind, seed=shape)
        left, right = widen(a, "fp16"), widen(b, "fp16")
        result, absolute = reference(problem, a, b), by_definition(problem, np.abs(left), np.abs(right))
        assert result.value.any()
        if kind == "ints":
            assert np.array_equal(result.value, by_definition(problem, left, right))
            assert (result.magnitude >= absolute).all()
            assert result.quantum is not None
            assert result.magnitude.max() <= 2.0 ** (24 + result.quantum)
        else:
            assert np.allclose(result.value, by_definition(problem, left, right), rtol=1e-12, atol=1e-12)
            assert np.allclose(result.magnitude, absolute, rtol=1e-12)


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
@pytest.mark.parametrize("kind", ["nan", "inf", "inf-w"])
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_specials_reach_what_sees_them_and_nothing_else(direction: str, kind: str, shape: int) -> None:
    """NaN and infinity come out exactly where the definition has a term with them."""
    problem = ConvProblem(direction=direction, dtype="bf16", **SHAPES[shape])
    a, b = make_inputs(problem, kind, seed=3)
    with np.errstate(all="ignore"):
        expected = by_definition(problem, widen(a, "bf16"), widen(b, "bf16"))
    value = reference(problem, a, b).value
    assert np.array_equal(np.isnan(value), np.isnan(expected))
    assert np.array_equal(value[np.isinf(value)], expected[np.isinf(expected)])
    finite = np.isfinite(expected)
    assert np.allclose(value[finite], expected[finite], rtol=1e-12)


def padded(problem: ConvProblem, a: Reals, b: Reals) -> Reals:
    """As a kernel that zero-fills what its loads mask: terms outside the image are products with zero."""
    p = problem
    result = np.zeros(tensor_shape(p, TENSORS[p.direction][2]))
    if p.direction == "dgrad":
        for n, hi, wi, k, i, j, c in product(*map(range, (p.n, p.h, p.w, p.k, p.y, p.x, p.cpg))):
            ho, off_h = divmod(hi + p.pad_h - i * p.dilation_h, p.stride_h)
            wo, off_w = divmod(wi + p.pad_w - j * p.dilation_w, p.stride_w)
            if not off_h and not off_w:
                gradient = a[n, ho, wo, k] if 0 <= ho < p.ho and 0 <= wo < p.wo else 0.0
                result[n, hi, wi, k // p.kpg * p.cpg + c] += gradient * b[k, i, j, c]
        return result
    for n, ho, wo, k, i, j, c in product(*map(range, (p.n, p.ho, p.wo, p.k, p.y, p.x, p.cpg))):
        hi = ho * p.stride_h - p.pad_h + i * p.dilation_h
        wi = wo * p.stride_w - p.pad_w + j * p.dilation_w
        x = a if p.direction == "fwd" else b
        pixel = x[n, hi, wi, k // p.kpg * p.cpg + c] if 0 <= hi < p.h and 0 <= wi < p.w else 0.0
        if p.direction == "fwd":
            result[n, ho, wo, k] += pixel * b[k, i, j, c]
        else:
            result[k, i, j, c] += a[n, ho, wo, k] * pixel
    return result


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_overhang_marks_what_zero_padding_turns_to_nan(direction: str, shape: int) -> None:
    """The marked results are those at which multiplying an infinite weight by padding makes a NaN of a number."""
    problem = ConvProblem(direction=direction, dtype="bf16", **SHAPES[shape])
    a, b = make_inputs(problem, "inf-w", seed=3)
    exact = reference(problem, a, b)
    with np.errstate(all="ignore"):
        zero_filled = padded(problem, widen(a, "bf16"), widen(b, "bf16"))
    assert np.array_equal(np.isnan(zero_filled), np.isnan(exact.value) | exact.overhang_nan)


def test_strided_weights_excuse_no_pixel_that_they_do_not_touch() -> None:
    """At stride 2 a NaN tap meets every other row and column only; elsewhere a NaN is a leak, and wrong."""
    problem = ConvProblem("dgrad", "bf16", n=1, c=4, h=8, w=8, k=4, y=2, x=2, stride_h=2, stride_w=2)
    a, b = make_inputs(problem, "ints", seed=5)
    b[:, 0, 1, :] = narrow(np.array(np.nan), "bf16")
    exact = reference(problem, a, b)
    touched = np.zeros((8, 8), dtype=np.bool_)
    touched[0::2, 1::2] = True
    assert np.array_equal(np.isnan(exact.value), np.broadcast_to(touched[None, :, :, None], exact.value.shape))
    assert not exact.overhang_nan.any()
    right = narrow(exact.value, "bf16")
    assert compare(right, exact, "bf16").right
    leaked = right.copy()
    leaked[0, 0, 0, 0] = narrow(np.array(np.nan), "bf16")
    assert compare(leaked, exact, "bf16").first_wrong == (0, 0, 0, 0)


def test_empty_images_give_zeros_and_empty_batches_nothing() -> None:
    """h = 0 with padding has an output of zeros; n = 0 has no output; its weight gradient is zero."""
    empty_image = ConvProblem("fwd", "bf16", n=2, c=3, h=0, w=5, k=4, y=2, x=2, pad_h=1, pad_w=1)
    result = reference(empty_image, *make_inputs(empty_image, "uniform", 1))
    assert result.value.shape == (2, 1, 6, 4)
    assert not result.value.any()
    no_images = ConvProblem("fwd", "bf16", n=0, c=3, h=4, w=5, k=4, y=2, x=2)
    assert reference(no_images, *make_inputs(no_images, "uniform", 1)).value.size == 0
    gradient = ConvProblem("wgrad", "bf16", n=0, c=3, h=4, w=5, k=4, y=2, x=2)
    assert not reference(gradient, *make_inputs(gradient, "uniform", 1)).value.any()


@pytest.mark.parametrize("direction", ["fwd", "wgrad", "dgrad"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_inputs_are_repeatable_and_what_they_say(direction: str, kind: str) -> None:
    """Equal seeds give equal operands, other seeds others, and each kind has its property."""
    problem = ConvProblem(direction, "fp16", n=2, c=8, h=6, w=6, k=8, y=3, x=3, pad_h=1, pad_w=1, groups=2)
    a, b = make_inputs(problem, kind, 17)
    again = make_inputs(problem, kind, 17)
    assert np.array_equal(a, again[0])
    assert np.array_equal(b, again[1])
    other = make_inputs(problem, kind, 18)
    assert (np.array_equal(a, other[0]) and np.array_equal(b, other[1])) == (kind == "ones")
    exact = reference(problem, a, b)
    narrowed = widen(narrow(exact.value, "fp16"), "fp16")
    if kind == "cancel":
        absolute = by_definition(problem, np.abs(widen(a, "fp16")), np.abs(widen(b, "fp16")))
        assert np.abs(exact.value).max() * 4 < absolute.max()
    elif kind == "sparse":
        absolute = by_definition(problem, np.abs(widen(a, "fp16")), np.abs(widen(b, "fp16")))
        assert 0 < absolute.max() <= 2**8  # exact in bf16, whatever the order
    elif kind == "positive":
        assert (exact.value > 0).all()
    elif kind == "onehot":
        assert exact.value.any()
        assert np.array_equal(np.abs(exact.value), np.abs(narrowed))
        assert np.abs(exact.value).max() <= 127
    elif kind in ("nan", "inf", "inf-w"):
        assert 0 < np.isfinite(exact.value).sum() < exact.value.size
    elif kind == "overflow":
        assert np.isfinite(exact.value).all()
        assert np.isinf(narrowed).any()
    elif kind == "subnormal":
        tiny = widen(a, "fp16")
        assert 0 < np.abs(tiny).max() < 2.0**-14
    else:
        assert np.isfinite(narrowed).all()
