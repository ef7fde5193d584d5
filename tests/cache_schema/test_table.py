"""Columns of identities hold exactly what the identities hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_schema.identity import FIELD_KIND, FIELDS, Identity
from cache_schema.table import IdentityTable, concat, is_constant
from tests.cache_schema.samples import geometry
from tests.cache_schema.strategies import STEADY, identities

KEY: dict[str, Any] = {
    "arch": "gfx950", "direction": "fwd", "algorithm": "implicit_gemm",
    "dtype_a": "bf16", "dtype_b": "bf16", "dtype_d": "bf16",
}  # fmt: skip


@settings(STEADY, max_examples=60)
@given(st.lists(identities(), max_size=5))
def test_rows_are_the_identities(given_identities: list[Identity]) -> None:
    """Any identities go in and come out equal, in order, with plain Python values."""
    table = IdentityTable.from_identities(given_identities)
    rows = [table.row(index) for index in range(len(table))]
    assert rows == given_identities
    assert all(type(getattr(row, name)).__name__ == FIELD_KIND[name] for row in rows for name in FIELDS)


@settings(STEADY, max_examples=60)
@given(st.lists(st.lists(identities(), max_size=3), max_size=4))
def test_concat_keeps_rows(groups: list[list[Identity]]) -> None:
    """Joining tables with different vocabularies and integer widths is joining their rows."""
    table = concat([IdentityTable.from_identities(group) for group in groups])
    assert [table.row(index) for index in range(len(table))] == [identity for group in groups for identity in group]
    assert all(list(words) == sorted(set(words)) for words in table.vocab.values())


def test_scalars_cost_nothing() -> None:
    """A scalar becomes a broadcast column, and stays one through take and concat."""
    table = geometry(1000)
    joined = concat([table, table.take(np.arange(10)), table.take(table.equals("pipeline", "mem"))])
    for name in ("arch", "grouped", "split_k"):
        assert is_constant(table.columns[name])
        assert is_constant(joined.columns[name])
    assert joined.vocab["arch"] == ("gfx950",)


def test_smallest_dtypes() -> None:
    """Integer columns are as narrow as their values; 32 bits is the limit."""
    wanted = {(0, 255): "uint8", (0, 256): "uint16", (-1, 127): "int8", (-1, 128): "int16", (0, 65536): "int32"}
    for values, dtype in wanted.items():
        table = IdentityTable.from_columns(2, {**KEY, "cpg": np.array(values)})
        assert table.columns["cpg"].dtype.name == dtype
    with pytest.raises(ValueError, match="do not fit"):
        IdentityTable.from_columns(1, {**KEY, "cpg": 2**31})


def test_wide_columns_multiply() -> None:
    """Products of narrow columns need `wide`: 256 * 256 does not fit the stored type."""
    table = IdentityTable.from_columns(2, {**KEY, "tile_m": np.array([256, 16]), "tile_n": 256})
    assert (table.wide("tile_m") * table.wide("tile_n")).tolist() == [65536, 4096]
    with pytest.raises(ValueError, match="text"):
        table.wide("pipeline")


def test_masks_and_words() -> None:
    """`equals` and `strings` agree with the rows; a word that no row has matches nothing."""
    table = geometry(100)
    rows = [table.row(index) for index in range(100)]
    assert table.strings("pipeline").tolist() == [row.pipeline for row in rows]
    assert table.equals("pipeline", "mem").tolist() == [row.pipeline == "mem" for row in rows]
    assert table.equals("tile_m", 64).tolist() == [row.tile_m == 64 for row in rows]
    assert not table.equals("pipeline", "wavelet").any()
    assert table.rows_equal_to(rows[37]).tolist() == [37]
    assert not len(table.rows_equal_to(geometry(1, 5000).row(0)))


def test_given_vocabulary_is_brought_to_order() -> None:
    """(codes, words) may be in any order and have unused words; what is stored is sorted and has none."""
    table = IdentityTable.from_columns(3, {**KEY, "pipeline": (np.array([2, 0, 2]), ["mem", "unused", "compv3"])})
    assert table.vocab["pipeline"] == ("compv3", "mem")
    assert table.strings("pipeline").tolist() == ["compv3", "mem", "compv3"]


def test_bad_columns_are_refused() -> None:
    """Unknown names, missing keys, wrong lengths, wrong types and codes outside the vocabulary raise."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({**KEY, "tile": 1}, "unknown"),
        ({"arch": "gfx950"}, "missing"),
        ({**KEY, "cpg": np.arange(3)}, "rows"),
        ({**KEY, "cpg": np.zeros((2, 1), dtype=int)}, "dimensions"),
        ({**KEY, "cpg": np.array([1.0, 2.0])}, "not an integer"),
        ({**KEY, "pipeline": (np.array([0, 1]), ["mem"])}, "vocabulary"),
    ]
    for values, message in wrong:
        with pytest.raises(ValueError, match=message):
            IdentityTable.from_columns(2, values)
