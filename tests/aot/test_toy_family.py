"""A new family costs its own two halves: one that lives in the tests goes through everything that the project does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aot import families
from aot.cli.main import run
from aot.toolchain import Toolchain
from cache_schema.cache_check import check_cache
from cache_schema.cache_reader import Cache
from cache_schema.digest import identity_digest
from cache_schema.identity import Identity, axis, forget, register
from grids import families as grid_families
from tests.toy_family.grid import FAMILY
from tests.toy_family.kernels import KERNELS

ROOT = Path(__file__).parents[2]
PROBLEM = ["--problem", "direction=fwd dtype=bf16 n=2 c=16 h=7 w=9 k=24 y=3 x=3 pad=1"]
IN_GROUPS = [PROBLEM[0], f"{PROBLEM[1]} groups=2"]
REQUEST = ["--arch", "gfx950", "--dtype", "bf16", "--family", "toy"]
EAGER, REFUSED = "fwd:toy:gfx950:bf16:edge=32:eager", "fwd:toy:gfx950:bf16:edge=48"


@contextmanager
def toys() -> Iterator[None]:
    """With the family, here and in workers."""
    with grid_families.added(FAMILY), families.added(KERNELS, "tests.toy_family.kernels:register", ROOT):
        yield


def answer(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    """What a command says in JSON."""
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_family_of_the_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str], local_toolchain: Toolchain) -> None:
    """Counted, built, packed, inspected, planned, run and verified, from nothing but its two halves."""
    del local_toolchain
    path = tmp_path / "gfx950-bf16.rocke"
    build, inspect = ["compile-all", *REQUEST, "--out", str(tmp_path), "--jobs", "1"], ["inspect", str(path)]
    with toys():
        (counted,) = answer(capsys, "count", *REQUEST)
        assert (counted["candidates"], counted["buildable"], counted["rejected"]) == (6, 4, {"T1_edge": 2})
        described = answer(capsys, "describe", *REQUEST[:4], "--direction", "fwd")
        assert {row["axis"] for row in described} >= {"edge", "eager"}

        built = answer(capsys, *build)
        assert (built["identities"], built["failed"]) == (4, 0)
        assert check_cache(path) == ()
        again = answer(capsys, *build)
        assert (again["reused"], again["sha256"]) == (4, built["sha256"])

        assert [row["name"] for row in answer(capsys, *inspect)["families"]] == ["toy"]
        assert answer(capsys, *inspect, "--identity", EAGER)["identity"]["edge"] == 32
        assert answer(capsys, *inspect, "--identity", REFUSED, "--why")["reason"] == "T1_edge"
        assert answer(capsys, *inspect, *PROBLEM)["serving"] == 4
        refused = answer(capsys, *inspect, *IN_GROUPS, "--why")["refused"]
        assert [(row["reason"], row["entries"]) for row in refused] == [("S_toy", 4)]

        plan = answer(capsys, "plan", str(path), *PROBLEM)
        assert plan["steps"][0]["identity"].startswith("fwd:toy:")
        verified = answer(capsys, "verify", str(path), "--jobs", "2")
        assert (verified["right"], verified["wrong"], verified["error"]) == (4, 0, 0)


def test_what_is_left_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], local_toolchain: Toolchain) -> None:
    """Without the family its cache is shown and serves nothing; with one axis more it is read, digests as they were."""
    del local_toolchain
    path = tmp_path / "gfx950-bf16.rocke"
    with toys():
        assert run(["compile-all", *REQUEST, "--limit", "2", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert check_cache(path) == ()
    refused = answer(capsys, "inspect", str(path), *PROBLEM, "--why")["refused"]
    assert [(row["reason"], row["entries"]) for row in refused] == [("S_family", 2)]
    assert run(["plan", str(path), *PROBLEM]) == 1
    assert "S_family" in capsys.readouterr().err

    @dataclass(frozen=True, slots=True)
    class LaterToy(Identity):
        family, direction = "toy", "fwd"

        depth: int = axis("depth", 7, "new")
        edge: int = axis("edge", 16, "rows and columns of the output tile", least=1)
        eager: bool = axis("eager", False, "prefetches")

    register(LaterToy)
    try:
        with Cache.open(path) as cache:
            assert len(cache) == 2
            for number in range(len(cache)):
                later: Any = cache.identity(number)
                assert (type(later), later.depth) == (LaterToy, 7)
                assert identity_digest(later) == bytes(cache.digests[number])
    finally:
        forget(LaterToy)
