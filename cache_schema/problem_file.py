"""Files of problems: YAML or JSON records, or one MIOpenDriver line per text line.

A case whose numbers are bad is kept with its error, since "this is refused" is an answer too; a file that cannot be
read as a list of cases is a `ProblemFileError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cache_schema.errors import ProblemError, RequestError
from cache_schema.problem import ConvProblem
from cache_schema.problem_fields import ALIASES, from_mapping, integer, is_known
from cache_schema.problem_miopen import from_miopen_line

FILE_SCHEMA = 1
#: Keys of a record that describe the case and not the problem.
CASE_KEYS = ("inputs", "launch", "run", "expect", "also_accept", "reject", "twin_of", "fault")
#: Keys that say nothing about the numbers although their values may be numbers.
REMARK_KEYS = ("id", "case_id", "suite", "side", "priority", "source", "why", "seed")


class ProblemFileError(RequestError):
    """A problem file that cannot be read, or is not a list of problems."""


@dataclass(frozen=True, slots=True)
class ProblemCase:
    """One case of a file: exactly one of `problem` and `error` is set."""

    id: str
    problem: ConvProblem | None
    error: ProblemError | None = None
    inputs: str = "uniform"
    launch: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    expect: str = ""
    also_accept: str = ""
    reject: str = ""
    twin_of: tuple[str, ...] = ()
    fault: str = ""


def load_problem_file(path: Path | str) -> list[ProblemCase]:
    """All cases in file order. `.yaml`, `.yml` and `.json` hold records, everything else MIOpenDriver lines."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProblemFileError(f"cannot read problem file {path}: {reason}") from error
    if path.suffix not in (".yaml", ".yml", ".json"):
        return _line_cases(text)
    try:
        data = json.loads(text) if path.suffix == ".json" else yaml.load(text, CoreLoader)  # noqa: S506 (a SafeLoader)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ProblemFileError(f"problem file {path}: {' '.join(str(error).split())}") from error
    if isinstance(data, dict) and data.get("schema", FILE_SCHEMA) != FILE_SCHEMA:
        raise ProblemFileError(f"problem file {path}: schema {data['schema']!r}; this program reads {FILE_SCHEMA}")
    records = data.get("problems") if isinstance(data, dict) else data
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ProblemFileError(f"problem file {path}: not a list of problems, nor a mapping with a list 'problems'")
    if isinstance(data, dict) and data.get("count", len(records)) != len(records):
        raise ProblemFileError(f"problem file {path}: {len(records)} problems, but count says {data['count']}")
    cases = [_record_case(record, f"#{number}") for number, record in enumerate(records, 1)]
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ProblemFileError(f"problem file {path}: id {case.id!r} appears twice")
        seen.add(case.id)
    return cases


def _record_case(record: Mapping[str, Any], default_id: str) -> ProblemCase:
    problem: ConvProblem | None = None
    error: ProblemError | None = None
    launch = record.get("launch") or {}
    try:
        problem = from_mapping(_problem_part(record))
        if not isinstance(launch, dict):
            raise ProblemError("launch", f"{launch!r} is not a mapping")
        _check_launch(launch)
    except ProblemError as caught:
        problem, error = None, caught
    twins = record.get("twin_of") or ()
    return ProblemCase(
        id=str(record.get("id", record.get("case_id", default_id))),
        problem=problem,
        error=error,
        inputs=str(record.get("inputs", "uniform")),
        launch=dict(launch) if isinstance(launch, dict) else {},
        run=str(record.get("run", "")),
        expect=str(record.get("expect", "")),
        also_accept=str(record.get("also_accept", "")),
        reject=str(record.get("reject", "")),
        twin_of=tuple(map(str, twins)) if isinstance(twins, list) else (str(twins),) if twins else (),
        fault=str(record.get("fault", "")),
    )


def _problem_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that make the problem. A text remark under an unknown key is none of them; an unknown number is."""
    part = {key: value for key, value in record.items() if key not in CASE_KEYS and key not in REMARK_KEYS}
    if part.get("op") == "conv1d":
        part = _record_1d(part)
    return {key: value for key, value in part.items() if is_known(str(key)) or not isinstance(value, str)}


def _record_1d(part: Mapping[str, Any]) -> dict[str, Any]:
    """A 1-D record (extents L and Kl) is a 2-D one with a single row."""
    names = {"L": "w", "Kl": "x"}
    flat = {names.get(key, key): value for key, value in part.items() if key != "op"}
    flat.update(h=1, y=1)
    for name, value in flat.items():
        field_name = ALIASES.get(name.lower(), name.lower())
        if field_name in ("stride", "pad", "pad_lo", "pad_hi", "dilation"):
            neutral = 0 if field_name.startswith("pad") else 1
            flat[name] = [neutral, value[0] if isinstance(value, list) and len(value) == 1 else value]
    return flat


def _check_launch(launch: Mapping[str, Any]) -> None:
    """What a launch request may say at all; whether a kernel can do it is decided elsewhere."""
    if "split_k" in launch:
        degree = integer("split_k", launch["split_k"])
        if degree != -1 and degree < 1:
            raise ProblemError("split_k", f"degree {degree}; it must be -1 (automatic) or at least 1")
    if "split_n" in launch and integer("split_n", launch["split_n"]) < 1:
        raise ProblemError("split_n", f"degree {launch['split_n']}; it must be at least 1")


def _line_cases(text: str) -> list[ProblemCase]:
    cases: list[ProblemCase] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            cases += [ProblemCase(f"line-{number}-{p.direction}", p) for p in from_miopen_line(line)]
        except ProblemError as error:
            cases.append(ProblemCase(f"line-{number}", None, error))
    return cases


class CoreLoader(yaml.SafeLoader):
    """YAML 1.2 core schema: `n`, `y`, `no` and `on` are text, `010` is ten; a repeated key is an error."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own protocol)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the base class, but refuses repeated keys."""
        mapping = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key is repeated in one mapping", node.start_mark)
        return mapping


def _core_int(loader: CoreLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("null", r"null|Null|NULL|~|", [*"nN~", ""]),
    ("int", r"[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|nan)", [*"-+.0123456789"]),
):
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)
CoreLoader.add_constructor("tag:yaml.org,2002:int", _core_int)
