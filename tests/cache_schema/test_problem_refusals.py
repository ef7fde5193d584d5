"""Nothing that may change a problem's numbers is dropped: whatever is not known is refused by its name."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache_schema.errors import ProblemError
from cache_schema.problem_fields import BY_NAME, BY_OPTION, FIELDS, FIXED, NUMBER
from cache_schema.problem_file import CASE_KEYS, REMARK_KEYS
from cache_schema.problem_miopen import STEERING
from cache_schema.problem_parse import ProblemFileError, from_mapping, from_miopen_line, load_problem_file
from grids.axes import AxesError, load_axes
from tests.cache_schema.strategies import STEADY

RECORD: dict[str, Any] = {
    "direction": "fwd", "dtype": "bf16", "n": 1, "c": 8, "h": 5, "w": 5, "k": 8, "y": 1, "x": 1,
}  # fmt: skip
LINE = "convbfp16 -n 1 -c 8 -H 5 -W 5 -k 8 -y 1 -x 1 -F 1"


def error_of(tmp_path: Path, record: dict[str, Any]) -> ProblemError | None:
    """What a file with one record says of it."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps([record]))
    (case,) = load_problem_file(path)
    return case.error


def test_no_name_means_two_things() -> None:
    """Spellings of fields are unique, options too, and none of these only steers the driver."""
    assert len(BY_NAME) == sum(1 + len(field.names) for field in FIELDS)
    assert len(BY_OPTION) == sum(len(field.options) for field in FIELDS)
    assert not STEERING & BY_OPTION.keys()
    assert all(name == name.lower() for name in BY_NAME)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auto_pad", "SAME_UPPER"), ("pad_mode", "reflect"), ("data_layout", "NCHW"), ("padd", "1"), ("stide", 2),
        ("bias", True), ("transposed", True), ("output_padding", 1), ("pad_value", "1.5"), ("activation", "relu"),
        ("alpha", 2.0), ("padding_mode", "circular"), ("dtype_acc", "fp16"), ("", 1), ("n ", 2),
    ],
)  # fmt: skip
def test_keys_that_change_the_numbers(key: str, value: Any, tmp_path: Path) -> None:
    """Text and numbers alike, known with one meaning or not at all: the record is refused and names the key."""
    assert error_of(tmp_path, RECORD) is None
    error = error_of(tmp_path, {**RECORD, key: value})
    assert error is not None
    assert error.field == (BY_NAME[key].name if key in BY_NAME else key)


@STEADY
@given(key=st.text(min_size=1, max_size=12), value=st.one_of(st.text(max_size=5), st.integers(), st.booleans()))
def test_unknown_keys(key: str, value: Any) -> None:
    """Any key that is in no list is refused by its name, whatever its value."""
    if key.lower() in BY_NAME or key in (*CASE_KEYS, *REMARK_KEYS):
        return
    with pytest.raises(ProblemError) as caught:
        from_mapping({**RECORD, key: value})
    assert caught.value.field == key


def test_every_field_counts() -> None:
    """Each spelling of each field changes the problem, contradicts what is there, or is refused."""
    plain = from_mapping(RECORD)
    for spelling, field in BY_NAME.items():
        value: Any = "other" if field.kind == FIXED else "wgrad" if field.name == "direction" else 2
        try:
            changed = from_mapping({**{k: v for k, v in RECORD.items() if k != field.name}, spelling: value})
        except ProblemError:
            continue
        assert changed != plain, spelling
    for field in FIELDS:
        for value in field.allowed:
            assert from_mapping({**RECORD, field.name: value}) == plain


def test_every_option_counts() -> None:
    """So does each option of a driver line; one that is not known is refused by its name."""
    plain = from_miopen_line(LINE)
    for option, field in BY_OPTION.items():
        changed, named = None, ""
        try:
            changed = from_miopen_line(f"{LINE} -{option} {'2' if field.kind == NUMBER else 'other'}")
        except ProblemError as error:
            named = error.field
        assert changed != plain if changed else named == field.name, option
    for option in STEERING:
        assert from_miopen_line(f"{LINE} -{option} 1") == plain
    for option in ("Q", "fusion", "n2", "-", ""):
        with pytest.raises(ProblemError, match="unknown option"):
            from_miopen_line(f"{LINE} -{option} 1")


@pytest.mark.parametrize(
    "text",
    [
        f"{LINE} {LINE}",
        f"{LINE}\n{LINE}",
        f"{LINE} --wall {LINE}",
        f"{LINE} ./MIOpenDriver {LINE}",
        f"{LINE} -n 2",
        f"{LINE} 7",
        "convbfp16 -n 1 -c 8 -H 5 -W 5 -k 8 -y 1 -x 1 -_ 1",
    ],
)
def test_lines_that_say_two_things(text: str) -> None:
    """Two lines in one text, an option with two values, and words that belong to none are no problem."""
    with pytest.raises(ProblemError):
        from_miopen_line(text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.json", '[{"n": 1, "n": 2}]', "'n' is repeated"),
        ("p.json", '[{"id": "\\ud800"}]', "surrogate"),
        ("p.json", "[" * 100_000, "nested"),
        ("p.json", '[{"n": NaN}]', "NaN"),
        ("p.json", '{"problems": [], "layout": "NCHW"}', "'layout' holds for no problem"),
        ("p.yaml", '- {id: "\\ud800"}', "surrogate"),
        ("p.yaml", "[" * 100_000, "nested"),
        ("p.yaml", "- &a {n: 1}\n- *a\n", "aliases"),
        ("p.yaml", "problems: []\ndefaults: {pad: 1}\n", "'defaults'"),
        ("p.yaml", "\x00", "unacceptable"),
        ("p.yaml", "!!python/object:os.system {}", "could not determine"),
        ("p.yaml", "? [a, b]\n: 1\n", "hashable"),
    ],
)
def test_files_that_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    """One error with the file's name; nothing of it is taken."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ProblemFileError, match=rf"{name}.*{message}"):
        load_problem_file(path)


def bomb(levels: int = 12, width: int = 10) -> str:
    """A few hundred bytes that stand for 10^12 words."""
    lines = ["every: {tile_m: &a0 [" + ", ".join(["16"] * width) + "]}"]
    lines += [f"x{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join([*lines, f"families: *a{levels - 1}"])


@pytest.mark.parametrize(
    "text",
    [
        bomb(), "[" * 200_000, "{" * 200_000, "- " * 200_000, '"\\ud800"', "\xff", "every: {tile_m: [16.0]}",
        "every: {tile_m: [16], tile_m: [32]}", "every: {tile_m: [true]}",
    ],
)  # fmt: skip
def test_hostile_axes(text: str, tmp_path: Path) -> None:
    """An axes file cannot cost memory or end in a traceback, and is refused by its name."""
    path = tmp_path / "axes.yaml"
    path.write_bytes(text.encode("latin-1"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(AxesError, match=r"axes\.yaml"):
        load_axes(path)
    with pytest.raises(ProblemFileError, match=r"axes\.yaml"):
        load_problem_file(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_endless_files() -> None:
    """A device that never ends is read as far as files may be long."""
    with pytest.raises(ProblemFileError, match="longer than"):
        load_problem_file("/dev/zero")
    with pytest.raises(AxesError, match="longer than"):
        load_axes(Path("/dev/zero"))
