"""Axes files: what they may say, and what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cache_schema.table import IdentityTable
from grids.axes import AxesError, load_axes
from grids.families import families
from grids.targets import target
from tests.grids.kernels import candidates


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def enumerated(path: Path, family: str) -> IdentityTable:
    """The candidates of a family under a user's file."""
    return families()[family].candidates(target("gfx950"), "bf16", load_axes(path)[family])


def test_default_axes_are_within_what_is_allowed() -> None:
    """The catalogue's own axes pass the checks of a user's file, for every family, and are listed once."""
    axes = load_axes()
    assert list(axes) == list(families())
    for name, family in families().items():
        assert set(axes[name]) == set(family.axes)
        for axis, choice in family.axes.items():
            assert axes[name][axis] == choice.values
            assert set(choice.values) <= set(choice.allowed)
            assert len(set(choice.allowed)) == len(choice.allowed)


def test_axes_stay_within_the_record() -> None:
    """Whatever a user's file may ask of an axis that is a field, the record allows."""
    checked = 0
    for family in families().values():
        for name in set(family.axes) & set(family.schema.by_name):
            axis, allowed = family.schema.by_name[name].axis, family.axes[name].allowed
            assert axis
            assert all(value in axis.words if isinstance(value, str) else axis.least <= value <= axis.most
                       for value in allowed), (family.name, name)  # fmt: skip
            checked += 1
    assert checked > 60


def test_narrowing_gives_a_subset(tmp_path: Path) -> None:
    """A narrowed axis keeps exactly the rows of the catalogue with those values."""
    text = "every: {tile_m: [128], tile_n: [64, 128]}\nfamilies: {tilde: {vector_size_a: [8]}}"
    narrow, full = enumerated(write(tmp_path, text), "tilde"), candidates("gfx950", "bf16", "tilde")
    columns = full.columns
    mask = (columns["tile_m"] == 128) & ((columns["tile_n"] == 64) | (columns["tile_n"] == 128))
    kept = full.take(mask & (columns["vector_size_a"] == 8))
    assert {narrow.row(i) for i in range(len(narrow))} == {kept.row(i) for i in range(len(kept))}
    assert len(narrow) > 100


def test_extending_keeps_the_catalogue(tmp_path: Path) -> None:
    """An extended axis adds rows with the new value and loses none."""
    text = "families: {implicit_gemm: {tile_m: [16, 32, 64, 128, 256, 512]}}"
    extended, default = (
        enumerated(write(tmp_path, text), "implicit_gemm"),
        candidates("gfx950", "bf16", "implicit_gemm"),
    )
    assert len(extended) == len(default) + (extended.columns["tile_m"] == 512).sum() > len(default)


def test_family_beats_every(tmp_path: Path) -> None:
    """An axis under a family's name beats the same axis under every; families not named follow every."""
    axes = load_axes(write(tmp_path, "every: {pipeline: [mem]}\nfamilies: {tilde: {pipeline: [compv3, compv4]}}"))
    assert axes["tilde"]["pipeline"] == ("compv3", "compv4")
    having = [name for name, family in families().items() if "pipeline" in family.axes]
    assert {"tilde", "stride1", "stream_k"} < set(having)
    assert all(axes[name]["pipeline"] == ("mem",) for name in having if name != "tilde")


def test_an_axis_under_every_reaches_only_families_that_have_it(tmp_path: Path) -> None:
    """Merge degrees mean nothing outside the merged family, and replicas reach the second step with the first."""
    axes = load_axes(write(tmp_path, "every: {group_merge: [4], ws_replicas: [2]}"))
    assert [name for name, values in axes.items() if "group_merge" in values] == ["merged"]
    assert axes["merged"]["group_merge"] == (4,)
    assert {name for name, values in axes.items() if values.get("ws_replicas") == (2,)} == {
        "two_stage",
        "merged",
        "reduce",
    }


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    """A file without a word is the default."""
    assert load_axes(write(tmp_path, "")) == load_axes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("every: {tile_q: [16]}", ["every", "tile_q", "tile_m"]),
        ("every: {tile_m: [48]}", ["every.tile_m", "48", "512"]),
        ("every: {tile_m: ['64']}", ["every.tile_m", "'64'"]),
        ("every: {tile_m: [true]}", ["every.tile_m", "True"]),
        ("every: {tile_m: []}", ["every.tile_m", "at least one"]),
        ("every: {tile_m: 64}", ["every.tile_m", "64"]),
        ("every: {tile_m: [64, 64]}", ["every.tile_m", "twice"]),
        ("every: [tile_m]", ["every", "mapping"]),
        ("families: {winograd: {}}", ["family", "winograd", "implicit_gemm"]),
        ("families: {tilde: {group_merge: [2]}}", ["tilde", "group_merge", "max_sub_gemms"]),
        ("families: {stream_k: {k_loop: [plain]}}", ["stream_k", "k_loop", "tile_m"]),
        ("families: {fix_up: {tile_m: [64]}}", ["fix_up", "tile_m"]),
        ("families: {merged: {group_merge: [3]}}", ["merged.group_merge", "3", "64"]),
        ("families: {tilde: {pipeline: [basic]}}", ["tilde.pipeline", "basic", "compv4"]),
        ("tiles: {}", ["section", "tiles", "every"]),
        ("[1, 2]", ["the file", "mapping"]),
        ("every: {tile_m: [", ["not YAML"]),
    ],
)
def test_bad_files_name_the_fault(tmp_path: Path, text: str, words: list[str]) -> None:
    """Every kind of mistake is one line that names the file, the place, the value and what is known."""
    path = write(tmp_path, text)
    with pytest.raises(AxesError) as caught:
        load_axes(path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in [str(path), *words]), message


def test_missing_file(tmp_path: Path) -> None:
    """A file that cannot be read is a wrong request, not a traceback."""
    with pytest.raises(AxesError, match=r"nowhere.yaml: cannot be read"):
        load_axes(tmp_path / "nowhere.yaml")
