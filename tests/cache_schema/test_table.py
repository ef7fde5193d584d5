"""Columns of identities hold exactly what the identities hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_schema.identity import Identity, schema_of, schema_of_record
from cache_schema.table import IdentityTable, concat, is_constant, union_fields
from tests.cache_schema.records import RECORDS, Alpha, Beta
from tests.cache_schema.samples import geometry
from tests.cache_schema.strategies import STEADY, identities

KEY: dict[str, Any] = {"arch": "gfx950", "dtype_a": "bf16", "dtype_b": "bf16", "dtype_d": "bf16"}


@settings(STEADY, max_examples=60)
@given(st.lists(identities(), max_size=5))
def test_rows_are_the_identities(given_identities: list[Identity]) -> None:
    """Any identities go in and come out equal, in order, with plain Python values."""
    table = IdentityTable.from_identities(given_identities)
    rows = [table.row(index) for index in range(len(table))]
    assert rows == given_identities
    assert all(type(getattr(row, f.name)).__name__ == f.kind for row in rows for f in schema_of(row).fields)


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
    for name in ("arch", "family", "deep"):
        assert is_constant(table.columns[name])
        assert is_constant(joined.columns[name])
    assert joined.vocab["arch"] == ("gfx950",)


def test_smallest_dtypes() -> None:
    """Integer columns are as narrow as their values; 32 bits is the limit."""
    wanted = {(0, 255): "uint8", (0, 256): "uint16", (-1, 127): "int8", (-1, 128): "int16", (0, 65536): "int32"}
    for values, dtype in wanted.items():
        table = IdentityTable.from_columns(Alpha, 2, {**KEY, "cpg": np.array(values)})
        assert table.columns["cpg"].dtype.name == dtype
    with pytest.raises(ValueError, match="do not fit"):
        IdentityTable.from_columns(Alpha, 1, {**KEY, "cpg": 2**31})


def test_wide_columns_multiply() -> None:
    """Products of narrow columns need `wide`: 256 * 256 does not fit the stored type."""
    table = IdentityTable.from_columns(Alpha, 2, {**KEY, "tile_m": np.array([256, 16]), "tile_n": 256})
    assert (table.wide("tile_m") * table.wide("tile_n")).tolist() == [65536, 4096]
    with pytest.raises(ValueError, match="text"):
        table.wide("pipeline")


def test_masks_and_words() -> None:
    """`equals` and `strings` agree with the rows; a word that no row has matches nothing."""
    table = geometry(100)
    rows: list[Any] = [table.row(index) for index in range(100)]
    assert table.strings("pipeline").tolist() == [row.pipeline for row in rows]
    assert table.equals("pipeline", "mem").tolist() == [row.pipeline == "mem" for row in rows]
    assert table.equals("tile_m", 64).tolist() == [row.tile_m == 64 for row in rows]
    assert not table.equals("pipeline", "no such").any()
    assert table.rows_equal_to(rows[37]).tolist() == [37]
    assert not len(table.rows_equal_to(geometry(1, 5000).row(0)))


def test_given_vocabulary_is_brought_to_order() -> None:
    """(codes, words) may be in any order and have unused words; what is stored is sorted and has none."""
    given_words = np.array([2, 0, 2]), ["mem", "unused", "compv3"]
    table = IdentityTable.from_columns(Alpha, 3, {**KEY, "pipeline": given_words})
    assert table.vocab["pipeline"] == ("compv3", "mem")
    assert table.strings("pipeline").tolist() == ["compv3", "mem", "compv3"]


def test_bad_columns_are_refused() -> None:
    """Unknown names, missing keys, wrong lengths, wrong types and codes outside the vocabulary raise."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({**KEY, "tile": 1}, "unknown"),
        ({**KEY, "split_k": 1}, "unknown"),
        ({"arch": "gfx950"}, "missing"),
        ({**KEY, "cpg": np.arange(3)}, "rows"),
        ({**KEY, "cpg": np.zeros((2, 1), dtype=int)}, "dimensions"),
        ({**KEY, "cpg": np.array([1.0, 2.0])}, "not an integer"),
        ({**KEY, "pipeline": (np.array([0, 1]), ["mem"])}, "vocabulary"),
    ]
    for values, message in wrong:
        with pytest.raises(ValueError, match=message):
            IdentityTable.from_columns(Alpha, 2, values)


@settings(STEADY, max_examples=60)
@given(st.lists(identities(), max_size=8))
def test_columns_across_families(given_identities: list[Identity]) -> None:
    """What is asked of a table of several families is what each row says, fixed or not; nothing where it is absent."""
    table = IdentityTable.from_identities(given_identities)
    kinds: dict[str, Any] = {
        "tile_m": 0,
        "split_k": 0,
        "warp_m": 0,
        "unroll_k": False,
        "pipeline": "",
        "epilogue": "",
        "arch": "",
    }
    for name, absent in kinds.items():
        wanted = [getattr(identity, name, absent) for identity in given_identities]
        if not any(hasattr(identity, name) for identity in given_identities):
            continue
        if isinstance(absent, str):
            assert table.strings(name).tolist() == wanted
        else:
            assert table.wide(name).tolist() == [int(value) for value in wanted]
        for value in {*wanted, absent}:
            assert table.equals(name, value).tolist() == [other == value for other in wanted]
    assert table.strings("family").tolist() == [identity.family for identity in given_identities]
    assert table.of_direction("wgrad").tolist() == [identity.direction == "wgrad" for identity in given_identities]
    assert table.directions == tuple(sorted({identity.direction for identity in given_identities}))


@settings(STEADY, max_examples=60)
@given(st.lists(identities(), max_size=8), st.randoms(use_true_random=False))
def test_parts_are_the_rows_of_each_family(given_identities: list[Identity], random: Any) -> None:
    """Parts have the rows that they say they have, alone and after a choice of rows."""
    order = random.choices(range(len(given_identities)), k=5) if given_identities else []
    chosen = [given_identities[row] for row in order]
    table = IdentityTable.from_identities(given_identities).take(np.array(order, dtype=np.int64))
    assert [table.row(row) for row in range(len(table))] == chosen
    seen = 0
    for schema, rows, part in table.parts():
        where = np.arange(len(table))[rows].tolist()
        assert [part.row(row) for row in range(len(part))] == [chosen[row] for row in where]
        assert {identity.family for identity in (chosen[row] for row in where)} == {schema.family}
        assert [other for _, _, other in part.parts()] == [part]
        seen += len(where)
    assert seen == len(chosen)


@settings(STEADY, max_examples=60)
@given(st.lists(identities(), min_size=1, max_size=6))
def test_widened_tables_hold_the_same_rows(given_identities: list[Identity]) -> None:
    """With the columns of every family, all of one length and kind."""
    table = IdentityTable.from_identities(given_identities)
    every = tuple(sorted(map(schema_of_record, RECORDS), key=lambda schema: schema.family))
    wide = table.widened(every)
    assert [wide.row(row) for row in range(len(wide))] == given_identities
    assert set(wide.columns) == {"family", *union_fields(every)}
    assert all(len(column) == len(table) for column in wide.columns.values())
    assert [table.row(row) for row in range(len(concat([wide])))] == given_identities
    assert concat([wide]).schemas == table.schemas


def test_rows_equal_to_knows_families() -> None:
    """Equal values in another family are another identity."""
    alpha, beta = Alpha("a", "b", "b", "b"), Beta("a", "b", "b", "b")
    table = IdentityTable.from_identities([beta, alpha, beta])
    assert table.rows_equal_to(beta).tolist() == [0, 2]
    assert table.rows_equal_to(alpha).tolist() == [1]
    assert not len(IdentityTable.from_identities([beta]).rows_equal_to(alpha))
    with pytest.raises(ValueError, match="has no_such"):
        table.wide("no_such")
