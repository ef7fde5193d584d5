"""Counting, limiting and sharding the catalogue."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cache_schema.digest import table_digests
from cache_schema.errors import RequestError, UnknownValueError
from cache_schema.identity import Identity
from cache_schema.table import IdentityTable
from grids.axes import AxesError
from grids.catalogue import Catalogue, buildable, open_catalogue
from grids.families import families, step_families
from grids.selection import COMBINATIONS, in_shard, shard, spread


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return open_catalogue("gfx942", ["bf16"])


@pytest.fixture(scope="module")
def mixed(catalogue: Catalogue) -> IdentityTable:
    """Every 23rd buildable kernel of all directions."""
    return catalogue.buildable().take(np.arange(0, 250000, 23))


def rows(table: IdentityTable) -> list[Identity]:
    return [table.row(index) for index in range(len(table))]


def test_count_rows_add_up(catalogue: Catalogue) -> None:
    """Every candidate is buildable or rejected for one reason, and admitted lies between; rows are plain JSON."""
    for row in catalogue.count_rows():
        assert row.buildable + sum(row.rejected.values()) == row.candidates
        assert row.buildable <= row.admitted <= row.candidates
        assert json.loads(json.dumps(row.to_json()))["family"] == row.family
    assert sum(row.buildable for row in catalogue.count_rows()) == len(catalogue.buildable())
    rejected, reasons = catalogue.rejected()
    assert len(rejected) == len(reasons) == sum(sum(row.rejected.values()) for row in catalogue.count_rows())
    assert (reasons > 0).all()


def has_axis(family: str, axis: str) -> bool:
    """Whether a family varies in an axis of a breakdown: the family itself, a field, or the K loop."""
    known = families()[family]
    return axis == "family" or axis in known.schema.by_name or (axis == "k_loop" and "unroll_k" in known.schema.by_name)


def test_axis_rows_partition_the_candidates(catalogue: Catalogue) -> None:
    """Over the values of any axis the three counts add up to those of the families that have it."""
    counts = catalogue.count_rows()
    found = catalogue.axis_rows()
    levels = ("candidates", "admitted", "buildable")
    for direction in ("fwd", "dgrad", "wgrad"):
        axes = {row.axis for row in found if row.direction == direction}
        assert {"tile_m", "pipeline", "epilogue"} <= axes
        for axis in axes:
            having = [row for row in counts if row.direction == direction and has_axis(row.family, axis)]
            values = [row for row in found if (row.direction, row.axis) == (direction, axis)]
            assert len(values) > 1
            for level in levels:
                assert sum(getattr(row, level) for row in values) == sum(getattr(row, level) for row in having), axis
    assert {row.value for row in found if (row.direction, row.axis) == ("dgrad", "family")} == {"tilde", "stride1"}
    loops = {row.value for row in found if (row.direction, row.axis) == ("fwd", "k_loop")}
    assert loops == {"plain", "unroll_k", "async_dma"}


def test_steps_come_with_the_kernels_that_need_them(catalogue: Catalogue) -> None:
    """A family that is named alone brings the families of its second steps, and a limit keeps these first."""
    for name, steps in (("two_stage", {"reduce"}), ("stream_k", {"fix_up"}), ("atomic", set())):
        chosen = open_catalogue("gfx942", ["bf16"], families=[name])
        assert {row.family for row in chosen.count_rows()} == {name} | steps
        assert set(chosen.buildable(limit=1).strings("family")) == (steps or {name})
    assert {row.family for row in catalogue.count_rows()} >= step_families() == {"reduce", "fix_up"}


def test_limit_covers_every_value_of_every_axis(mixed: IdentityTable) -> None:
    """A hundred kernels out of thousands hold every value of every field, family and combination of the sample."""
    chosen = spread(mixed, 100)
    assert len(chosen) == 100
    assert set(chosen.strings("family")) == set(mixed.strings("family"))
    for names in (*((name,) for name in mixed.columns), *COMBINATIONS):
        values, kept = (
            {tuple(int(v) for v in row) for row in zip(*(table.columns[name] for name in names), strict=True)}
            for table in (mixed, chosen)
        )
        assert kept == values, names


def test_limits_nest(mixed: IdentityTable) -> None:
    """A larger limit chooses a superset of a smaller one, at any size."""
    chosen = [set(rows(spread(mixed, limit))) for limit in (0, 1, 2, 7, 30, 31, 100, 999, len(mixed))]
    assert [len(part) for part in chosen] == [0, 1, 2, 7, 30, 31, 100, 999, len(mixed)]
    assert all(small <= large for small, large in pairwise(chosen))


def test_limit_ignores_the_order_of_rows(mixed: IdentityTable) -> None:
    """The choice depends on which identities there are and not on how they are listed."""
    shuffled = mixed.take(np.random.default_rng(10).permutation(len(mixed)))
    for limit in (5, 40, 700):
        assert set(rows(spread(shuffled, limit))) == set(rows(spread(mixed, limit)))


def test_limit_keeps_table_order(mixed: IdentityTable) -> None:
    """What a limit keeps stays in the order of the table, and a limit beyond its length keeps all."""
    position = {identity: index for index, identity in enumerate(rows(mixed))}
    places = [position[identity] for identity in rows(spread(mixed, 200))]
    assert places == sorted(places)
    assert spread(mixed, len(mixed) + 1) is mixed


def test_shards_are_disjoint_and_complete(mixed: IdentityTable) -> None:
    """Shards of any count make up the table, none overlaps, each is about equal, and each is a range of digests."""
    for count in (1, 2, 3, 7):
        shards = [shard(mixed, index, count) for index in range(1, count + 1)]
        assert sum(map(len, shards)) == len(mixed)
        assert len({identity for part in shards for identity in rows(part)}) == len(mixed)
        assert all(abs(len(part) - len(mixed) / count) < 5 * len(mixed) ** 0.5 for part in shards)
        bounds = [sorted(bytes(digest) for digest in table_digests(part)) for part in shards]
        assert all(low[-1] < high[0] for low, high in pairwise(bounds))
        assert all(in_shard(table_digests(part), index, count).all() for index, part in enumerate(shards, start=1))


def test_shards_of_a_limited_build() -> None:
    """The shards of a limited build make up exactly that build."""
    catalogue = open_catalogue("gfx942", ["bf16"], families=["merged"])
    whole = set(rows(catalogue.buildable(limit=50)))
    parts = [set(rows(catalogue.buildable(limit=50, shard_of=(index, 3)))) for index in (1, 2, 3)]
    assert set().union(*parts) == whole
    assert sum(map(len, parts)) == 50


@pytest.mark.parametrize("index", [0, 4, -1])
def test_bad_shard_and_limit(mixed: IdentityTable, index: int) -> None:
    """A shard that does not exist and a negative limit are wrong requests."""
    with pytest.raises(RequestError, match=rf"{index}/3"):
        shard(mixed, index, 3)
    with pytest.raises(RequestError, match="-5"):
        spread(mixed, -5)


def test_requests_are_narrowed() -> None:
    """Direction, family and dtype narrow a request; both dtypes stand in one table when both are asked for."""
    table = buildable("gfx950", ["fp16", "bf16", "fp16"], ["dgrad"], ["stride1"], limit=64)
    assert set(table.strings("dtype_a")) == {"fp16", "bf16"}
    assert set(table.strings("family")) == {"stride1"}


def test_axes_file_reaches_the_catalogue(tmp_path: Path) -> None:
    """A user's axes file decides what is enumerated, and its faults are reported."""
    path = tmp_path / "axes.yaml"
    path.write_text("every: {tile_m: [128], tile_n: [128], tile_k: [64], epilogue: [cshuffle]}")
    table = buildable("gfx950", ["bf16"], ["fwd"], axes_file=path)
    assert 0 < len(table) < len(buildable("gfx950", ["bf16"], ["fwd"])) / 10
    assert set(table.columns["tile_m"]) == {128}
    path.write_text("every: {tile_m: [127]}")
    with pytest.raises(AxesError, match="127"):
        open_catalogue("gfx950", ["bf16"], axes_file=path)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("gfx9000", ["bf16"]), "gfx9000"),
        (("gfx950", ["int8"]), "int8"),
        (("gfx950", ["bf16"], ["sideways"]), "sideways"),
        (("gfx950", ["bf16"], None, ["winograd"]), "winograd"),
    ],
)
def test_unknown_names(arguments: tuple[str, list[str]], word: str) -> None:
    """An unknown name of any kind is a wrong request that names it."""
    with pytest.raises(UnknownValueError, match=word):
        open_catalogue(*arguments)


def test_family_of_another_direction() -> None:
    """A known family that serves none of the directions asked for is a wrong request, not an empty success."""
    with pytest.raises(RequestError, match="no family"):
        open_catalogue("gfx950", ["bf16"], ["fwd"], ["tilde"])
