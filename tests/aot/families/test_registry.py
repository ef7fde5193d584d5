"""The registry of families: the list of the grids, one family per kernel, and families added for a while."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from aot.families import (
    FAMILIES,
    added,
    all_families,
    family_of,
    known_family,
    offer_of,
    per_row,
)
from aot.family import Helper, Offer
from aot.workers.pool import Pool, Work
from cache_schema.errors import DeliveryError, RequestError, UnknownValueError
from grids import families as grid_families
from grids.catalogue import buildable
from tests.aot.workers.test_pool import Recorder
from tests.cache_schema.records import Alpha

TOY = """
from dataclasses import replace
from aot.families import FAMILIES, add

TOY = replace(FAMILIES[0], name="toy")

def register():
    add(TOY)

def fail():
    raise LookupError("no such toy")
"""


def test_both_halves_list_the_same_families() -> None:
    """Every family of the grids has its kernels made, and the other way round; no name twice."""
    names = [family.name for family in FAMILIES]
    assert names == list(grid_families.families())
    assert [family.alone for family in FAMILIES] == [not f.is_step for f in grid_families.families().values()]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_rows_and_identities_agree(arch: str) -> None:
    """A kernel has the family of its row, and rows of all families make up a table once each."""
    table = buildable(arch, ["bf16"], None, None, None, 300)
    names = [family_of(table.row(row)).name for row in range(len(table))]
    assert table.family_sizes() == Counter(names)
    parts = {family.name: np.arange(len(table))[rows].tolist() for family, rows, _ in per_row(table)}
    assert parts == {name: [row for row, other in enumerate(names) if other == name] for name in set(names)}


def test_helpers_are_the_stages_of_others() -> None:
    """What a plan launches besides its own kernel is a kernel of a helper's family, and every helper is one."""
    table = buildable("gfx950", ["bf16"], None, None, None, 300)
    stages = set()
    for row in range(len(table)):
        family = family_of(table.row(row))
        if isinstance(family.role, Offer):
            steps = grid_families.family_of(table.row(row)).steps(table.row(row))
            stages |= {family_of(step).name for step in steps}
    assert stages == {family.name for family in FAMILIES if isinstance(family.role, Helper)}
    assert all(family.alone != (family.name in stages) for family in FAMILIES)


def test_what_is_no_family_is_refused() -> None:
    """An unknown name, a kernel of no family, and a helper where something is asked for problems."""
    with pytest.raises(UnknownValueError, match="toy"):
        known_family("toy")
    with pytest.raises(UnknownValueError, match="alpha"):
        family_of(Alpha("gfx950", "bf16", "bf16", "bf16"))
    for family in FAMILIES:
        if not family.alone:
            with pytest.raises(RequestError, match=family.name):
                offer_of(family)


def names_unit(payload: list[int], claim: Callable[[int, Any], bool]) -> Iterator[tuple[int, Any]]:
    """The families that a worker knows."""
    del claim
    for row in payload:
        yield row, [family.name for family in all_families()]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module in a folder that no worker knows by itself."""
    (tmp_path / "toy_half.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("toy_half")
    del sys.modules["toy_half"]


def in_a_worker() -> list[str]:
    """The families that a new worker knows."""
    recorder = Recorder()
    with Pool(1, time_limit=60) as pool:
        pool.run(Work(names_unit, list, range(1)), recorder)
    names: list[str] = recorder.results[0]
    return names


def test_a_family_can_be_added(toy: ModuleType, tmp_path: Path) -> None:
    """Inside the block it is known here and in workers, behind it nowhere."""
    with added(toy.TOY, "toy_half:register", tmp_path):
        assert known_family("toy") is toy.TOY
        assert in_a_worker()[-1] == "toy"
    assert "toy" not in in_a_worker()
    assert all_families() == FAMILIES


def test_a_worker_that_cannot_be_set_up_ends_the_run(toy: ModuleType, tmp_path: Path) -> None:
    """A function that is not there or fails is told of, and no kernel is blamed."""
    for function, told in (("toy_half:fail", "no such toy"), ("no_such_module:f", "no_such_module")):
        with added(toy.TOY, function, tmp_path), pytest.raises(DeliveryError, match=told):
            in_a_worker()
