"""Files of problems: YAML or JSON records, or one MIOpenDriver line per text line.

A case whose numbers are bad is kept with its error, since "this is refused" is an answer too; a file that cannot be
read as a list of cases is a `ProblemFileError`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cache_schema import strict_json, strict_yaml
from cache_schema.errors import ProblemError, RequestError
from cache_schema.problem import ConvProblem
from cache_schema.problem_fields import BY_NAME, PAIR, from_mapping, integer
from cache_schema.problem_miopen import from_miopen_line

FILE_SCHEMA = 1
#: Keys of a record that describe the case and not the problem.
CASE_KEYS = ("inputs", "launch", "run", "expect", "also_accept", "reject", "twin_of", "fault")
#: Keys that say nothing about the numbers.
REMARK_KEYS = (
    "id", "case_id", "suite", "side", "priority", "source", "why", "seed", "name", "remark", "comment", "note",
)  # fmt: skip
#: Keys of a file that is a mapping.
FILE_KEYS = ("schema", "count", "problems")


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
        text = strict_yaml.read_text(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProblemFileError(f"cannot read problem file {path}: {reason}") from error
    if path.suffix not in (".yaml", ".yml", ".json"):
        return _line_cases(text)
    try:
        data = strict_json.loads(text) if path.suffix == ".json" else strict_yaml.load(text)
    except ValueError as error:
        raise ProblemFileError(f"problem file {path}: {error}") from error
    if isinstance(data, dict):
        if data.get("schema", FILE_SCHEMA) != FILE_SCHEMA:
            told = reprlib.repr(data["schema"])
            raise ProblemFileError(f"problem file {path}: schema {told}; this program reads {FILE_SCHEMA}")
        if other := [str(key) for key in data if key not in FILE_KEYS and key not in REMARK_KEYS]:
            raise ProblemFileError(f"problem file {path}: {other[0][:40]!r} holds for no problem; say it of each")
    records = data.get("problems") if isinstance(data, dict) else data
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ProblemFileError(f"problem file {path}: not a list of problems, nor a mapping with a list 'problems'")
    if isinstance(data, dict) and data.get("count", len(records)) != len(records):
        raise ProblemFileError(
            f"problem file {path}: {len(records)} problems, but count says {reprlib.repr(data['count'])}"
        )
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
            raise ProblemError("launch", f"{reprlib.repr(launch)} is not a mapping")
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
    """The keys that make the problem: all that are not known to be about something else."""
    part = {key: value for key, value in record.items() if key not in CASE_KEYS and key not in REMARK_KEYS}
    return _record_1d(part) if part.get("op") == "conv1d" else part


def _record_1d(part: Mapping[str, Any]) -> dict[str, Any]:
    """A 1-D record (extents L and Kl) is a 2-D one with a single row."""
    names = {"L": "w", "Kl": "x"}
    flat = {names.get(key, key): value for key, value in part.items() if key != "op"}
    if len(flat) != len(part) - 1:
        raise ProblemError("op", "a 1-D problem has L and Kl for w and x, not both")
    for name in ("h", "y"):
        if flat.setdefault(name, 1) != 1:
            raise ProblemError(name, f"{reprlib.repr(flat[name])}; a 1-D problem has one row")
    for name, value in flat.items():
        field = BY_NAME.get(str(name).lower())
        if field is not None and field.kind == PAIR:
            neutral = 0 if field.name.startswith("pad") else 1
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
