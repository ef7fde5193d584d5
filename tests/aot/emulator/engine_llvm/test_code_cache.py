"""The folder of compiled handlers does not grow with every version of the emulator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aot.emulator.engine_llvm.code_cache import KEPT_VERSIONS, _read_pack, _write_pack, prune_versions


def _versions(root: Path, number: int) -> list[Path]:
    """Folders of versions, the one used last at the end."""
    folders = []
    for age in range(number):
        folder = root / f"{age:032x}"
        folder.mkdir(parents=True)
        (folder / "runtime.pack").write_bytes(b"x")
        os.utime(folder, (1000 + age, 1000 + age))
        folders.append(folder)
    return folders


def test_versions_used_last_are_kept(tmp_path: Path) -> None:
    """The current version stays however old its folder is, and beside it the few that were used last."""
    current, *others = _versions(tmp_path, KEPT_VERSIONS + 4)
    prune_versions(current)
    assert sorted(tmp_path.iterdir()) == sorted([current, *others[-KEPT_VERSIONS:]])
    assert (current / "runtime.pack").exists()


def test_pruning_leaves_what_it_does_not_know(tmp_path: Path) -> None:
    """Files and folders that are no version stay; remains of a killed process go; no folder at all is no error."""
    *_, current = _versions(tmp_path, 2)
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "old-remains-1").mkdir()
    (tmp_path / "old-remains-1" / "x.pack").write_bytes(b"x")
    prune_versions(current)
    assert {path.name for path in tmp_path.iterdir()} == {f"{0:032x}", current.name, "notes", "file"}
    prune_versions(tmp_path / "nowhere" / "x")


@pytest.mark.parametrize("call", ["fsync", "fstat"])
def test_a_pack_that_cannot_be_written_leaves_nothing(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails while a pack is written is no error, and leaves neither a pack nor a temporary file."""
    pack = tmp_path / "version" / "h_0.pack"

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        _write_pack(pack, ["h_a"], b"code")
    assert list(tmp_path.rglob("*")) == [pack.parent]
    _write_pack(pack, ["h_a"], b"code")
    assert _read_pack(pack) == (["h_a"], b"code")
    assert list(pack.parent.iterdir()) == [pack]
