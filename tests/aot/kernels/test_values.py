"""Argument values: complete, in range, refused where 32 bits do not hold them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.kernels.arguments import forward_arguments
from aot.kernels.forward_values import forward_values
from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from tests.aot.samples import forward

BASE = ConvProblem("fwd", "bf16", n=2, c=64, h=14, w=14, k=64, y=3, x=3, pad_h=1, pad_w=1)


def test_every_argument_has_a_value() -> None:
    """Scalars and pointers together pack; nothing is missing or left over."""
    values = forward_values(forward(), BASE) | dict.fromkeys("ABD", 1 << 40)
    assert len(forward_arguments().pack(values)) == forward_arguments().size


@pytest.mark.parametrize(
    "problem",
    [
        replace(BASE, n=1, h=1, w=1, y=1, x=1, pad_h=0, pad_w=0, dilation_h=10**6, dilation_w=10**6),
        replace(BASE, n=1, c=64, h=4000, w=4000, k=1, y=31, x=31, dilation_h=100, dilation_w=100, stride_h=7),
        replace(BASE, n=1, pad_h=10**6, pad_w=10**6, stride_h=10**6, stride_w=10**6),
        replace(BASE, n=1, c=1, k=1, h=30000, w=30000, pad_h=0, pad_w=0),
    ],
)
def test_extreme_extents_fit(problem: ConvProblem) -> None:
    """Large pads, dilations, strides and images still give values that fit their kinds."""
    values = forward_values(forward(), problem) | dict.fromkeys("ABD", 0)
    forward_arguments().pack(values)


def test_a_far_origin_takes_the_general_loop() -> None:
    """Where the distance to tap (0, 0) would push offsets over the limit, the loop with signed offsets is chosen."""
    assert forward_values(forward(), BASE)["uniform_taps"] == 1
    assert (
        forward_values(forward(), replace(BASE, n=1, k=1, h=2000, w=4000, pad_h=4000, stride_h=9))["uniform_taps"] == 0
    )


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("h", replace(BASE, n=1, pad_h=2**27, stride_h=2**27)),
        ("dilation_w", replace(BASE, n=1, w=2**22, h=1, y=1, c=1, k=1, x=2, dilation_w=2**22, pad_h=0)),
        ("k", replace(BASE, n=1, h=1, w=1, y=1, x=1, pad_h=0, pad_w=0, c=1, k=2**23)),
    ],
)
def test_what_32_bits_cannot_hold_is_refused(field: str, problem: ConvProblem) -> None:
    """The error names the field."""
    with pytest.raises(ProblemError) as caught:
        forward_values(forward(), problem)
    assert caught.value.field == field
