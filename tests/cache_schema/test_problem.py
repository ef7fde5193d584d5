"""A convolution problem is either sound or refused with the field that is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem

LAYER = ConvProblem("fwd", "bf16", n=2, c=64, h=9, w=7, k=128, y=3, x=2, stride_h=2, pad_h=1, dilation_w=3, groups=4)


def output_extent(image: int, filter_: int, stride: int, pad: int, dilation: int) -> int:
    """Count the window origins one by one."""
    origins = range(-pad, image + pad, stride)
    return sum(origin + dilation * (filter_ - 1) < image + pad for origin in origins)


def test_output_size_is_the_number_of_windows() -> None:
    """The closed form agrees with counting, for every small combination that has an output."""
    checked = 0
    for image in range(6):
        for filter_ in range(1, 4):
            for stride in range(1, 4):
                for pad in range(3):
                    for dilation in range(1, 4):
                        windows = output_extent(image, filter_, stride, pad, dilation)
                        numbers: dict[str, Any] = {
                            "h": image,
                            "y": filter_,
                            "stride_h": stride,
                            "pad_h": pad,
                            "dilation_h": dilation,
                        }
                        if windows:
                            assert replace(LAYER, **numbers).ho == windows
                            checked += 1
                        else:
                            with pytest.raises(ProblemError) as caught:
                                replace(LAYER, **numbers)
                            assert caught.value.field == "h"
    assert checked > 200


def test_shapes_and_sizes() -> None:
    """NHWC, KYXC per group and NHWK, two bytes each; two operations per multiply-add."""
    assert LAYER.x_shape == (2, 9, 7, 64)
    assert LAYER.w_shape == (128, 3, 2, 16)
    assert LAYER.y_shape == (2, 5, 4, 128)
    assert (LAYER.x_bytes, LAYER.w_bytes, LAYER.y_bytes) == (2 * 8064, 2 * 12288, 2 * 5120)
    assert LAYER.flops == 2 * 5120 * 3 * 2 * 16
    assert (LAYER.cpg, LAYER.kpg) == (16, 32)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"direction": "forward"}, "direction"),
        ({"direction": ""}, "direction"),
        ({"dtype": "fp32"}, "dtype"),
        ({"dtype": ""}, "dtype"),
        ({"n": -1}, "n"),
        ({"c": 0}, "c"),
        ({"k": 0}, "k"),
        ({"y": 0}, "y"),
        ({"x": 0}, "x"),
        ({"stride_h": 0}, "stride_h"),
        ({"dilation_w": 0}, "dilation_w"),
        ({"pad_w": -1}, "pad_w"),
        ({"groups": 0}, "groups"),
        ({"groups": 3}, "groups"),
        ({"groups": 128}, "groups"),
        ({"h": 1, "pad_h": 0}, "h"),
        ({"w": 3}, "w"),
        ({"n": True}, "n"),
        ({"n": 1.0}, "n"),
        ({"n": 2**26}, "tensor x"),
        ({"k": 2**26}, "tensor w"),
        ({"h": 2, "pad_h": 2**18, "stride_h": 1, "n": 8}, "tensor y"),
    ],
)
def test_refused_by_field(change: dict[str, object], field: str) -> None:
    """Each malformed number is refused under its own name."""
    with pytest.raises(ProblemError) as caught:
        replace(LAYER, **change)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_tensor_limit_is_exact() -> None:
    """2^31 - 2 bytes are taken, 2^31 are not."""
    ConvProblem("fwd", "bf16", n=1, c=63, h=3641, w=4681, k=2, y=1, x=1)
    with pytest.raises(ProblemError, match="2147483648"):
        ConvProblem("fwd", "bf16", n=1, c=1024, h=1024, w=1024, k=8, y=1, x=1)


def test_empty_extents_have_answers() -> None:
    """No images, rows or columns is a valid question: the answer is nothing or zeros."""
    assert replace(LAYER, n=0).flops == 0
    assert replace(LAYER, h=0, y=2).y_shape == (2, 1, 4, 128)
