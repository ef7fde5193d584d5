"""Every rule bites where it should and nowhere else, whatever table its rows stand in."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from cache_schema.errors import UnknownValueError
from cache_schema.identity import Identity, Value, foreign_schema, with_fields
from cache_schema.table import IdentityTable, concat
from grids.families import families, known_family
from grids.rules import evaluate, reason_codes, rule_of
from grids.targets import target
from tests.grids.kernels import buildable, candidates, kernel, sample, spoilt


def verdict(identity: Identity) -> str:
    return evaluate(IdentityTable.from_identities([identity])).reason(0)


Fields = dict[str, Value]
#: Workgroups of 16 waves, which are many for small tiles: 16 along m, or 4 x 4.
COLUMN: Fields = {
    "tile_m": 256, "tile_n": 16, "warp_m": 16, "warp_n": 1, "warp_tile_m": 16, "warp_tile_n": 16, "vector_size_a": 4,
}  # fmt: skip
SQUARE: Fields = {
    "tile_m": 64, "tile_n": 64, "warp_m": 4, "warp_n": 4, "warp_tile_m": 16, "warp_tile_n": 16, "warp_tile_k": 32,
    "vector_size_a": 4, "vector_size_b": 4,
}  # fmt: skip
PLAIN_STORES: Fields = {"epilogue": "default", "vector_size_c": 1}
DIRECT: Fields = {"async_dma": True, "async_chunk_a": 8, "async_chunk_b": 8}
WGRAD_DIRECT: Fields = {**DIRECT, "vector_size_a": 0, "vector_size_b": 0, "lds_k_outer": True}
#: The depth is that of its deepest 32 x 32 atom.
GFX942: Fields = {"arch": "gfx942", "warp_tile_k": 8}


@dataclass(frozen=True)
class Sides:
    """Both sides of a rule: `good` and then `bad` changes to the usual kernel of a family."""

    code: str
    family: str
    good: Fields
    bad: Fields


SIDES = (
    # A tile of 128 has no whole 3 x 32; a K tile of 8 no whole atom of depth 16.
    Sides("F1_divisibility", "implicit_gemm", {"tile_k": 16}, {"tile_k": 8}),
    Sides("F1_divisibility", "implicit_gemm", {}, {"warp_m": 3}),
    # 4 x 4 waves are 1024 threads.
    Sides("F2_threads", "implicit_gemm", {"warp_m": 4, "warp_n": 4, "tile_n": 256}, {"warp_n": 8}),
    Sides("F3_store_width", "implicit_gemm", PLAIN_STORES, {"vector_size_c": 2}),
    # gfx950 has 32x32x16 and 32x32x8, gfx942 the latter alone; neither has 32x32x32, mixed
    # data types, or an atom that is not square.
    Sides("F4_atom", "implicit_gemm", {"warp_tile_k": 8}, {"warp_tile_k": 32}),
    Sides("F4_atom", "implicit_gemm", GFX942, {"warp_tile_k": 16}),
    Sides("F4_atom", "implicit_gemm", {}, {"dtype_d": "fp32"}),
    Sides("F4_atom", "implicit_gemm", {}, {"dtype_b": "fp16"}),
    Sides("F4_atom", "implicit_gemm", {}, {"warp_tile_n": 16}),
    # The C tile alone: 128 * 256 * 2 bytes are all that gfx942 has.
    Sides("F5_lds", "implicit_gemm", {**GFX942, "tile_n": 256, "tile_k": 32}, {"tile_m": 256}),
    # Two padded buffers: 2 * 512 * 72 * 2 bytes fit gfx950, 2 * 512 * 136 * 2 do not.
    Sides("F5_lds", "implicit_gemm", {"tile_m": 256, "tile_n": 256, "unroll_k": True}, {"tile_k": 128}),
    # 64 x 16 elements are four for each of 256 threads.
    Sides("F11_load_a", "implicit_gemm", {"tile_m": 64, "tile_k": 16, "vector_size_a": 4}, {"vector_size_a": 8}),
    Sides("F12_load_b", "implicit_gemm", {"tile_n": 64, "tile_k": 16, "vector_size_b": 4}, {"vector_size_b": 8}),
    Sides("F13_async_chunk", "implicit_gemm", DIRECT, {"async_chunk_a": 0}),
    Sides("F13_async_chunk", "implicit_gemm", DIRECT, {"async_chunk_b": 0}),
    # gfx950 loads 1, 3 or 4 dwords straight to LDS.
    Sides("F13_async_chunk", "implicit_gemm", {**DIRECT, "async_chunk_a": 2}, {"async_chunk_a": 4}),
    Sides("F13_async_chunk", "implicit_gemm", {}, {"async_chunk_b": 8}),
    Sides("F11_load_a", "implicit_gemm", {}, {"vector_size_a": 0}),
    Sides("F12_load_b", "implicit_gemm", {}, {"vector_size_b": 0}),
    Sides("F14_store", "implicit_gemm", {}, {"vector_size_c": 0}),
    # 64 x 64 elements are four for each of 1024 threads.
    Sides("F14_store", "implicit_gemm", {**SQUARE, "vector_size_c": 4}, {"vector_size_c": 8}),
    # 128 x 128 per wave are 256 per lane.
    Sides("F15_accumulators", "implicit_gemm", {**PLAIN_STORES, "tile_m": 256, "tile_n": 256}, {"tile_m": 512}),
    Sides("F16_one_loop", "implicit_gemm", DIRECT, {"unroll_k": True}),
    Sides("F16_one_loop", "implicit_gemm", {"unroll_k": True}, DIRECT),
    Sides("F17_shifts", "implicit_gemm", {"tile_m": 256}, {"tile_m": 192}),
    Sides("F17_shifts", "implicit_gemm", {"tile_n": 256}, {"tile_n": 192}),
    Sides("F17_shifts", "implicit_gemm", {"tile_k": 32}, {"tile_k": 48}),
    Sides(
        "F17_shifts",
        "implicit_gemm",
        {"tile_m": 32, "tile_n": 32, "warp_m": 1, "warp_n": 1},
        {"tile_m": 96, "tile_n": 96, "warp_m": 3},
    ),
    # The 3 x 3 probe has four sub-GEMMs at stride 2.
    Sides("D1_sub_gemms", "tilde", {"max_sub_gemms": 4}, {"max_sub_gemms": 3}),
    Sides("D3_tile", "tilde", {"tile_k": 16}, {"tile_k": 8}),
    Sides("D3_tile", "stride1", {"warp_m": 4, "warp_n": 4, "tile_n": 256}, {"warp_n": 8}),
    Sides("D3_tile", "stride1", {"warp_tile_k": 8}, {"warp_tile_k": 32}),
    Sides("D4_store_width", "tilde", PLAIN_STORES, {"vector_size_c": 2}),
    Sides("D6_accumulators", "stride1", {**PLAIN_STORES, "tile_m": 256, "tile_n": 256}, {"tile_m": 512}),
    Sides("D8_lds", "tilde", {**GFX942, "tile_n": 256, "tile_k": 32}, {"tile_m": 256}),
    Sides("D9_load_a", "stride1", {"tile_m": 64, "tile_k": 16, "vector_size_a": 4}, {"vector_size_a": 8}),
    # 16 x 64 elements are one for each of 1024 threads.
    Sides("D9b_load_b", "tilde", {**COLUMN, "tile_k": 64}, {"tile_k": 16}),
    Sides("D12_k_outer", "tilde", {"lds_k_outer": True}, {**GFX942, "lds_k_outer": True}),
    Sides("D9_load_a", "tilde", {}, {"vector_size_a": 0}),
    Sides("D4_store_width", "tilde", {}, {"vector_size_c": 0}),
    Sides("D13_shifts", "stride1", {"tile_m": 256}, {"tile_m": 192}),
    Sides("D13_shifts", "tilde", {"vector_size_b": 2}, {"vector_size_b": 3}),
    Sides("W1_tile", "nonsplit", {"tile_k": 16}, {"tile_k": 8}),
    Sides("W1_tile", "stream_k", {"warp_m": 4, "warp_n": 4, "tile_n": 256}, {"warp_n": 8}),
    Sides("W1_tile", "merged", {"warp_tile_k": 8}, {"warp_tile_k": 32}),
    Sides("W2_store_width", "nonsplit", PLAIN_STORES, {"vector_size_c": 2}),
    # A slice finds its replica with a mask.
    Sides("W3_replicas", "two_stage", {"ws_replicas": 4}, {"ws_replicas": 3}),
    Sides("W3_replicas", "merged", {"ws_replicas": 16}, {"ws_replicas": 12}),
    Sides("W4_atomic_pairs", "atomic", {"vector_size_c": 2}, {"vector_size_c": 1}),
    Sides("W4_atomic_pairs", "atomic", {}, PLAIN_STORES),
    Sides("W5_two_stage_epilogue", "two_stage", {}, {"epilogue": "cshuffle"}),
    Sides("W5_two_stage_epilogue", "merged", {}, {"epilogue": "cshuffle"}),
    Sides("W6_widths", "nonsplit", {"vector_size_a": 0}, {"vector_size_a": 3}),
    Sides("W6_widths", "stream_k", {"vector_size_b": 4}, {"vector_size_b": 16}),
    Sides("W9_async", "nonsplit", WGRAD_DIRECT, {"lds_k_outer": False}),
    Sides("W9_async", "atomic", WGRAD_DIRECT, {"vector_size_a": 8}),
    Sides("W9_async", "two_stage", WGRAD_DIRECT, {"vector_size_b": 8}),
    # C never overlays the others: 2 * 256 * 40 + 2 * 128 * 128 bytes fit gfx942, 2 * 256 * 72 + 2 * 128 * 128 do not.
    Sides("W10_lds", "nonsplit", {**GFX942, "tile_k": 32}, {"tile_k": 64}),
    # A 3 x 3 filter of 16 groups is 144 columns.
    Sides("W15_merge", "merged", {"tile_n": 256, "group_merge": 16}, {"tile_n": 128}),
    Sides("W15_merge", "merged", {"tile_n": 256, "group_merge": 16}, {"group_merge": 32}),
    Sides("W16_k_outer", "nonsplit", {"lds_k_outer": True}, {**GFX942, "lds_k_outer": True, "tile_k": 32}),
    # 128 x 64 per wave are 128 per lane, but only while a lane has all its registers.
    Sides("W17_stream_k", "stream_k", {"tile_m": 256}, {"tile_n": 256, **PLAIN_STORES, "tile_k": 32}),
    Sides(
        "W17_stream_k",
        "stream_k",
        {"tile_m": 256, "tile_n": 128, "warp_m": 4},
        {"tile_n": 256, "warp_n": 2, **PLAIN_STORES, "tile_k": 32},
    ),
    # One wave loads 64 x 128 elements by 16 chunks of 8 for each lane.
    Sides(
        "W18_async_loads",
        "nonsplit",
        {**WGRAD_DIRECT, **PLAIN_STORES, "tile_n": 64, "warp_m": 1, "warp_n": 1},
        {"tile_m": 256},
    ),
    Sides("W18_async_loads", "atomic", WGRAD_DIRECT, {"async_chunk_a": 0}),
    Sides("W18_async_loads", "two_stage", WGRAD_DIRECT, {"async_chunk_b": 0}),
    Sides("W13_load", "nonsplit", {**COLUMN, "tile_k": 64}, {"tile_k": 16}),
    Sides("W14_accumulators", "nonsplit", {**PLAIN_STORES, "tile_m": 256, "tile_n": 256}, {"tile_m": 512}),
    Sides("W18_async_loads", "nonsplit", {}, {"async_chunk_a": 8}),
    Sides("W20_shifts", "nonsplit", {"vector_size_c": 2}, {"vector_size_c": 3}),
    Sides("W19_one_loop", "atomic", WGRAD_DIRECT, {"unroll_k": True}),
    Sides("W19_one_loop", "two_stage", {**WGRAD_DIRECT, "unroll_k": False}, {"unroll_k": True}),
    Sides("W20_shifts", "nonsplit", {"tile_m": 256}, {"tile_m": 192}),
    Sides("W20_shifts", "merged", {"tile_k": 32}, {"tile_k": 48}),
    Sides("W21_merge_shift", "merged", {"group_merge": 4}, {"group_merge": 3}),
    Sides("V_value", "tilde", {"max_sub_gemms": 64}, {"max_sub_gemms": 65}),
    Sides("V_value", "merged", {"group_merge": 2}, {"group_merge": 1}),
    Sides("V_value", "two_stage", {"ws_replicas": 1}, {"ws_replicas": 0}),
    Sides("V_value", "reduce", {"ws_replicas": 1}, {"ws_replicas": 0}),
    Sides("V_value", "implicit_gemm", {"pipeline": "compv4"}, {"pipeline": "wavelet"}),
    Sides("V_value", "stream_k", {}, {"pipeline": ""}),
    Sides("V_value", "stride1", {"vector_size_b": 8}, {"vector_size_b": 16}),
    Sides("V_dtype", "reduce", {}, {"dtype_b": "fp32"}),
    Sides("V_dtype", "fix_up", {}, {"dtype_d": "fp32"}),
)


@pytest.mark.parametrize("sides", SIDES, ids=lambda sides: f"{sides.code}-{sides.family}")
def test_both_sides(sides: Sides) -> None:
    """A kernel is built on one side of each rule, and refused by this rule and no earlier one on the other."""
    good = kernel(sides.family, **sides.good)
    assert verdict(good) == ""
    assert verdict(with_fields(good, **sides.bad)) == sides.code


def test_every_rule_has_both_sides() -> None:
    """No rule is left out above, and no name there is unknown."""
    assert {sides.code for sides in SIDES} == set(reason_codes()) - {""}
    for sides in SIDES:
        assert sides.code in {rule.code for rule in known_family(sides.family).all_rules}


def test_values_outside_the_record_are_never_built() -> None:
    """Just below and above the bounds of every number, and any other word, in every family, is not built."""
    checked = 0
    for name, family in families().items():
        good = buildable(name, "gfx950", random.Random(1), 1)[0]
        assert verdict(good) == ""
        for entry in family.schema.fields:
            if not entry.axis or entry.kind == "bool":
                continue
            outside = ["", "no such"] if entry.axis.words else [entry.axis.least - 1, entry.axis.most + 1]
            for value in outside:
                verdicts = evaluate(IdentityTable.from_identities([with_fields(good, **{entry.name: value})]))
                assert not verdicts.buildable[0]
                assert verdicts.reasons[verdicts.builder[0]] == "V_value", (name, entry.name, value)
                checked += 1
    assert checked > 200


@pytest.mark.parametrize("family", [name for name, family in families().items() if not family.is_step])
def test_defaults_that_are_no_kernel(family: str) -> None:
    """A kernel that names neither tile nor waves nor atom is judged, and refused."""
    key = ("gfx950", "bf16", "bf16", "bf16")
    assert verdict(known_family(family).record(*key)) != ""
    for name in ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_tile_m", "warp_tile_n", "warp_tile_k"):
        assert verdict(kernel(family, **{name: 0})) != "", name


def test_rows_are_judged_one_by_one() -> None:
    """In a table of all families, architectures and dtypes, many rows spoilt, each row gets what it gets alone.

    Alone, every rule is asked in turn; the first published one that does not hold is the reason, else the first other.
    """
    rng = random.Random(2)
    identities = sample(rng, 15)
    identities += [spoilt(identity, rng, rng.randint(1, 3)) for identity in identities]
    rng.shuffle(identities)
    verdicts, seen = evaluate(IdentityTable.from_identities(identities)), set[str]()
    for row, identity in enumerate(identities):
        alone = evaluate(IdentityTable.from_identities([identity]))
        expected = first_failing(identity)
        assert alone.reason(0) == verdicts.reason(row) == expected, identity
        assert (alone.published[0], alone.builder[0]) == (verdicts.published[row], verdicts.builder[row])
        assert verdicts.buildable[row] == (expected == "")
        seen.add(expected)
    assert len(seen) > 20


def first_failing(identity: Identity) -> str:
    """The reason of one row, asked of the rules one at a time."""
    family = known_family(identity.family)
    table = IdentityTable.from_identities([identity])
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = family.rows(table, target(identity.arch), identity.dtype_a)
        failing = [rule for rule in family.all_rules if not np.all(rule.holds(rows))]
    codes = [rule.code for level in (False, True) for rule in failing if rule.builder == level]
    return codes[0] if codes else ""


def test_mixed_tables_are_judged_part_by_part() -> None:
    """A table that mixes architectures, families and dtypes gets row by row the verdicts of its pure parts."""
    pure = []
    for arch, dtype, family in (
        ("gfx950", "bf16", "implicit_gemm"),
        ("gfx942", "bf16", "implicit_gemm"),
        ("gfx942", "fp16", "two_stage"),
        ("gfx950", "fp16", "tilde"),
        ("gfx942", "fp16", "reduce"),
    ):
        table = candidates(arch, dtype, family)
        pure.append(table.take(np.arange(0, len(table), 97)))
    order = np.random.default_rng(8).permutation(sum(map(len, pure)))
    mixed = evaluate(concat(pure).take(order))
    assert (mixed.codes == np.concatenate([evaluate(table).codes for table in pure])[order]).all()
    assert (mixed.admitted == (mixed.published == 0)).all()
    assert (mixed.buildable == (mixed.codes == 0)).all()
    assert sum(mixed.counts().values()) + mixed.buildable.sum() == len(order)


def test_families_share_rules_whole() -> None:
    """A code means one rule, wherever it stands; a family has it once."""
    found: dict[str, object] = {}
    for family in families().values():
        codes = [rule.code for rule in family.all_rules]
        assert len(set(codes)) == len(codes)
        for rule in family.all_rules:
            assert found.setdefault(rule.code, rule) is rule
            assert rule_of(rule.code) is rule
    assert tuple(found) == reason_codes()[1:]
    assert rule_of("F99_unheard") is None


def test_empty_table() -> None:
    """No rows, no verdicts, no error."""
    verdicts = evaluate(IdentityTable.from_identities([]))
    assert len(verdicts.codes) == 0
    assert verdicts.counts() == {}


def test_unknown_architecture_and_family() -> None:
    """Identities of a GPU that no target describes, or of no family, are an error and not silently admitted."""
    with pytest.raises(UnknownValueError, match="gfx1100"):
        verdict(with_fields(kernel("implicit_gemm"), arch="gfx1100"))
    foreign = foreign_schema("winograd", "fwd", ())
    with pytest.raises(UnknownValueError, match="winograd"):
        verdict(foreign.record("gfx950", "bf16", "bf16", "bf16"))
