"""What serving rules admit can be launched, up to the largest problems that tensors of 2 GiB allow."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aot.kernels.arguments import forward_arguments
from aot.kernels.dgrad_arguments import dgrad_arguments
from aot.runtime.plan import make_plan
from aot.runtime.plan_options import PlanOptions
from cache_schema.digest import identity_digest
from cache_schema.errors import ProblemError
from cache_schema.problem import DIRECTIONS, ConvProblem
from cache_schema.table import IdentityTable
from grids.catalogue import buildable
from grids.gemm.records import Gemm
from grids.serving import serves, serving_reasons
from grids.tilde import sub_gemm_count, sub_gemms
from tests.aot.kernels.wgrad_machine import BuiltKernel
from tests.aot.runtime.test_wgrad_plan import unbuilt

ROWS = 60


def extreme_problem(rng: random.Random, direction: str) -> ConvProblem:
    """Most extents small, up to three of them anything that a tensor of 2 GiB may have."""
    while True:
        extents = {
            "n": rng.choice((1, 2, 3)), "h": rng.choice((1, 2, 9)), "w": rng.choice((1, 2, 9)),
            "y": rng.choice((1, 1, 2, 3)), "x": rng.choice((1, 1, 2, 3)),
            "stride_h": rng.choice((1, 2)), "stride_w": rng.choice((1, 3)), "pad_h": 0, "pad_w": rng.choice((0, 1)),
            "dilation_h": 1, "dilation_w": rng.choice((1, 2)),
        }  # fmt: skip
        groups = rng.choice((1, 1, 2, 64, 30000))
        channels = {"c": groups * rng.choice((8, 1, 64)), "k": groups * rng.choice((8, 1, 64))}
        for _ in range(rng.randint(1, 3)):
            size = int(2 ** rng.uniform(8, 31)) + rng.choice((-1, 0, 1))
            if rng.random() < 0.3:
                name = rng.choice(("c", "k"))
                channels[name] = groups * max(1, size // groups // 8 * 8)
            else:
                extents[rng.choice(sorted(extents))] = size
        if extents["stride_h"] > 100 and extents["y"] > 100 and extents["stride_w"] > 100 and extents["x"] > 100:
            continue
        try:
            return ConvProblem(direction, rng.choice(("bf16", "fp16")), groups=groups, **channels, **extents)
        except ProblemError:
            continue


def kernel(identity: Gemm) -> BuiltKernel:
    """What a cache would say of a kernel of any direction that nobody compiled."""
    if identity.direction == "wgrad":
        return unbuilt(identity)
    arguments = forward_arguments() if identity.direction == "fwd" else dgrad_arguments()
    digest = identity_digest(identity)
    threads = 64 * identity.warp_m * identity.warp_n
    return BuiltKernel(identity, digest, "rocke_" + digest.hex()[:24], digest.hex(), threads, arguments)


@pytest.fixture(scope="module", params=DIRECTIONS)
def kernels(request: pytest.FixtureRequest) -> IdentityTable:
    """A spread of one direction's kernels."""
    return buildable("gfx950", ["bf16", "fp16"], [request.param], limit=ROWS)


def test_whatever_is_served_has_a_plan(kernels: IdentityTable) -> None:
    """For random extremes a plan is made of every kernel that serves, and its arguments fit their types."""
    identities: list[Any] = [kernels.row(index) for index in range(len(kernels))]
    (direction,), reasons = kernels.directions, serving_reasons()
    rng, planned, seen = random.Random(31), 0, set[str]()
    for _ in range(400):
        problem = extreme_problem(rng, direction)
        mask, codes = serves(kernels, problem)
        seen |= {reasons[code] for code in codes}
        served = [i for i, ok in zip(identities, mask, strict=True) if ok]
        for identity in rng.sample(served, min(4, len(served))):
            plan = make_plan(kernel(identity), problem, PlanOptions(helper=unbuilt))
            for launch in plan.launches:
                launch.pack({buffer.name: 1 << 40 for buffer in plan.buffers})
                assert max(launch.grid[1:]) <= 65535
                assert launch.grid[0] * launch.block[0] < 2**32
            planned += 1
    assert planned > 100
    assert "S_addressing" in seen


def test_counting_sub_gemms_is_as_good_as_making_them() -> None:
    """The count equals the length of the list, at long strides and dilations too."""
    rng = random.Random(32)
    for _ in range(300):
        extents = {name: rng.choice((1, 2, 3, 7, 40)) for name in ("h", "w", "y", "x", "stride_h", "stride_w")}
        more = {name: rng.choice((1, 2, 6)) for name in ("dilation_h", "dilation_w")}
        pads = {name: rng.choice((0, 1, 50)) for name in ("pad_h", "pad_w")}
        try:
            problem = ConvProblem("dgrad", "bf16", n=1, c=8, k=8, **extents, **more, **pads)
        except ProblemError:
            continue
        assert sub_gemm_count(problem) == len(sub_gemms(problem))
