"""Which kernels serve a problem: both sides of every limit, and columns against the rules asked one at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from typing import Any

import numpy as np
import pytest

from cache_schema.identity import CONFIGURATION, Axis, Field, Identity, Value, foreign_schema, with_fields
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable, concat
from grids.addressing import reaches_of
from grids.catalogue import buildable
from grids.families import families, known_family
from grids.gemm.records import Gemm
from grids.served import ServedRows
from grids.serving import ASKED, serves, serving_reasons
from grids.split_k import usable_degrees
from tests.grids.kernels import kernel, sample
from tests.grids.problems import random_problem

Fields = dict[str, Value]
Extents = dict[str, int]


def reason(identity: Identity, problem: ConvProblem, limit: int | None = None) -> str:
    mask, codes = serves(IdentityTable.from_identities([identity]), problem, limit)
    assert mask[0] == (codes[0] == 0)
    return serving_reasons()[int(codes[0])]


def plain(direction: str, **extents: int) -> ConvProblem:
    """A 1x1 problem on one pixel, but for the given extents."""
    return ConvProblem(direction, "bf16", **({"n": 1, "c": 8, "h": 1, "w": 1, "k": 8, "y": 1, "x": 1} | extents))


def grouped(groups: int, per_group: int = 8, **extents: int) -> Extents:
    return {"c": per_group * groups, "k": per_group * groups, "groups": groups} | extents


@dataclass(frozen=True)
class Limit:
    """Both sides of a serving rule: a family's usual kernel, changed, serves a problem, changed, and then no longer."""

    code: str
    family: str
    good: Extents
    bad: Extents
    fields: Fields = field(default_factory=dict)


SMALL: Fields = {
    "tile_m": 16, "tile_n": 16, "tile_k": 32, "warp_m": 1, "warp_n": 1, "warp_tile_m": 16, "warp_tile_n": 16,
    "warp_tile_k": 32,
}  # fmt: skip
ONE: Fields = {"vector_size_a": 1, "vector_size_b": 1, "vector_size_c": 1}
DIRECT: Fields = {"async_dma": True, "async_chunk_a": 6, "async_chunk_b": 2}
TWO_TILES = {"n": 65}
FAR = 2**28 // (2 + 2 * 128)

LIMITS = (
    # Loads of A and B of forward run along C/groups, stores along K/groups; all of backward data and weights but A
    # run along C/groups.
    Limit("S_width_a", "implicit_gemm", {"c": 24}, {"c": 12}, {"vector_size_b": 4}),
    Limit("S_width_b", "implicit_gemm", {"c": 24}, {"c": 12}, {"vector_size_a": 4}),
    Limit("S_width_c", "implicit_gemm", {"k": 24}, {"k": 12}),
    Limit("S_width_a", "tilde", {"k": 24}, {"k": 12}),
    Limit("S_width_b", "stride1", {"c": 24}, {"c": 12}, {"vector_size_c": 1}),
    Limit("S_width_c", "tilde", {"c": 24}, {"c": 12}, {"vector_size_b": 4}),
    Limit("S_width_a", "nonsplit", grouped(2), grouped(2, k=8)),
    Limit("S_width_b", "stream_k", grouped(2), grouped(2, c=8)),
    Limit("S_width_c", "nonsplit", {"c": 8}, {"c": 4}, {"vector_size_b": 4}),
    # Chunks of A run along C/groups in forward and K/groups in backward weights, those of B along C/groups.
    Limit("S_async_chunk", "implicit_gemm", {"c": 24}, {"c": 16}, DIRECT),
    Limit("S_async_chunk", "nonsplit", {"k": 24}, {"k": 16}, DIRECT),
    Limit("S_async_chunk", "two_stage", {"k": 6, "c": 4, "n": 65}, {"c": 3}, DIRECT | ONE | {"vector_size_a": 0}),
    Limit("S_reduction", "implicit_gemm", {"c": 2**23 - 8}, {"c": 2**23}),
    Limit("S_reduction", "implicit_gemm", {"c": 2**21 - 8, "y": 2, "x": 2, "h": 2, "w": 2}, {"c": 2**21}),
    # Grid y counts tiles of 16 rows, grid z the groups of forward and weights, grid y those of backward data.
    Limit("S_grid", "implicit_gemm", {"n": 65535 * 16}, {"n": 65535 * 16 + 1}, SMALL),
    Limit("S_grid", "implicit_gemm", {"k": 65535 * 16}, {"k": 65535 * 16 + 8}, SMALL),
    Limit("S_grid", "implicit_gemm", grouped(65535), grouped(65536)),
    Limit("S_grid", "stride1", grouped(65535), grouped(65536)),
    Limit("S_grid", "nonsplit", grouped(65535), grouped(65536)),
    Limit("S_grid", "implicit_gemm", {"n": 1}, {"n": 0}),
    Limit("S_grid", "tilde", {"n": 1}, {"n": 0}),
    # Twice the padding is a coordinate.
    Limit("S_addressing", "implicit_gemm", {"pad_h": 2**27 - 1, "stride_h": 2**28}, {"pad_h": 2**27}),
    # Two taps and two tiles of 128 columns further: (2 + 256) * dilation.
    Limit("S_addressing", "nonsplit", {"h": 2**21, "y": 2, "dilation_h": FAR}, {"dilation_h": FAR + 1}),
    # Bytes of a pixel: 2^23, but half of it where dY is addressed twice.
    Limit("S_addressing", "implicit_gemm", {"k": 2**22}, {"k": 2**22 + 8}),
    Limit("S_addressing", "nonsplit", {"k": 2**21}, {"k": 2**21 + 8}),
    Limit("S_addressing", "stride1", {"c": 2**22}, {"c": 2**22 + 8}),
    # 2^30 - 8 pixels of one channel are 0x7FFFFFF0 bytes of dX.
    Limit("S_addressing", "tilde", {"n": 2**30 - 8, "c": 1, "k": 1}, {"n": 2**30 - 7}, ONE | {"epilogue": "default"}),
    Limit("S_addressing", "tilde", {"h": 2, "stride_h": 2**27 - 1}, {"stride_h": 2**27}),
    # 2^14 and 2^16 tiles of 128 columns and 64 pixels: all K tiles twice are 2^31.
    Limit(
        "S_addressing",
        "stream_k",
        {"k": 128, "h": 2559, "w": 2558, "y": 512, "x": 511},
        {"w": 2559, "x": 512},
    ),
    # A whole tile of 128 rows, most of them surplus, is 4 * 128 * c bytes of workspace or 2 * 128 * c of dW: 2^31.
    Limit("S_addressing", "two_stage", {"c": 2**22, "n": 65}, {"c": 2**22 + 8}),
    Limit("S_addressing", "nonsplit", {"c": 2**23}, {"c": 2**23 + 8}, {"tile_n": 256}),
    Limit("S_sub_gemms", "tilde", {"h": 9, "w": 9, "y": 3, "x": 3, "stride_h": 2, "stride_w": 2}, {"stride_w": 3},
          {"max_sub_gemms": 4}),
    Limit("S_stride", "stride1", {"h": 9, "w": 9}, {"stride_h": 2}),
    Limit("S_stride", "stride1", {"h": 9, "w": 9}, {"stride_w": 2}),
    Limit("S_dilation", "stride1", {"h": 9, "w": 9, "y": 2, "x": 2}, {"dilation_h": 2}),
    Limit("S_dilation", "stride1", {"h": 9, "w": 9, "y": 2, "x": 2}, {"dilation_w": 2}),
    Limit("S_depthwise_dgrad", "tilde", {"c": 2, "k": 4, "groups": 1}, {"groups": 2}, ONE | {"epilogue": "default"}),
    Limit("S_depthwise_dgrad", "stride1", {"c": 1, "k": 4}, {"c": 4, "groups": 4}, ONE | {"epilogue": "default"}),
    # Rows of dW of 3 channels begin on odd elements; stores of single elements are never pairs.
    Limit("S_atomic_pairs", "atomic", {"c": 4, **TWO_TILES}, {"c": 3}, ONE | {"vector_size_c": 0}),
    # Of 64 pixels there is one K tile; two slices of 32768 groups are beyond grid z.
    Limit("S_split_degree", "atomic", TWO_TILES, {"n": 64}),
    Limit("S_split_degree", "two_stage", TWO_TILES, {"n": 64}),
    Limit("S_split_degree", "two_stage", grouped(32767, n=128), grouped(32768)),
    Limit("S_split_degree", "merged", grouped(65534, 1, n=128), grouped(65536, 1)),
    Limit("S_group_merge", "merged", grouped(8, 1, n=65), grouped(8, 2), {"group_merge": 4}),
    Limit("S_group_merge", "merged", grouped(8, 1, n=65), {"k": 16}, {"group_merge": 4}),
    Limit("S_group_merge", "merged", grouped(8, 1, n=65), grouped(6, 1), {"group_merge": 4}),
    # A 3 x 3 filter of 8 groups is 72 columns, of 9 x 9 taps 648.
    Limit("S_group_merge", "merged", grouped(8, 1, n=65, h=9, w=9, y=3, x=3), {"y": 9, "x": 9}, {"group_merge": 8}),
)  # fmt: skip


def both(limit: Limit) -> tuple[ConvProblem, ConvProblem]:
    """The problem that is served, and the one that is not."""
    direction = known_family(limit.family).direction
    return plain(direction, **limit.good), plain(direction, **(limit.good | limit.bad))


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.code}-{limit.family}")
def test_both_sides(limit: Limit) -> None:
    """A kernel serves on one side of each limit, and on the other this rule, and no earlier one, says why not."""
    identity = kernel(limit.family, **limit.fields)
    assert [reason(identity, problem) for problem in both(limit)] == ["", limit.code]


def test_every_serving_rule_has_both_sides() -> None:
    """No rule is left out: what has no limit above has a test of its own below."""
    assert {limit.code for limit in LIMITS} | {"S_dtype", "S_workspace", *ASKED} == set(serving_reasons()) - {""}
    for limit in LIMITS:
        assert limit.code in {rule.code for rule in known_family(limit.family).serving}


@pytest.mark.parametrize("family", [name for name, family in families().items() if not family.is_step])
def test_data_types(family: str) -> None:
    """No kernel serves a problem of another data type, whichever operand is of another."""
    problem = plain(known_family(family).direction, n=65, **(grouped(8, 1) if family == "merged" else {}))
    assert reason(kernel(family), problem) == ""
    assert reason(kernel(family), replace(problem, dtype="fp16")) == "S_dtype"
    for operand in ("dtype_a", "dtype_b"):
        assert reason(kernel(family, **{operand: "fp16"}), problem) == "S_dtype"


def test_atomics_are_pairs() -> None:
    """Slices added as single elements are never served, whatever the problem; stores of pairs, or as derived, are."""
    for width, expected in ((0, ""), (1, "S_atomic_pairs"), (2, ""), (8, "")):
        assert reason(kernel("atomic", vector_size_c=width), plain("wgrad", n=65)) == expected


def test_workspace_limits() -> None:
    """Scratch is served up to the last byte of the limit: f32 replicas of dW, or parts of resident workgroups."""
    problem = plain("wgrad", n=65, c=24, k=16, h=5, w=5, y=3, x=3)
    depthwise = plain("wgrad", **grouped(8, 1, n=65, h=5, w=5, y=3, x=3))
    # 64 accumulators and 96 other registers: three waves of 160 on each of 4 SIMDs are three workgroups of four waves.
    parts = {"gfx950": 256 * 3 * 2 * 128 * 128 * 4, "gfx942": 304 * 3 * 2 * 128 * 128 * 4}
    cases = [
        (kernel("two_stage", ws_replicas=4), problem, 4 * 4 * 16 * 9 * 24),
        (kernel("merged", ws_replicas=2), depthwise, 4 * 2 * 8 * 9),
        *((kernel("stream_k", arch=arch), problem, size) for arch, size in parts.items()),
        (kernel("nonsplit"), problem, 0),
        (kernel("atomic"), problem, 0),
    ]
    for identity, served, size in cases:
        assert reason(identity, served) == reason(identity, served, size) == ""
        assert not size or reason(identity, served, size - 1) == "S_workspace", identity


def test_widths_are_brute_force() -> None:
    """A width is refused exactly when some vector of it would hold elements of two groups."""
    widths, runs = range(9), range(1, 25)
    pairs = [(loads, stores) for loads in widths for stores in widths]
    table = IdentityTable.from_identities(
        [kernel("implicit_gemm", vector_size_a=a, vector_size_b=a, vector_size_c=c) for a, c in pairs]
    )

    def straddles(width: int, run: int) -> bool:
        return width > 0 and any(first // run != (first + width - 1) // run for first in range(0, run * width, width))

    for cpg in runs:
        for kpg in (1, 2, 3, 6, 8, 24):
            mask, _ = serves(table, plain("fwd", c=cpg * 2, k=kpg * 2, groups=2))
            expected = [not straddles(loads, cpg) and not straddles(stores, kpg) for loads, stores in pairs]
            assert mask.tolist() == expected, (cpg, kpg)


def lattices(taps: int, stride: int, dilation: int, pad: int, size: int, out: int) -> int:
    """Lattices of one axis with taps and rows, counted from the published text."""
    step = stride // int(np.gcd(stride, dilation))
    extent = out + (ceil(dilation * (taps - 1) / stride) if taps > 1 else 0)
    rows = min(extent, ceil((pad + size - 1) / stride) + 1) - max(0, pad - dilation * (step - 1)) // stride
    return sum(ceil((taps - offset) / step) > 0 and rows > 0 for offset in range(min(step, taps)))


def test_sub_gemms_are_counted() -> None:
    """A tilde kernel serves as many sub-GEMMs as it says, whatever strides, dilations, filters and pads make them."""
    rng, seen = random.Random(15), set[bool]()
    kernels = [kernel("tilde", max_sub_gemms=count, **ONE) for count in range(1, 65)]
    table, refused = IdentityTable.from_identities(kernels), serving_reasons().index("S_sub_gemms")
    for _ in range(300):
        p = replace(random_problem(rng), direction="dgrad", dtype="bf16", groups=1)
        if min(p.n, p.ho, p.wo) < 1:
            continue
        count = lattices(p.y, p.stride_h, p.dilation_h, p.pad_h, p.h, p.ho)
        count *= lattices(p.x, p.stride_w, p.dilation_w, p.pad_w, p.w, p.wo)
        codes = serves(table, p)[1]
        assert (codes == refused).tolist() == [limit < count for limit in range(1, 65)], p
        seen.add(count > 1)
    assert seen == {True, False}


def test_split_kernels_serve_where_they_have_a_degree() -> None:
    """Whether two slices are possible is what the list of degrees says."""
    rng, seen = random.Random(16), set[bool]()
    tiles = (16, 32, 64)
    table = IdentityTable.from_identities([kernel("two_stage", tile_k=tile_k, **ONE) for tile_k in tiles])
    refused = serving_reasons().index("S_split_degree")
    for _ in range(400):
        p = replace(random_problem(rng, large=True), direction="wgrad", dtype="bf16")
        pixels = p.n * p.ho * p.wo
        codes = serves(table, p)[1]
        for tile_k, code in zip(tiles, codes, strict=True):
            degrees = usable_degrees(gemm_k=pixels, tile_k=tile_k, groups=p.groups)
            assert (code == refused) == (not degrees), p
            seen.add(bool(degrees))
    assert seen == {True, False}


def test_addressing_is_what_plans_refuse() -> None:
    """However large the problem, a kernel is refused for its addresses exactly when one of its reaches is exceeded."""
    rng, seen = random.Random(17), set[bool]()
    gemms = [one for one in sample(rng, 4) if isinstance(one, Gemm)]
    position = serving_reasons().index("S_addressing")
    table = IdentityTable.from_identities(gemms)
    problems = [problem for limit in LIMITS if limit.code == "S_addressing" for problem in both(limit)]
    for problem in [*problems, *(random_problem(rng, large=True) for _ in range(30))]:
        codes = serves(table, problem)[1]
        for one, code in zip(gemms, codes, strict=True):
            # It is the last rule of every family.
            if code in (0, position):
                exceeds = any(reach.exceeds for reach in reaches_of(one, problem))
                assert exceeds == (code == position), (one, problem)
                seen.add(exceeds)
    assert seen == {True, False}
    assert all(family.serving[-1].code == "S_addressing" for family in families().values() if family.serving)


# --- what is asked of every family -----------------------------------------------------------------------------------


@cache
def foreign() -> Identity:
    """A kernel of a family that only a file describes."""
    points = Field("points", "int", 4, Axis("points", "points of a transform", CONFIGURATION, 0, 64))
    schema = foreign_schema("winograd", "fwd", (points,))
    return with_fields(schema.record("gfx950", "bf16", "bf16", "bf16"), points=6)


def test_foreign_families_are_never_served() -> None:
    """Rows of a family that only a file describes serve nothing, and change nothing for the rows beside them."""
    strange = foreign()
    rows = [kernel("implicit_gemm"), strange, kernel("tilde"), strange, kernel("implicit_gemm", dtype_a="fp16")]
    mask, codes = serves(IdentityTable.from_identities(rows), plain("fwd"))
    assert [serving_reasons()[code] for code in codes] == ["", "S_family", "S_direction", "S_family", "S_dtype"]
    assert mask.tolist() == [True, False, False, False, False]
    assert {reason(strange, plain(direction)) for direction in ("fwd", "dgrad", "wgrad")} == {"S_family"}


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
def test_direction_and_steps(direction: str) -> None:
    """Kernels of another direction, and steps of other kernels' plans, are never offered; all the others are."""
    problem = plain(direction, n=65, groups=8, h=5, w=5)
    merged = replace(problem, c=8, k=8)
    for name, family in families().items():
        answer = reason(kernel(name), merged if name == "merged" else replace(problem, c=64, k=64))
        assert answer == ("S_direction" if family.direction != direction else "S_step" if family.is_step else ""), name


# --- columns ---------------------------------------------------------------------------------------------------------


#: Capabilities that the catalogue does not vary, so that the rules for them are reached in random tables too.
CHANGES: dict[str, tuple[Value, ...]] = {
    "max_sub_gemms": (1, 2, 4), "async_dma": (True,), "async_chunk_a": (0, 2, 6), "async_chunk_b": (2, 8),
    "vector_size_a": (0, 1, 2), "vector_size_b": (1, 3, 4), "vector_size_c": (1, 3, 8), "group_merge": (2, 3, 4),
    "ws_replicas": (1, 16), "dtype_a": ("fp16", "bf16"), "tile_m": (16, 32), "tile_n": (16, 512), "tile_k": (16,),
}  # fmt: skip


def changed(identity: Identity, rng: random.Random) -> Identity:
    names = [name for name in CHANGES if name in known_family(identity.family).schema.by_name]
    values: dict[str, Any] = {name: rng.choice(CHANGES[name]) for name in rng.sample(names, min(2, len(names)))}
    return replace(identity, **values)


@pytest.fixture(scope="module")
def kernels() -> list[Identity]:
    """Kernels of all families, architectures and dtypes, some with capabilities changed, and some of no family."""
    rng = random.Random(11)
    found = sample(rng, 6)
    found += [changed(identity, rng) for identity in sample(rng, 6)] + [foreign(), foreign()]
    rng.shuffle(found)
    return found


def first_failing(identity: Identity, problem: ConvProblem, limit: int | None) -> str:
    """The reason of one row, asked of the rules one at a time."""
    family = families().get(identity.family)
    if family is None:
        return "S_family"
    if family.direction != problem.direction:
        return "S_direction"
    if family.is_step:
        return "S_step"
    rows = ServedRows(IdentityTable.from_identities([identity]), identity.arch, problem, limit)
    return next((rule.code for rule in family.serving if np.any(rule.fails(rows))), "")


def test_columns_agree_with_rows(kernels: list[Identity]) -> None:
    """In a mixed table every kernel gets, on problems small and huge, what the rules say of it alone, one by one."""
    rng, seen, table = random.Random(12), set[str](), IdentityTable.from_identities(kernels)
    problems = [both(limit)[1] for limit in LIMITS[::3]]
    problems += [random_problem(rng, large=trial % 2 == 1) for trial in range(40)]
    for problem in problems:
        limit = rng.choice((None, 0, 1 << 16, 1 << 24))
        mask, codes = serves(table, problem, limit)
        expected = [first_failing(identity, problem, limit) for identity in kernels]
        assert [serving_reasons()[code] for code in codes] == expected, problem
        assert (mask == (codes == 0)).all()
        seen |= set(expected)
    assert set(serving_reasons()) - seen <= {"S_workspace", "S_dilation"}


def test_constant_columns_change_nothing(kernels: list[Identity]) -> None:
    """A row judged alone or twice, where every column is constant, gets the same reason as in its table."""
    rng, table = random.Random(13), IdentityTable.from_identities(kernels)
    for _ in range(20):
        problem = random_problem(rng)
        _, codes = serves(table, problem)
        for index in rng.sample(range(len(table)), 20):
            one = table.take(np.array([index]))
            doubled = table.take(np.array([index, index]))
            assert [serves(one, problem)[1][0], *serves(doubled, problem)[1]] == [codes[index]] * 3


def test_joined_tables_change_nothing(kernels: list[Identity]) -> None:
    """The verdicts of a joined table are those of its parts, whatever columns the others bring along."""
    rng = random.Random(14)
    for _ in range(20):
        problem, cut = random_problem(rng), rng.randrange(1, len(kernels))
        parts = [IdentityTable.from_identities(part) for part in (kernels[:cut], kernels[cut:])]
        joined = serves(concat(parts), problem)[1]
        assert joined.tolist() == [code for part in parts for code in serves(part, problem)[1].tolist()]


def test_stride1_and_tilde_binaries() -> None:
    """The stride-1 binary is offered at stride 1 and dilation 1 only; the tilde binary at every stride."""
    table = buildable("gfx950", ["bf16"], ["dgrad"], limit=400)
    folded = table.equals("family", "stride1")
    assert 100 < folded.sum() < 300
    shape = {"n": 2, "c": 64, "h": 28, "w": 28, "k": 64, "y": 3, "x": 3, "pad_h": 2, "pad_w": 2}
    for stride, dilation, serves_folded in ((1, 1, True), (2, 1, False), (1, 2, False), (2, 3, False)):
        problem = ConvProblem(
            "dgrad", "bf16", **shape, stride_h=stride, stride_w=stride, dilation_h=dilation, dilation_w=dilation
        )
        mask, _ = serves(table, problem)
        assert mask[~folded].all()
        assert mask[folded].all() == mask[folded].any() == serves_folded


def test_odd_channels_reach_no_atomics() -> None:
    """A 3-channel stem is served by single-element kernels without packed atomics, and by some."""
    table = buildable("gfx950", ["bf16"], ["wgrad"], limit=2000)
    stem = ConvProblem(
        "wgrad", "bf16", n=8, c=3, h=224, w=224, k=64, y=7, x=7, stride_h=2, stride_w=2, pad_h=3, pad_w=3
    )
    mask, _ = serves(table, stem)
    served = table.take(mask)
    assert set(served.strings("family")) == {"nonsplit", "two_stage", "stream_k"}
    assert set(served.wide("vector_size_b").tolist()) == {1}


def test_empty_table() -> None:
    """No kernels, no answers, no error."""
    mask, codes = serves(IdentityTable.from_identities([]), random_problem(random.Random(14)))
    assert len(mask) == len(codes) == 0
