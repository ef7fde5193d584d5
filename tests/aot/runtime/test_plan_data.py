"""Plans as data: a round trip through JSON, packed arguments, and refusal of what does not fit together."""

from __future__ import annotations

import json
import struct

import pytest

from aot.runtime.plan_data import BoundArgument, Buffer, Fill, Launch, Plan, PlanError
from cache_schema.errors import RequestError
from cache_schema.problem import ConvProblem

PROBLEM = ConvProblem("wgrad", "bf16", n=1, c=4, h=3, w=3, k=2, y=1, x=1)


def staged_plan() -> Plan:
    """A plan with every kind of thing in it: a workspace that is zeroed, a table, two launches."""
    buffers = (
        Buffer("dy", "input", "bf16", (1, 3, 3, 2), 36),
        Buffer("x", "input", "bf16", (1, 3, 3, 4), 72),
        Buffer("dw", "output", "bf16", (2, 1, 1, 4), 16),
        Buffer("ws", "workspace", "fp32", (8, 2, 4), 256),
        Buffer("records", "table", "int32", (3,), 12, (1, -2, 3)),
    )
    first = (
        BoundArgument("A", "ptr", 0, 8, buffer="dy"),
        BoundArgument("ws_ptr", "ptr", 8, 8, buffer="ws"),
        BoundArgument("table", "ptr", 16, 8, buffer="records"),
        BoundArgument("count", "i32", 24, 4, value=-5),
    )
    second = (BoundArgument("D", "ptr", 0, 8, buffer="dw"), BoundArgument("zero", "u32", 8, 4, value=0))
    steps = (
        Fill("ws"),
        Launch("wgrad:a", "aa" * 20, "bb" * 32, "first", (4, 2, 1), (256, 1, 1), 0, first),
        Launch("wgrad:b", "ab" * 20, "bc" * 32, "second", (1, 1, 1), (256, 1, 1), 64, second),
    )
    return Plan(
        "gfx950", PROBLEM, buffers, steps, summed_terms=9, partial_sums=7, added_to=("ws",), deterministic=False
    )


def test_json_round_trip() -> None:
    """A plan survives text, with zero values kept apart from absent ones."""
    plan = staged_plan()
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_what_a_plan_says_of_itself() -> None:
    """The output, what is zeroed first, and the memory beyond the tensors."""
    plan = staged_plan()
    assert plan.output.name == "dw"
    assert plan.zeroed == ("ws",)
    assert plan.workspace_bytes == 256 + 12
    assert [launch.symbol for launch in plan.launches] == ["first", "second"]


def test_what_a_caller_must_keep() -> None:
    """Aligned pointers, buffers apart, coarse-grained memory where atomics add, and how far results may be off."""
    told = staged_plan().to_json()
    assert told["requirements"] == {
        "alignment_bytes": 16,
        "disjoint": ("dy", "x", "dw", "ws", "records"),
        "coarse_grained": ("ws",),
    }
    assert told["accuracy"] == {"random_ulps": 0.289, "expected_ulps": 0.289, "worst_ulps": 0.5}
    assert Plan("gfx950", PROBLEM, (), ()).accuracy.worst_ulps == 0
    with pytest.raises(PlanError, match="'q'"):
        Plan("gfx950", PROBLEM, (), (), added_to=("q",))


def test_arguments_are_packed_at_their_offsets() -> None:
    """Addresses and values stand where the plan says."""
    launch = staged_plan().launches[0]
    packed = launch.pack({"dy": 0x1000, "ws": 0x2000, "records": 0x3000, "dw": 0x4000})
    assert struct.unpack("<QQQi", packed) == (0x1000, 0x2000, 0x3000, -5)
    assert [launch.argument_list().offsets[a.name] for a in launch.arguments] == [a.offset for a in launch.arguments]
    with pytest.raises(PlanError, match="records"):
        launch.pack({"dy": 0x1000, "ws": 0x2000})


def test_contradictions_are_refused() -> None:
    """A step on a buffer that is not there, two buffers of one name, a table without contents, contents elsewhere."""
    output = Buffer("dw", "output", "bf16", (2, 1, 1, 4), 16)
    with pytest.raises(PlanError, match="'ws'"):
        Plan("gfx950", PROBLEM, (output,), (Fill("ws"),))
    with pytest.raises(PlanError, match="repeat"):
        Plan("gfx950", PROBLEM, (output, output), ())
    for role, contents in (("table", None), ("output", (1,)), ("scratch", None)):
        with pytest.raises(PlanError, match="role"):
            Plan("gfx950", PROBLEM, (Buffer("t", role, "int32", (1,), 4, contents),), ())
    with pytest.raises(PlanError, match="no buffer 'q'"):
        staged_plan().buffer("q")


@pytest.mark.parametrize(
    "damage",
    [
        {"format": "rocke-aot-plan/0"},
        {"steps": [{"kind": "copy"}]},
        {"steps": [{"kind": "fill", "buffer": "dw", "color": 1}]},
        {"buffers": None},
        {"buffers": [{"name": "dw"}]},
        {"problem": {"direction": "wgrad"}},
        {"requirements": {}},
    ],
)
def test_foreign_data_is_a_typed_error(damage: dict[str, object]) -> None:
    """Nothing but a plan becomes a plan."""
    with pytest.raises(RequestError):
        Plan.from_json({**staged_plan().to_json(), **damage})
    record = staged_plan().to_json()
    del record["arch"]
    with pytest.raises(PlanError, match="arch"):
        Plan.from_json(record)
