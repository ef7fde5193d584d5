"""Backward-weights kernels against the definition in float64, from poisoned memory."""

from __future__ import annotations

from typing import Any

import pytest

from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.serving import serves
from tests.aot.kernels.wgrad_machine import LAUNCHED, problem, run, sample, wgrad

#: name -> extents, inputs, slices where a kernel has them.
PROBLEMS: dict[str, tuple[dict[str, int], str, int]] = {
    "padded": ({"pad_h": 1, "pad_w": 1}, "uniform", -1),
    "partial tiles": ({"c": 40, "h": 8, "w": 11, "k": 72, "n": 3, "pad_w": 2, "stride_h": 2}, "ints", 3),
    "one filter row": ({"c": 48, "k": 96, "h": 6, "w": 10, "y": 1, "groups": 3, "pad_w": 1, "dilation_w": 2}, "nan", 2),
    "one output pixel": ({"n": 1, "c": 8, "h": 3, "w": 3, "k": 8}, "onehot", -1),
    "many images of two pixels": ({"n": 40, "c": 8, "h": 1, "w": 3, "k": 8, "y": 1, "x": 2}, "uniform", 5),
    "grouped pointwise": ({"n": 5, "c": 64, "h": 10, "w": 10, "k": 64, "y": 1, "x": 1, "groups": 2}, "ints", 64),
    "narrow groups in wide tiles": ({"c": 32, "k": 32, "groups": 4, "pad_h": 1, "pad_w": 1}, "uniform", 4),
    "odd channels": ({"c": 15, "k": 21, "groups": 3, "stride_w": 2}, "ints", 2),
    "stem": ({"n": 1, "c": 3, "h": 17, "w": 15, "k": 16, "y": 7, "x": 7, "stride_h": 2, "stride_w": 2}, "uniform", 3),
    "even row of odd channels": ({"c": 3, "k": 16, "y": 2, "x": 2}, "ints", 4),
    "depthwise": ({"c": 24, "k": 24, "groups": 24, "pad_h": 1, "pad_w": 1}, "uniform", 2),
    "depthwise with a multiplier": ({"c": 16, "k": 32, "groups": 16, "pad_h": 1}, "ints", 2),
    "strides and dilations": (
        {"h": 13, "w": 13, "y": 2, "x": 2, "stride_h": 3, "stride_w": 2, "dilation_h": 2, "dilation_w": 3, "pad_w": 2},
        "uniform",
        7,
    ),
    "more slices than tiles": ({"n": 1, "h": 10, "w": 10, "c": 16, "k": 16, "pad_h": 1, "pad_w": 1}, "ints", 64),
    "odd tiles per slice": ({"n": 10, "h": 8, "w": 8, "c": 8, "k": 8, "y": 1, "x": 1}, "cancel", 2),
    "an infinite gradient": ({"n": 3, "h": 5, "w": 6, "c": 8, "k": 16, "pad_h": 1, "pad_w": 2}, "inf-w", 2),
    "images of one column": ({"n": 7, "h": 11, "w": 1, "x": 1, "c": 8, "k": 16}, "inf", 3),
}
MERGED: dict[str, tuple[dict[str, int], str, int]] = {
    "several workgroups": ({"c": 64, "k": 64, "groups": 64, "pad_h": 1, "pad_w": 1}, "uniform", 4),
    "all groups in one": ({"c": 16, "k": 16, "groups": 16, "stride_h": 2}, "ints", 2),
    "one filter column": ({"c": 32, "k": 32, "groups": 32, "x": 1, "pad_h": 2, "dilation_h": 2}, "nan", 3),
    "more slices than tiles": ({"n": 1, "c": 48, "k": 48, "groups": 48, "y": 1}, "ints", 9),
}


def check(identities: list[Any], least: int) -> None:
    """Every identity on every problem that it serves; at least so many runs."""
    runs = 0
    for number, identity in enumerate(identities):
        problems = MERGED if identity.group_merge > 1 else PROBLEMS
        for name, (extents, inputs, slices) in problems.items():
            at = problem(identity.dtype_a, **extents)
            if not serves(IdentityTable.from_identities([identity]), at)[0][0]:
                continue
            split_k = slices if identity.split_k > 1 else -1
            outcome = run(identity, at, inputs=inputs, seed=number, order=number, split_k=split_k)
            assert outcome.right, (name, encode(identity), outcome.verdict, outcome.faults[:3])
            runs += 1
    assert runs >= least


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("family", LAUNCHED)
def test_kernels_are_right(arch: str, family: str) -> None:
    """A few kernels of every family, on all problems that they serve."""
    check(sample(arch, "bf16" if arch == "gfx950" else "fp16", family, 6), least=8)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("family", LAUNCHED)
def test_many_kernels_are_right(arch: str, family: str, dtype: str) -> None:
    """Five hundred kernels per architecture and data type and family, spread over all axes."""
    check(sample(arch, dtype, family, 500), least=1000)


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("pipeline", ["mem", "compv3", "compv4"])
def test_double_buffered_loops_are_right(arch: str, pipeline: str) -> None:
    """unroll_k, which the catalogue leaves out, on odd and even counts of K tiles, split and not."""
    fields = {"unroll_k": True, "pipeline": pipeline, "tile_k": 32}
    for n, h, w in ((10, 8, 8), (6, 10, 10), (1, 5, 5)):
        at = problem(n=n, h=h, w=w, c=8, k=8, y=1, x=1)
        assert run(wgrad(arch, **fields), at).right
        packed = {"split_k": 2, "epilogue": "cshuffle", "vector_size_c": 4}
        if n > 1:
            assert run(wgrad(arch, **fields, **packed), at, split_k=2).right


@pytest.mark.parametrize("workgroups", [1, 2, 3, 5, 7, 1000])
def test_stream_k_with_any_number_of_workgroups(workgroups: int) -> None:
    """Output tiles that a workgroup has whole, begins, continues or ends, and several of them in a row."""
    for arch in ("gfx950", "gfx942"):
        for identity in sample(arch, "bf16", "stream_k", 4):
            for extents in ({"c": 40, "k": 72, "n": 3, "pad_h": 1}, {"c": 48, "k": 96, "y": 1, "groups": 3}):
                at = problem(**extents)
                if serves(IdentityTable.from_identities([identity]), at)[0][0]:
                    outcome = run(identity, at, workgroups=workgroups, order=workgroups)
                    assert outcome.right, (encode(identity), outcome.verdict, outcome.faults[:3])


def test_empty_batches_give_zeros() -> None:
    """Without images there is nothing to add up, and dW is zero all the same."""
    at = ConvProblem("wgrad", "bf16", n=0, c=8, h=9, w=9, k=16, y=3, x=3)
    outcome = run(wgrad(), at)
    assert not outcome.plan.launches
    assert not outcome.output.any()
