"""A cache of code objects that were linked in another way is built anew, and so is one of another version."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from aot.farm.build import BuildRequest, build
from aot.farm.selection import GridScope, select
from aot.toolchain import Toolchain
from aot.toolchain.loader_contract import Expected, violations
from cache_schema.cache_reader import Cache
from tests.aot.small_cache import write_small_cache

SCOPE = GridScope("gfx950", ("fwd",), limit=3)


def second_run(folder: Path, toolchain: Toolchain) -> tuple[int, int]:
    """(reused, built) of a build over what is in the folder, whose kernels then keep the loader contract."""
    (summary,) = build(BuildRequest(SCOPE, ("bf16",), toolchain, folder, jobs=1))
    with Cache.open(summary.cache) as cache:
        for number in range(len(cache)):
            entry = cache.entry(number)
            expected = Expected(cache.arch, entry.symbol, entry.arguments, entry.block_size)
            assert violations(cache.code_object(number), expected) == ()
    return summary.reused, summary.built


def earlier(folder: Path, toolchain: Toolchain) -> None:
    """A cache of the same kernels, made in this process."""
    table = select(SCOPE, "bf16").table
    write_small_cache(folder / "gfx950-bf16.rocke", toolchain, [table.row(index) for index in range(len(table))])


def test_equal_objects_are_taken_over(tmp_path: Path, local_toolchain: Toolchain) -> None:
    """What is linked as we link it is found by its key, though the file says nothing else of us."""
    earlier(tmp_path, local_toolchain)
    assert second_run(tmp_path, local_toolchain) == (3, 0)


def test_objects_without_symbols_are_not(
    tmp_path: Path, local_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that were linked with --strip-all have other keys: not one of them gets into the new cache."""
    flags = ("-shared", "--no-undefined", "--strip-all")
    with monkeypatch.context() as patched:
        for name in ("link", "content_key"):
            patched.setattr(importlib.import_module(f"aot.toolchain.{name}"), "LLD_FLAGS", flags)
        patched.setattr("aot.farm.units.check_loader_contract", lambda *_: None)
        earlier(tmp_path, local_toolchain)
    assert second_run(tmp_path, local_toolchain) == (0, 3)


def test_objects_of_another_version_are_not(
    tmp_path: Path, local_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code object version 6 is in the IR, so its keys are others too."""
    with monkeypatch.context() as patched:
        patched.setattr("aot.ir.module._CODE_OBJECT_VERSION", 600)
        patched.setattr("aot.farm.units.check_loader_contract", lambda *_: None)
        earlier(tmp_path, local_toolchain)
    assert second_run(tmp_path, local_toolchain) == (0, 3)
