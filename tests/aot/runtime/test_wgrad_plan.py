"""Plans of backward weights: slices, workspaces, what is zeroed, second steps, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from aot.kernels.wgrad_arguments import (
    fix_up_arguments,
    reduce_arguments,
    stream_k_arguments,
    wgrad_arguments,
    wgrad_values,
)
from aot.runtime.accuracy import Demand
from aot.runtime.plan import NotServedError, make_plan
from aot.runtime.plan_data import Fill, Plan, PlanError
from aot.runtime.plan_options import PlanOptions
from aot.runtime.plan_wgrad import SplitDegreeError
from cache_schema.digest import identity_digest
from cache_schema.errors import ProblemError
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from grids import split_k
from grids.gemm.records import Wgrad
from grids.targets import target
from tests.aot.kernels.wgrad_machine import BuiltKernel, problem, wgrad
from tests.aot.samples import fix_up_identity, reduce_identity

PACKED = wgrad(split_k=2, epilogue="cshuffle", vector_size_c=4)
TWO_STAGE = wgrad(split_k=2, two_stage=True, ws_replicas=8)
STREAM_K = wgrad(stream_k=True)
MERGED = wgrad(split_k=2, two_stage=True, ws_replicas=8, group_merge=4)
RESNET = ConvProblem("wgrad", "bf16", n=8, c=64, h=56, w=56, k=96, y=3, x=3, pad_h=1, pad_w=1)


ARGUMENTS = {"fix_up": fix_up_arguments, "reduce": reduce_arguments, "stream_k": stream_k_arguments}


def unbuilt(identity: Identity) -> BuiltKernel:
    """What a cache would say of a kernel that nobody compiled."""
    arguments = ARGUMENTS.get(identity.family, wgrad_arguments)()
    digest = identity_digest(identity)
    threads = 64 * identity.warp_m * identity.warp_n if isinstance(identity, Wgrad) else 256
    return BuiltKernel(identity, digest, "rocke_" + digest.hex()[:24], digest.hex(), threads, arguments)


def plan(identity: Identity, at: ConvProblem, **options: Any) -> Plan:
    """A plan in a cache that has every second step."""
    return make_plan(unbuilt(identity), at, PlanOptions(helper=unbuilt, **options))


def test_an_unsplit_kernel_writes_everything_itself() -> None:
    """One launch, nothing zeroed, no workspace; tiles of taps and channels along x, of filters along y, groups in z."""
    at = replace(RESNET, groups=4)
    found = plan(wgrad(), at)
    assert (found.zeroed, found.workspace_bytes, found.deterministic) == ((), 0, True)
    assert [launch.grid for launch in found.launches] == [(-(-9 * 16 // 64), 1, 4)]
    assert Plan.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_atomics_start_from_a_zero_dw() -> None:
    """dW is zeroed before the launch; z is groups times slices; three slices are not deterministic, two are."""
    found = plan(PACKED, RESNET, split_k=3)
    assert found.steps[0] == Fill("dw")
    assert found.launches[0].grid[2] == 3
    assert (found.rounded_sums, found.deterministic) == (3, False)
    assert plan(PACKED, RESNET, split_k=2).deterministic


def test_two_stage_zeroes_its_replicas_and_folds_them() -> None:
    """The workspace is f32, groups x replicas x M x N, zeroed; the second kernel covers dW, which nobody zeroes."""
    at = replace(RESNET, groups=2)
    found = plan(TWO_STAGE, at, split_k=16)
    workspace = found.buffer("workspace")
    assert workspace.shape == (2, 8, 48, 9 * 32)
    assert workspace.nbytes == 4 * 2 * 8 * 48 * 9 * 32 == split_k.two_stage_workspace_bytes(at, 8)
    assert found.zeroed == ("workspace",)
    gemm, fold = found.launches
    assert fold.identity_digest == identity_digest(reduce_identity("gfx950", "bf16", 8)).hex()
    assert fold.grid == (-(-96 * 9 * 32 // 256), 1, 1)
    assert {a.buffer for a in gemm.arguments if a.buffer} == {"dy", "x", "workspace"}
    assert {a.buffer for a in fold.arguments if a.buffer} == {"workspace", "dw"}
    assert found.deterministic
    assert not plan(TWO_STAGE, at, split_k=17).deterministic


def test_merged_groups_share_a_workgroup() -> None:
    """z counts merged groups; the workspace is that of the true groups."""
    at = problem(c=24, k=24, groups=24, pad_h=1)
    found = plan(MERGED, at, split_k=3)
    assert found.launches[0].grid == (1, 1, 6 * 3)
    assert found.buffer("workspace").shape == (24, 8, 1, 9)


def test_stream_k_zeroes_nothing() -> None:
    """As many workgroups as the GPU holds, or as K tiles; two parts each; a second step only where tiles are shared."""
    found = plan(STREAM_K, RESNET)
    tiles, k_tiles = 2 * 9, 8 * 56 * 56 // 32
    workgroups = found.launches[0].grid[0]
    assert workgroups * -(-tiles * k_tiles // workgroups) >= tiles * k_tiles
    assert found.zeroed == ()
    assert found.buffer("workspace").nbytes == workgroups * 2 * 64 * 64 * 4
    assert found.launches[1].identity_digest == identity_digest(fix_up_identity("gfx950", "bf16")).hex()
    assert found.deterministic
    whole = plan(STREAM_K, RESNET, workgroups=3)
    assert [launch.grid for launch in whole.launches] == [(3, 1, 1)]


@pytest.mark.parametrize("identity", [PACKED, TWO_STAGE])
def test_the_automatic_degree_is_that_of_the_grid(identity: Wgrad) -> None:
    """-1 is resolved by the one function that benchmarks use too, and leaves no slice without work."""
    found = plan(identity, RESNET, demand=Demand(fast=True))
    degree = split_k.automatic_degree(identity, RESNET, target("gfx950"))
    values = {a.name: a.value for a in found.launches[0].arguments}
    assert values["ks_count"] == found.launches[0].grid[2] == degree > 1
    assert isinstance(values["ks_tiles"], int)
    assert isinstance(values["k_tiles"], int)
    assert (degree - 1) * values["ks_tiles"] < values["k_tiles"] <= degree * values["ks_tiles"]


@pytest.mark.parametrize(
    ("identity", "degree", "words"),
    [
        (PACKED, 0, "at least 1"),
        (PACKED, -2, "at least 1"),
        (wgrad(), 2, "does not split"),
        (STREAM_K, 2, "stream-K"),
        (PACKED, 70000, "65535"),
    ],
)
def test_degrees_without_a_meaning_are_refused(identity: Identity, degree: int, words: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(SplitDegreeError, match=words):
        plan(identity, RESNET, split_k=degree)


def test_a_workspace_limit_is_kept() -> None:
    """One byte too little refuses two-stage and stream-K kernels with the code of the serving rule."""
    needed = split_k.two_stage_workspace_bytes(RESNET, 8)
    assert plan(TWO_STAGE, RESNET, workspace_limit=needed).workspace_bytes == needed
    for identity, limit in ((TWO_STAGE, needed - 1), (STREAM_K, 1 << 20)):
        with pytest.raises(NotServedError) as caught:
            plan(identity, RESNET, workspace_limit=limit)
        assert caught.value.reason == "S_workspace"
    assert plan(wgrad(), RESNET, workspace_limit=0).workspace_bytes == 0


def test_workspaces_beyond_32_bits_are_sized_right() -> None:
    """Many groups make a workspace of more than 4 GiB; the sizes are exact."""
    at = ConvProblem("wgrad", "bf16", n=8, c=1024 * 256, h=3, w=3, k=1024 * 256, y=1, x=1, groups=1024)
    found = plan(TWO_STAGE, at, split_k=2)
    assert found.workspace_bytes == 4 * 1024 * 8 * 256 * 256 == 2**31
    wide = replace(at, y=3, x=3, pad_h=1, pad_w=1)
    assert plan(TWO_STAGE, wide, split_k=2).workspace_bytes == 9 * 2**31


def test_a_dw_at_the_end_of_the_address_range_is_refused() -> None:
    """A last tile that would wrap past 2^32 is a problem that kernels cannot have, and the message says so."""
    at = ConvProblem("wgrad", "bf16", n=1, c=32766, h=1, w=1, k=32770, y=1, x=1)
    identity = wgrad(tile_m=256, warp_m=4, vector_size_a=1, vector_size_b=1, vector_size_c=1)
    with pytest.raises(ProblemError, match="dw"):
        wgrad_values(identity, at)
    with pytest.raises(NotServedError, match="S_addressing"):
        plan(identity, at)


def test_a_dw_that_fills_the_address_range_is_planned() -> None:
    """Where tiles share out the rows of dW evenly nothing lies past its end, up to the last byte below 2^31."""
    at = ConvProblem("wgrad", "bf16", n=1, c=32767, h=1, w=1, k=32768, y=1, x=1)
    assert plan(wgrad(tile_m=256, warp_m=4, vector_size_b=1, vector_size_c=1), at).steps


def test_a_missing_second_step_is_named() -> None:
    """A cache without the reducing kernel cannot run a two-stage kernel, and the message has its label."""
    with pytest.raises(PlanError, match="wgrad:reduce:"):
        make_plan(unbuilt(TWO_STAGE), RESNET)


def test_second_steps_are_never_offered() -> None:
    """They serve no problem."""
    for identity in (reduce_identity("gfx950", "bf16", 8), fix_up_identity("gfx950", "bf16")):
        with pytest.raises(NotServedError) as caught:
            make_plan(unbuilt(identity), RESNET)
        assert caught.value.reason == "S_step"


def test_offsets_of_tiles_behind_the_end_do_not_wrap() -> None:
    """The longest dY and pixel that are let through: loads two tiles behind the last stay beyond dY and below 2^32."""
    wide = ConvProblem("wgrad", "bf16", n=1023, c=16, h=1, w=1, k=2**20, y=1, x=1, groups=4)
    for identity in (wgrad(tile_k=64), wgrad(tile_k=16)):
        values = {a.name: a.value for a in plan(identity, wide).launches[0].arguments}
        tiles, row = values["k_tiles"], values["p_K"]
        assert tiles is not None
        assert row is not None
        assert (tiles + 3) * identity.tile_k * row * 2 + 2 * row < 2**32
    with pytest.raises(NotServedError, match="S_addressing"):
        plan(wgrad(), replace(wide, n=1, k=2**22))
