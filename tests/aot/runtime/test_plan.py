"""Plans of real kernels: grids, arguments and refusals, and problems that need no kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aot.runtime.plan import NotServedError, empty_plan, make_plan, needs_no_kernel
from aot.runtime.plan_data import Fill, Plan
from aot.toolchain import read_code_object
from cache_schema.cache_reader import Cache
from cache_schema.problem import ConvProblem
from grids.serving import serving_reasons
from tests.aot.samples import forward

RESNET = ConvProblem("fwd", "bf16", n=8, c=64, h=56, w=56, k=96, y=3, x=3, pad_h=1, pad_w=1)


def test_every_argument_of_the_code_object_is_bound(small_cache: Path) -> None:
    """Names, order, offsets and sizes are those of the kernel's own metadata; the segment has its size."""
    with Cache.open(small_cache) as cache:
        for number in range(len(cache)):
            entry, code = cache.entry(number), read_code_object(cache.code_object(number))
            (launch,) = make_plan(entry, RESNET).launches
            explicit = [argument for argument in code.arguments if not argument.kind.startswith("hidden")]
            assert [(a.offset, a.size) for a in launch.arguments] == [(a.offset, a.size) for a in explicit]
            assert len(launch.pack({"x": 1 << 40, "w": 2 << 40, "y": 3 << 40})) <= code.kernarg_bytes
            assert launch.symbol == code.symbol
            assert launch.block == (entry.block_size, 1, 1)
            assert launch.block[0] <= code.max_flat_workgroup_size


def test_the_grid_covers_the_output(small_cache: Path) -> None:
    """Tiles of filters along x, of pixels along y, groups along z."""
    grouped = ConvProblem("fwd", "bf16", n=3, c=24, h=9, w=7, k=300, y=1, x=1, groups=3)
    with Cache.open(small_cache) as cache:
        number = cache.find_identity(forward())
        assert number is not None
        plan = make_plan(cache.entry(number), grouped)
    assert plan.launches[0].grid == (-(-100 // 64), -(-3 * 9 * 7 // 64), 3)
    assert plan.deterministic
    assert plan.partial_sums == 0
    assert plan.zeroed == ()
    assert [(b.name, b.role, b.shape, b.nbytes) for b in plan.buffers] == [
        ("x", "input", (3, 9, 7, 24), 3 * 9 * 7 * 24 * 2),
        ("w", "input", (300, 1, 1, 8), 300 * 8 * 2),
        ("y", "output", (3, 9, 7, 300), 3 * 9 * 7 * 300 * 2),
    ]
    by_name = {argument.name: argument for argument in plan.launches[0].arguments}
    assert (by_name["A"].buffer, by_name["B"].buffer, by_name["D"].buffer) == ("x", "w", "y")
    assert (by_name["A_bytes"].value, by_name["D_bytes"].value) == (3 * 9 * 7 * 24 * 2, 3 * 9 * 7 * 300 * 2)
    assert (by_name["p_M"].value, by_name["p_kpg"].value, by_name["p_cpg"].value) == (189, 100, 8)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (ConvProblem("fwd", "bf16", n=1, c=6, h=9, w=9, k=8, y=3, x=3), "S_width_a"),
        (ConvProblem("fwd", "fp16", n=1, c=8, h=9, w=9, k=8, y=3, x=3), "S_dtype"),
        (ConvProblem("dgrad", "bf16", n=1, c=8, h=9, w=9, k=8, y=3, x=3), "S_direction"),
    ],
)
def test_a_problem_that_the_kernel_does_not_serve_is_refused(
    small_cache: Path, problem: ConvProblem, reason: str
) -> None:
    """The refusal carries the code of the serving rule, and its explanation in words."""
    assert reason in serving_reasons()
    with Cache.open(small_cache) as cache:
        number = cache.find_identity(forward())
        assert number is not None
        with pytest.raises(NotServedError) as caught:
            make_plan(cache.entry(number), problem)
    assert caught.value.reason == reason
    assert reason in str(caught.value)


def test_empty_problems_are_a_fill_or_nothing(small_cache: Path) -> None:
    """An empty image gives zeros, an empty batch nothing in fwd and a zero dW in wgrad; no kernel is involved."""
    image = ConvProblem("fwd", "bf16", n=2, c=32, h=0, w=5, k=32, y=2, x=2, pad_h=1, pad_w=1)
    with Cache.open(small_cache) as cache:
        plan = make_plan(cache.entry(0), image)
    assert plan.steps == (Fill("y"),)
    assert plan.zeroed == ("y",)
    assert plan == empty_plan("gfx950", image)
    assert empty_plan("gfx950", ConvProblem("fwd", "bf16", n=0, c=8, h=4, w=4, k=8, y=1, x=1)).steps == ()
    gradient = empty_plan("gfx950", ConvProblem("wgrad", "bf16", n=0, c=8, h=4, w=4, k=8, y=1, x=1))
    assert gradient.steps == (Fill("dw"),)
    assert empty_plan("gfx950", ConvProblem("dgrad", "bf16", n=0, c=8, h=4, w=4, k=8, y=1, x=1)).steps == ()
    no_pixels = ConvProblem("dgrad", "bf16", n=2, c=8, h=4, w=0, k=8, y=1, x=1, pad_w=2)
    assert needs_no_kernel(no_pixels)
    assert empty_plan("gfx950", no_pixels).steps == ()
    assert not needs_no_kernel(RESNET)
