"""The sub-GEMM table: the folded record is the host's, and every magic pair divides by what its place says."""

from __future__ import annotations

import random
from itertools import product

import pytest

from aot.kernels.dgrad_arguments import dgrad_arguments, dgrad_values
from aot.kernels.dgrad_table import (
    DIVISOR_FIELDS,
    MAGIC_WORDS,
    RECORD_FIELDS,
    RECORD_WORDS,
    records,
    records_of,
    table_words,
    total_tiles,
)
from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from grids.geometry import ceil_div
from grids.tilde import sub_gemms
from tests.aot.dgrad_kernels import dgrad, problem


def folded(values: dict[str, int], tile_m: int, tile_k: int) -> list[int]:
    """The record of a stride-1 problem from launch values, field by field as published."""
    v = values
    return [
        0, ceil_div(v["p_dg_M"], tile_m), v["p_num_pid_n"], v["p_dg_M"], v["p_dg_K"],
        v["p_Hi"], v["p_Wi"], v["p_pH"], v["p_pW"], v["p_Y"], v["p_X"],
        -v["p_dH"], -v["p_dW"], 1, 0, 1, 0, 1, 0, 1, 0, ceil_div(v["p_dg_K"], tile_k) * tile_k,
    ]  # fmt: skip


def test_the_folded_record_is_the_hosts() -> None:
    """Over dilations, pads, filters, groups, tiles: the stride-1 kernel assumes what the table would say."""
    seen = 0
    filters = ((1, 1), (1, 3), (3, 1), (3, 3), (5, 5), (2, 4))
    for dilation, pad, (y, x), groups in product((1, 2), (0, 1, 2, 4), filters, (1, 2, 3)):
        for tile_m, tile_n, tile_k in ((32, 32, 32), (256, 64, 16), (64, 128, 64)):
            if 13 + 2 * pad < dilation * (max(y, x) - 1) + 1:
                continue
            of = problem(
                n=2, c=24, h=13, w=15, k=36, y=y, x=x, groups=groups,
                pad_h=pad, pad_w=min(pad, 2), dilation_h=dilation, dilation_w=1,
            )  # fmt: skip
            identity = dgrad(folded=True, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k)
            (record,) = records_of(identity, of)
            assert list(record) == list(RECORD_FIELDS)
            assert list(record.values()) == folded(dgrad_values(identity, of), tile_m, tile_k)
            seen += 1
    assert seen > 300


def unsigned(words: tuple[int, ...], at: int) -> int:
    return words[at] % 2**32


def test_magic_pairs_stand_behind_the_records() -> None:
    """Pair by pair, in the order kpg, x_dot_slice, w_tilde_slice, h_tilde_slice, one set per record."""
    strided = problem(n=3, c=8, h=17, w=23, k=84, y=5, x=7, stride_h=2, stride_w=3, pad_h=2, pad_w=3, groups=2)
    dice = random.Random(5)
    for of in (strided, problem(n=2, h=9, w=11, k=40, y=3, x=2)):
        found = records(of, tile_m=32, tile_n=32, tile_k=32)
        words = table_words(found, of.kpg)
        assert len(words) == len(found) * (RECORD_WORDS + MAGIC_WORDS)
        for number, record in enumerate(found):
            divisors = [of.kpg, *(record[field] for field in DIVISOR_FIELDS)]
            assert DIVISOR_FIELDS == ("x_dot_slice", "w_tilde_slice", "h_tilde_slice")
            for place, divisor in enumerate(divisors):
                at = len(found) * RECORD_WORDS + MAGIC_WORDS * number + 2 * place
                mult, shift = unsigned(words, at), words[at + 1]
                for dividend in (0, 1, divisor - 1, divisor, 2**31 - 1, *(dice.randrange(2**31) for _ in range(50))):
                    assert ((dividend * mult >> 32) + dividend) >> shift == dividend // divisor
    assert len(found) == 1
    assert RECORD_WORDS == 22
    assert MAGIC_WORDS == 8


def test_records_tile_the_launch() -> None:
    """Tiles of the records follow one another without gaps, and only records with work are there."""
    of = problem(n=2, c=70, h=19, w=18, k=24, y=3, x=4, stride_h=2, stride_w=3, pad_h=1, pad_w=2)
    found = records(of, tile_m=64, tile_n=32, tile_k=16)
    assert len(found) == len(sub_gemms(of)) == 6
    start = 0
    for record in found:
        assert record["block_start"] == start
        assert record["num_m_tiles"] == ceil_div(record["gemm_m"], 64)
        assert record["num_n_tiles"] == 3
        start += record["num_m_tiles"] * record["num_n_tiles"]
    assert total_tiles(found) == start


def test_the_dilation_of_a_single_tap_means_nothing() -> None:
    """A huge dilation along an axis of one tap gives the table of dilation 1."""
    of = problem(n=1, h=9, w=9, k=16, y=3, x=1, stride_h=2, stride_w=2, dilation_w=10**8)
    same = problem(n=1, h=9, w=9, k=16, y=3, x=1, stride_h=2, stride_w=2)
    tiles = {"tile_m": 32, "tile_n": 32, "tile_k": 32}
    assert records(of, **tiles) == records(same, **tiles)
    assert dgrad_values(dgrad(), of) == dgrad_values(dgrad(), same)


@pytest.mark.parametrize(
    ("of", "field"),
    [
        (problem(h=40, w=40, y=9, x=9, stride_h=9, stride_w=9), "stride_h"),
        (problem(h=4, w=1, k=1, pad_h=2**27), "h"),
        (problem(h=1, w=1, k=1, y=2, pad_h=2**23, dilation_h=2**23), "dilation_h"),
        (problem(c=2**22 + 8, h=1, w=1, k=1), "c"),
    ],
)
def test_extents_beyond_the_kernel_are_refused(of: ConvProblem, field: str) -> None:
    """More than 64 sub-GEMMs, coordinates and rows that 32 bits do not hold: an error that names the extent."""
    with pytest.raises(ProblemError) as caught:
        dgrad_values(dgrad(), of)
    assert field in str(caught.value)


def test_values_fit_the_argument_list() -> None:
    """Every argument but the pointers has a value of its kind."""
    of = problem(n=2, c=8, h=9, w=7, k=64, y=3, x=3, stride_h=2, pad_h=1)
    values = dgrad_values(dgrad(), of)
    pointers = dict.fromkeys(("A", "B", "D", "sub_gemm_buf"), 1 << 40)
    assert len(dgrad_arguments().pack(values | pointers)) == dgrad_arguments().size
    assert values["uniform_taps"] == 1
    assert dgrad_values(dgrad(), problem(k=40))["uniform_taps"] == 0
    many_taps = problem(h=9, w=9, k=32, y=6, x=6)
    assert dgrad_values(dgrad(), many_taps)["uniform_taps"] == 0
