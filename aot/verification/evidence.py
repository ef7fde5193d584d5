"""The evidence file: what was run to show that the kernels of a cache are right, and what came of it.

    file    = header (case | verdict)*   one JSON object per line; a case stands before the verdicts that name it
    header  = {format, cache, arch, dtype, emulator, engine, seed, problems}
                cache: the seal of the cache file; emulator: the versions of the emulator and of the hazard
                rules; problems: "edges/N", or the SHA-256 of the problem file
    case    = {case: {name, problem, inputs, degree?, elements, exact, bound}}
                numbered from 0 in the order of the file; exact: elements for which one value only is right; bound: the
                largest error that was allowed; degree: slices, or workgroups of stream-K, where forced
    verdict = {code, digests, runs, instructions, use, verdict?, message?, cases?, failing?, hazards?}
                code: SHA-256 of the code object; digests: of the identities that share it, all of which this verdict is
                about; runs: number of the case and the largest |result - exact|, in turn; use: the largest share of its
                accumulation allowance that an element took up (aot.runtime.bounds); sanitizer: a right verdict had no
                fault of any kind
                Without `verdict` it is right. Else it is wrong (a result, or a fault of the kernel) or error (could not
                be run): then cases stands in full for runs, message says what was wrong, and failing has problem,
                inputs, seed and degree of the first case that was not right; hazards are the findings of the static
                check, after which nothing is run

A code object is verified once, with the cases of all its identities. A run appends verdicts as they come, and continues
where an earlier one with the same header stopped; at its end verdicts are sorted, so that equal runs give equal files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cache_schema.atomic_file import replace_file
from cache_schema.errors import DeliveryError, RequestError

FORMAT = "rocke-aot-evidence/2"
SUFFIX = ".evidence.jsonl"
RIGHT, WRONG, ERROR = "right", "wrong", "error"
#: What a run says of a case beyond what all kernels share.
RUN_FIELD = "worst_error"

Record = dict[str, Any]


class EvidenceError(DeliveryError):
    """A file that is no evidence, or evidence of something else."""


@dataclass(frozen=True, slots=True)
class Header:
    """What was verified by what; verdicts under equal headers may stand in one file."""

    cache: str
    arch: str
    dtype: str
    emulator: str
    engine: str
    seed: int
    problems: str

    def to_json(self) -> Record:
        """The first line."""
        return {"format": FORMAT, **asdict(self)}


class Evidence:
    """An evidence file that is being written; verdicts are kept by code object."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.header = path, header
        self.verdicts: dict[str, Record] = {}
        self._numbers: dict[str, int] = {}  # case line -> its number

    @classmethod
    def resume(cls, path: Path, header: Header) -> Evidence:
        """Take up what an earlier run with this header left; evidence under another header is replaced.

        Raises RequestError for a file that is no evidence: it is somebody's, and is not overwritten.
        """
        evidence = cls(path, header)
        if path.exists():
            try:
                found, verdicts = read_evidence(path)
            except EvidenceError as error:
                raise RequestError(f"{error}; name another file with --evidence") from error
            if found == header.to_json():
                evidence.verdicts = {str(verdict["code"]): verdict for verdict in verdicts}
        evidence.settle()
        return evidence

    def add(self, verdict: Mapping[str, Any]) -> None:
        """Append one verdict; it is on disk when this returns, but not yet in its place."""
        self.verdicts[str(verdict["code"])] = dict(verdict)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(self._lines(verdict)))

    def settle(self) -> None:
        """Rewrite the file in order, whole or not at all."""
        self._numbers = {}
        with replace_file(self.path) as file:
            file.write(_line(self.header.to_json()).encode())
            for code in sorted(self.verdicts):
                file.write("".join(self._lines(self.verdicts[code])).encode())

    def _lines(self, verdict: Mapping[str, Any]) -> list[str]:
        """A verdict, and in front of it the cases that the file does not have yet."""
        record = {name: verdict[name] for name in ("code", "digests")}
        rest = {name: verdict[name] for name in ("instructions", "use")}
        if verdict["verdict"] != RIGHT:
            told = ("verdict", "message", "cases", "failing", "hazards")
            return [_line(record | rest | {name: verdict[name] for name in told if name in verdict})]
        lines, runs = [], []
        for case in verdict["cases"]:
            line = _line({"case": {name: value for name, value in case.items() if name != RUN_FIELD}})
            if line not in self._numbers:
                self._numbers[line] = len(self._numbers)
                lines.append(line)
            runs += [self._numbers[line], _short(case[RUN_FIELD])]
        return [*lines, _line({**record, "runs": runs, **rest})]


def default_path(cache: Path) -> Path:
    """Where the evidence of a cache is looked for: beside it."""
    return cache.with_name(cache.name + SUFFIX)


def evidence_files(cache: Path) -> list[Path]:
    """The evidence beside a cache, whatever its problems."""
    return sorted(path for path in cache.parent.glob(f"*{SUFFIX}") if path.name.startswith(f"{cache.name}."))


def find_verdict(path: Path, seal: str, digest: str) -> Record | None:
    """The verdict of one kernel, where the evidence is of the cache with this seal; reads no other verdict."""
    try:
        with path.open(encoding="utf-8") as file:
            if json.loads(next(file, "{}")).get("cache") != seal:
                return None
            cases = []
            for line in file:
                if line.startswith(_CASE_START):
                    cases.append(line)
                elif f'"{digest}"' in line and line.endswith("\n"):
                    return _expanded(json.loads(line), _Lazy(cases))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise EvidenceError(f"cannot read evidence {path}: {error}") from error
    return None


def read_evidence(path: Path) -> tuple[Record, list[Record]]:
    """Header and verdicts with their cases; a line that was cut off at the end of the file is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise RequestError(f"cannot read evidence {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path} is not text: {error}") from error
    header: Record | None = None
    cases: list[Record] = []
    verdicts: list[Record] = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if header is None:
                header = _checked_header(record, path)
            elif "case" in record:
                cases.append(dict(record["case"]))
            else:
                verdicts.append(_expanded(record, cases))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            if number == len(lines) and not line.endswith("\n"):
                break
            what = "not JSON" if isinstance(error, ValueError) else "neither a case nor a verdict"
            raise EvidenceError(f"{path}: line {number} is {what}") from None
    if header is None:
        raise EvidenceError(f"{path} is not evidence of format {FORMAT}")
    return header, verdicts


def summarise_evidence(seal: str, path: Path) -> Record:
    """Counts for `inspect`: whether the evidence is of the cache with this seal, verdicts, runs, the worst error."""
    header, verdicts = read_evidence(path)
    return {
        "file": str(path),
        "of_this_cache": header["cache"] == seal,
        "emulator": header["emulator"],
        "problems": header["problems"],
        **{name: sum(len(v["digests"]) for v in verdicts if v["verdict"] == name) for name in (RIGHT, WRONG, ERROR)},
        "code_objects": len(verdicts),
        "runs": sum(len(verdict["cases"]) for verdict in verdicts),
        "worst_use_of_bound": max((float(verdict["use"]) for verdict in verdicts), default=0.0),
    }


_CASE_START = '{"case":'


class _Lazy:
    """Cases by number, read when asked for."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __getitem__(self, number: int) -> Record:
        return dict(json.loads(self._lines[number])["case"])


def _expanded(record: Record, cases: _Lazy | list[Record]) -> Record:
    """A verdict as `Evidence.add` took it."""
    verdict = {"code": record["code"], "digests": record["digests"], "verdict": record.get("verdict", RIGHT)}
    verdict |= {"message": record.get("message", ""), "instructions": record["instructions"], "use": record["use"]}
    if "verdict" in record:
        return verdict | {name: record[name] for name in ("cases", "failing", "hazards") if name in record}
    numbers, errors = record["runs"][::2], record["runs"][1::2]
    runs: Iterable[tuple[int, float]] = zip(numbers, errors, strict=True)
    return verdict | {"cases": [{**cases[number], RUN_FIELD: float(error)} for number, error in runs]}


def _checked_header(record: Any, path: Path) -> Record:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise EvidenceError(f"{path} is not evidence of format {FORMAT}")
    return record


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _short(number: float) -> float | int:
    """Three digits; whole numbers without a point."""
    short = float(f"{number:.3g}")
    return int(short) if short == int(short) and abs(short) < 1e6 else short
