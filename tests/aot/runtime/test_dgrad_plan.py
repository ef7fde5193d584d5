"""Plans of backward data: the table does all of the work once, and dX is zeroed exactly where it has to be."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from aot.kernels.dgrad_table import RECORD_FIELDS, RECORD_WORDS
from aot.runtime.plan import NotServedError, make_plan
from aot.runtime.plan_data import Buffer, Launch, Plan
from cache_schema.problem import ConvProblem
from tests.aot.dgrad_kernels import Kernel, dgrad, problem


def described(**fields: int | str | bool) -> Kernel:
    """A kernel as a plan sees it, without code."""
    from aot.kernels.dgrad_arguments import dgrad_arguments

    identity = dgrad(**fields)  # type: ignore[arg-type]
    return Kernel(identity, bytes(20), "rocke_none", "0" * 64, 128, dgrad_arguments(), b"")


def table_of(plan: Plan) -> Buffer:
    return plan.buffer("sub_gemms")


def fields_of(plan: Plan) -> list[dict[str, int]]:
    """The records of a plan's table."""
    words = table_of(plan).contents or ()
    (launch,) = plan.launches
    count = next(argument.value for argument in launch.arguments if argument.name == "num_sub_gemms")
    assert count is not None
    return [
        dict(zip(RECORD_FIELDS, words[RECORD_WORDS * s : RECORD_WORDS * (s + 1)], strict=True)) for s in range(count)
    ]


def visits(record: dict[str, int], axis: str, of: ConvProblem) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Pixels that a record writes along one axis, and the (pixel, tap, row of dY) that it adds up there."""
    size, out = (of.h, of.ho) if axis == "h" else (of.w, of.wo)
    tap = "y" if axis == "h" else "x"
    written, terms = [], []
    for step in range(record[f"{axis}_tilde_slice"]):
        pixel = step * record[f"d_{axis}_stride"] + record[f"d_{axis}_offset"]
        if not 0 <= pixel < size:
            continue
        written.append(pixel)
        for dot in range(record[f"{tap}_dot_slice"]):
            row = step + record[f"{axis}_tilde_slice_begin"] + dot * record[f"a_embed_{axis}_coeff"]
            if 0 <= row < out:
                terms.append((pixel, dot * record[f"b_{tap}_stride"] + record[f"b_{tap}_offset"], row))
    return written, terms


def definition(of: ConvProblem, axis: str) -> list[tuple[int, int, int]]:
    """(pixel, tap, row of dY) of one axis by the definition."""
    size, out, taps, stride, pad, dilation = (
        (of.h, of.ho, of.y, of.stride_h, of.pad_h, of.dilation_h)
        if axis == "h"
        else (of.w, of.wo, of.x, of.stride_w, of.pad_w, of.dilation_w)
    )
    return [
        (row * stride - pad + tap * dilation, tap, row)
        for row, tap in product(range(out), range(taps))
        if 0 <= row * stride - pad + tap * dilation < size
    ]


def check(kernel: Kernel, of: ConvProblem) -> bool:
    """One problem against the definition; whether dX is zeroed."""
    plan = make_plan(kernel, of)
    found = fields_of(plan) if plan.launches else []
    pixels: Counter[tuple[int, int]] = Counter()
    terms: list[tuple[tuple[int, int, int], tuple[int, int, int]]] = []
    for record in found:
        rows, row_terms = visits(record, "h", of)
        cols, col_terms = visits(record, "w", of)
        pixels.update(product(rows, cols))
        terms += product(row_terms, col_terms)
    assert sorted(terms) == sorted(product(definition(of, "h"), definition(of, "w")))
    assert max(pixels.values(), default=0) <= 1
    complete = len(pixels) == of.h * of.w
    assert plan.zeroed == (() if complete else ("dx",))
    return not complete


def test_the_zero_fill_is_exact_along_an_axis() -> None:
    """Strides and dilations to 4, pads and filters to 7: all terms once, no pixel twice, zeroed if one is missing."""
    kernel, zeroed, seen = described(), 0, 0
    for stride, dilation, pad, taps in product(range(1, 5), range(1, 5), range(8), range(1, 8)):
        for size in (1, 4, 9):
            if size + 2 * pad < dilation * (taps - 1) + 1:
                continue
            of = problem(w=1, stride_h=stride, dilation_h=dilation, pad_h=pad, y=taps, h=size)
            fills = check(kernel, of)
            assert not (fills and stride == 1)
            assert not (fills and dilation == 1 and taps >= stride)
            zeroed, seen = zeroed + fills, seen + 1
    assert seen > 1500
    assert zeroed > seen / 8


def test_the_zero_fill_is_exact_in_the_plane() -> None:
    """The same for random pairs of axes, where one axis may be complete and the other not."""
    kernel, dice, zeroed, seen = described(), random.Random(7), 0, 0
    while seen < 300:
        fields = {
            "n": dice.randint(1, 2), "h": dice.randint(1, 9), "w": dice.randint(1, 9),
            "y": dice.randint(1, 4), "x": dice.randint(1, 4), "pad_h": dice.randint(0, 4), "pad_w": dice.randint(0, 4),
            "stride_h": dice.randint(1, 4), "stride_w": dice.randint(1, 4),
            "dilation_h": dice.randint(1, 4), "dilation_w": dice.randint(1, 4),
        }  # fmt: skip
        if any(
            fields[size] + 2 * fields[f"pad_{size}"] < fields[f"dilation_{size}"] * (fields[taps] - 1) + 1
            for size, taps in (("h", "y"), ("w", "x"))
        ):
            continue
        of = replace(problem(), **fields)  # type: ignore[arg-type]
        zeroed, seen = zeroed + check(kernel, of), seen + 1
    assert 30 < zeroed < 270


def test_the_launch_covers_all_tiles_of_all_groups() -> None:
    """Grid x is the tiles of all records, y the groups; the table stands in the plan, and the plan survives JSON."""
    of = problem(n=2, c=3 * 40, h=9, w=8, k=3 * 24, y=3, x=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2, groups=3)
    plan = make_plan(described(), of)
    (launch,) = plan.launches
    found = fields_of(plan)
    tiles = sum(record["num_m_tiles"] * record["num_n_tiles"] for record in found)
    assert launch.grid == (tiles, 3, 1)
    assert len(found) == 4
    assert table_of(plan).nbytes == 4 * len(table_of(plan).contents or ()) == 4 * 30 * len(found)
    assert table_of(plan).role == "table"
    assert plan.workspace_bytes == table_of(plan).nbytes
    assert plan.deterministic
    bound = {argument.name: argument.buffer for argument in launch.arguments if argument.buffer}
    assert bound == {"A": "dy", "B": "w", "D": "dx", "sub_gemm_buf": "sub_gemms"}
    assert Plan.from_json(plan.to_json()) == plan


def test_the_fill_comes_first() -> None:
    """Zeros after the kernel would erase it."""
    plan = make_plan(described(), problem(h=5, w=5, stride_h=2, stride_w=2))
    assert plan.zeroed == ("dx",)
    assert isinstance(plan.steps[-1], Launch)
    assert len(plan.steps) == 2


@pytest.mark.parametrize(
    ("folded", "of", "reason"),
    [
        (False, problem(c=4, k=16, groups=4), "S_depthwise_dgrad"),
        (False, problem(h=40, w=40, y=9, x=9, stride_h=9, stride_w=9), "S_sub_gemms"),
        (False, problem(k=6), "S_width_a"),
        (False, problem(c=6), "S_width_b"),
        (True, problem(stride_h=2), "S_stride"),
        (True, problem(y=2, x=2, dilation_w=2), "S_dilation"),
    ],
)
def test_refusals_have_reasons(folded: bool, of: ConvProblem, reason: str) -> None:
    """Depthwise groups, more records than the table has, widths, strides of a folded record."""
    fields = {"S_depthwise_dgrad": {"vector_size_b": 1}}
    with pytest.raises(NotServedError) as caught:
        make_plan(described(folded=folded, **fields.get(reason, {})), of)
    assert caught.value.reason == reason
