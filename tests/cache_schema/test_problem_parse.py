"""Problems written as flags, MIOpenDriver lines and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from cache_schema.problem_parse import (
    ProblemFileError,
    from_flags,
    from_mapping,
    from_miopen_line,
    load_problem_file,
)
from tests.suites import SUITES, needs_suites

NUMBERS: dict[str, Any] = {"n": 2, "c": 64, "h": 9, "w": 7, "k": 128, "y": 3, "x": 2}
SHAPE: dict[str, Any] = {"dtype": "bf16", **NUMBERS}
WANTED = ConvProblem("wgrad", "bf16", 2, 64, 9, 7, 128, 3, 2, 2, 1, 1, 0, 1, 3, 4)


def test_flags_in_every_spelling() -> None:
    """Numbers and text, pairs and halves, long names and short names give one problem."""
    shared = {"direction": "wgrad", "groups": 4}
    spellings: list[dict[str, Any]] = [
        {**SHAPE, **shared, "stride": (2, 1), "pad": [1, 0], "dilation": "1,3"},
        {**SHAPE, **shared, "stride_h": 2, "pad_h": "1", "dilation_w": 3, "stride_w": None},
        {**{name: str(value) for name, value in SHAPE.items()}, **shared, "sH": 2, "pH": 1, "dW": 3},
        {"dtype": "bf16", "N": 2, "Cin": 64, "Hi": 9, "Wi": 7, "Cout": 128, "Kh": 3, "Kw": 2, **shared,
         "strides": [2, 1], "pads_before": [1, 0], "pads_after": [1, 0], "dilations": [1, 3], "layout": "nhwc"},
    ]  # fmt: skip
    assert [from_flags(**spelling) for spelling in spellings] == [WANTED] * 4
    assert from_flags(**SHAPE, stride=2).stride_w == 2
    assert from_flags(**SHAPE).direction == "fwd"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dtype": None}, "dtype"),
        ({"dtype": "fp32"}, "dtype"),
        ({"n": None}, "n"),
        ({"y": "3.0"}, "y"),
        ({"y": "٣"}, "y"),
        ({"x": True}, "x"),
        ({"stride": [1, 2, 3]}, "stride"),
        ({"stride": 0}, "stride_h"),
        ({"stride": 2, "stride_w": 1}, "stride_w"),
        ({"pad_lo": [1, 1], "pad_hi": [1, 0]}, "pad"),
        ({"pad_lo": [1, 1]}, "pad_hi"),
        ({"pad_lo": 1, "pad_hi": 1, "pad": 0}, "pad"),
        ({"layout": "NCHW"}, "layout"),
        ({"z": 3}, "z"),
        ({"Di": 3}, "di"),
        ({"op": "conv3d"}, "op"),
        ({"strde": 2}, "strde"),
        ({"H": 8}, "h"),
        ({"direction": "forward"}, "direction"),
    ],
)
def test_flags_refused_by_field(change: dict[str, Any], field: str) -> None:
    """What is missing, malformed, contradictory or unsupported is refused under its name."""
    with pytest.raises(ProblemError) as caught:
        from_flags(**{**SHAPE, **change})
    assert caught.value.field == field


def test_missing_direction_is_an_error_in_records() -> None:
    """Only the flag interface has a default direction."""
    with pytest.raises(ProblemError, match="direction"):
        from_mapping(SHAPE)


LINE = "-n 2 -c 64 -H 9 -W 7 -k 128 -y 3 -x 2 -p 1 -q 0 -u 2 -v 1 -l 1 -j 3 -g 4"


@pytest.mark.parametrize(
    "line",
    [
        f"convbfp16 {LINE} -F 4",
        f"  ./bin/MIOpenDriver convbfp16 {LINE} -F 4 -in_layout NHWC -m conv -t 1 -V 0 -_ 2 --iter 10 -w 1 --wall",
        "MIOPEN_FIND_MODE=1 MIOpenDriver convbfp16 --batchsize=2 --in_channels=64 --in_h=9 --in_w 7 --out_channels 128 "
        "--fil_h 3 --fil_w=2 --pad_h=1 --pad_w=0 --conv_stride_h=2 --conv_stride_w=1 --dilation_h=1 --dilation_w=3 "
        "--group_count=4 --forw=4 --in_layout=NHWC --fil_layout=NHWC --out_layout=NHWC --dump_output -s -1",
    ],
)
def test_miopen_line(line: str) -> None:
    """Short and long options, `=` and blanks, driver options in between."""
    assert from_miopen_line(line) == [WANTED]


@pytest.mark.parametrize(
    ("forw", "directions"),
    [
        ("-F 0", ["fwd", "dgrad", "wgrad"]),
        ("", ["fwd", "dgrad", "wgrad"]),
        ("-F 1", ["fwd"]),
        ("-F 2", ["dgrad"]),
        ("-F 3", ["fwd", "dgrad"]),
        ("-F 5", ["fwd", "wgrad"]),
        ("-F=6", ["dgrad", "wgrad"]),
    ],
)
def test_miopen_directions(forw: str, directions: list[str]) -> None:
    """-F selects directions by bits."""
    problems = from_miopen_line(f"convfp16 {LINE} {forw}")
    assert [problem.direction for problem in problems] == directions
    assert {problem.dtype for problem in problems} == {"fp16"}


def test_miopen_1d_has_one_row() -> None:
    """NWC lines are 2-D problems of height one."""
    (problem,) = from_miopen_line("convfp16 -n 2 -c 8 -W 7 -k 16 -x 3 -q 1 -v 2 -F 1 -_ 1 --in_layout NWC")
    assert problem == ConvProblem("fwd", "fp16", 2, 8, 1, 7, 16, 1, 3, 1, 2, 0, 1)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (f"conv {LINE}", "dtype"),
        (f"convint8 {LINE}", "dtype"),
        (LINE, "dtype"),
        ("", "dtype"),
        (f"convfp16 {LINE} --in_layout NCHW", "in_layout"),
        (f"convfp16 {LINE} -f NCHW", "fil_layout"),
        (f"convfp16 {LINE} -_ 3", "spatial_dim"),
        (f"convfp16 {LINE} --in_d 4", "in_d"),
        (f"convfp16 {LINE} -m trans", "mode"),
        (f"convfp16 {LINE} -z same", "pad_mode"),
        (f"convfp16 {LINE} -F 8", "forw"),
        (f"convfp16 {LINE} -F x", "forw"),
        (f"convfp16 {LINE} -p -1", "pad_h"),
        (f"convfp16 {LINE} -n", "n"),
        ("convfp16 -n 2", "c"),
    ],
)
def test_miopen_refused_by_field(line: str, field: str) -> None:
    """Other types, layouts, modes and dimensions would be other problems, so they are never taken for this one."""
    with pytest.raises(ProblemError) as caught:
        from_miopen_line(line)
    assert caught.value.field == field


YAML_FILE = """
schema: 1
count: 4
problems:
  - {id: good, direction: fwd, n: 010, c: 8, h: 5, w: 5, k: 8, y: 3, x: 3, pad: [1, 1], dtype: bf16, inputs: ints,
     expect: supported, source: "a book", remark: no, twin_of: [a, b], launch: {split_k: 4, deterministic: true}}
  - {id: lohi, direction: dgrad, n: 1, c: 8, h: 5, w: 5, k: 8, y: 3, x: 3, pad_lo: [1, 2], pad_hi: [1, 2], dtype: fp16}
  - {id: bad, fault: f, run: host-only, direction: fwd, n: 1, c: 8, h: 5, w: 5, k: 8, y: 0, x: 3, dtype: bf16,
     expect: rejected-with-reason, also_accept: supported, reject: why}
  - {id: degree, direction: wgrad, n: 1, c: 8, h: 5, w: 5, k: 8, y: 1, x: 3, dtype: bf16, launch: {split_k: -2}}
"""


def test_yaml_file(tmp_path: Path) -> None:
    """`n` and `y` are keys, not truth values; a bad case stays in the list with its error."""
    path = tmp_path / "problems.yaml"
    path.write_text(YAML_FILE)
    good, lohi, bad, degree = load_problem_file(path)
    assert good.problem == ConvProblem("fwd", "bf16", 10, 8, 5, 5, 8, 3, 3, pad_h=1, pad_w=1)
    assert (good.inputs, good.expect, good.twin_of) == ("ints", "supported", ("a", "b"))
    assert good.launch == {"split_k": 4, "deterministic": True}
    assert lohi.problem is not None
    assert (lohi.problem.pad_h, lohi.problem.pad_w, lohi.inputs, lohi.launch) == (1, 2, "uniform", {})
    assert bad.problem is None
    assert bad.error is not None
    assert (bad.error.field, bad.fault, bad.run, bad.also_accept, bad.reject) == (
        "y",
        "f",
        "host-only",
        "supported",
        "why",
    )
    assert degree.error is not None
    assert degree.error.field == "split_k"


def test_json_file(tmp_path: Path) -> None:
    """A top-level list with the long names; 1-D is height one, a record without dtype is refused."""
    records = [
        {"case_id": "a", "op": "conv2d", "direction": "fwd", "dtype": "fp16", "N": 1, "Cin": 8, "Cout": 16, "H": 6,
         "W": 5, "Kh": 3, "Kw": 3, "stride": 2, "pads_before": 1, "pads_after": 1, "layout": "NHWC", "priority": 1},
        {"op": "conv1d", "direction": "fwd", "dtype": "fp16", "N": 1, "C": 8, "K": 16, "L": 9, "Kl": 3, "stride": 2,
         "pad": [1]},
        {"op": "conv2d", "direction": "fwd", "N": 1, "C": 8, "K": 16, "H": 9, "W": 9, "Y": 3, "X": 3},
    ]  # fmt: skip
    path = tmp_path / "problems.json"
    path.write_text(json.dumps(records))
    first, second, third = load_problem_file(path)
    assert (first.id, second.id) == ("a", "#2")
    assert first.problem == ConvProblem("fwd", "fp16", 1, 8, 6, 5, 16, 3, 3, 2, 2, 1, 1)
    assert second.problem == ConvProblem("fwd", "fp16", 1, 8, 1, 9, 16, 1, 3, 1, 2, 0, 1)
    assert third.error is not None
    assert third.error.field == "dtype"


def test_line_file(tmp_path: Path) -> None:
    """One line per problem; comments and blank lines are skipped, an unsupported line is kept as a refusal."""
    path = tmp_path / "lines.txt"
    path.write_text(f"# layers\n\nconvbfp16 {LINE} -F 5\nconv {LINE} -F 1\n")
    cases = load_problem_file(path)
    assert [case.id for case in cases] == ["line-3-fwd", "line-3-wgrad", "line-4"]
    assert cases[1].problem == WANTED
    assert cases[2].error is not None


@pytest.mark.parametrize(
    "text",
    [
        "problems: [1, 2]",
        "just text",
        "{problems: [{n: 1, n: 2}]}",
        "[{id: a}, {id: a}]",
        "{schema: 2, problems: []}",
        "{count: 3, problems: []}",
        "{problems: [",
        "[!!python/name:os.system {}]",
    ],
)
def test_files_that_are_no_lists(text: str, tmp_path: Path) -> None:
    """A malformed file is one clear error with its name."""
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ProblemFileError, match=r"bad\.yaml"):
        load_problem_file(path)
    with pytest.raises(ProblemFileError, match="cannot read"):
        load_problem_file(tmp_path / "absent.yaml")


@needs_suites
@pytest.mark.parametrize(("suite", "count"), [("adversarial", 194), ("models", 190), ("models_small", 180)])
def test_shared_suites(suite: str, count: int) -> None:
    """All cases load; exactly those are refused that the numbers alone condemn, and none that must be supported."""
    cases = load_problem_file(SUITES / f"{suite}.yaml")
    assert len(cases) == count
    assert not [case.id for case in cases if case.error and case.expect == "supported"]
    decided_elsewhere = (
        "groups times split degree exceeds 65535",
        "a grid axis would exceed 65535 blocks",
        "reduction of 2^23 or more terms",
        "more sub-problems than the kernel holds",
    )
    must_refuse = [case for case in cases if case.expect != "supported" and case.reject not in decided_elsewhere]
    assert [case.id for case in must_refuse if case.error is None] == []
