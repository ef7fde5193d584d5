"""The evidence file: what was run to show that the kernels of a cache are right, and what came of it.

    file       = head (conditions | case | verdict)*    one JSON object per line; what a line names stands before it
    line       = object with `seal` as its last member: the first 16 hex digits of the SHA-256 of the seal of the line
                 before, "" for the head, and of the line without its own
    head       = {format, cache, arch, dtype}           cache: the seal of the cache file
    conditions = {conditions: {emulator, engine, seed, problems}}
                 numbered from 0 in the order of the file; emulator: the versions of the emulator and of the hazard
                 rules; problems: "edges/N", or the SHA-256 of the problem file
    case       = {case: {name, problem, inputs, degree?, elements, exact, bound}}
                 numbered from 0 likewise; exact: elements for which one value only is right; bound: the largest error
                 that was allowed; degree: slices, or workgroups of stream-K, where forced
    verdict    = {code, digests, under, runs, instructions, use, verdict?, message?, cases?, failing?,
                  hazards?}
                 code: SHA-256 of the code object; digests: of the identities that share it, all of which this verdict
                 is about; under: number of the conditions; runs: number of the case and the largest |result - exact|,
                 in turn; use: the largest share of its accumulation allowance that an element took up
                 (aot.runtime.bounds); sanitizer: a right verdict had no fault of any kind
                 Without `verdict` it is right. Else it is wrong (a result, or a fault of the kernel) or error (could
                 not be run): then cases stands in full for runs, message says what was wrong, and failing has problem,
                 inputs, seed and degree of the first case that was not right; hazards are the findings of the static
                 check, after which nothing is run

Every seal depends on all lines before it, and through the head on the cache: a line that was changed, dropped, moved or
taken from elsewhere is seen. Who can write the file can seal it too: it guards against accidents, not against forgery.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cache_schema.errors import DeliveryError
from cache_schema.strict_json import loads

FORMAT = "rocke-aot-evidence/3"
RIGHT, WRONG, ERROR = "right", "wrong", "error"
#: What a run says of a case beyond what all kernels share.
RUN_FIELD = "worst_error"
_SEAL_DIGITS = 16
_SEALED = re.compile(rb',"seal":"([0-9a-f]{%d})"}\n' % _SEAL_DIGITS)
_SEALED_BYTES = len(',"seal":""}\n') + _SEAL_DIGITS
_VERDICT = b'{"code":'
_CODE, _DIGEST = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{40}")

Record = dict[str, Any]


class EvidenceError(DeliveryError):
    """A file that is no evidence, damaged, or evidence of something else."""


@dataclass(frozen=True, slots=True)
class Head:
    """The cache that all verdicts of a file are about."""

    cache: str
    arch: str
    dtype: str


@dataclass(frozen=True, order=True, slots=True)
class Conditions:
    """What verified, and over which problems; equal conditions give equal verdicts."""

    emulator: str
    engine: str
    seed: int
    problems: str


@dataclass
class Contents:
    """An evidence file as far as it was read, line by line; `seal` is that of the last line.

    With `only`, verdicts that do not name this identity are checked and left out.
    """

    only: bytes = b""
    head: Head | None = None
    conditions: list[Conditions] = field(default_factory=list)
    cases: list[Record] = field(default_factory=list)
    verdicts: list[Record] = field(default_factory=list)
    case_numbers: dict[str, int] = field(default_factory=dict)  # by the case as text
    seal: str = ""
    lines: int = 0

    def take(self, line: bytes) -> None:
        """The next line, with its end. Raises EvidenceError for one that does not belong here."""
        self.lines += 1
        sealed = _SEALED.fullmatch(line, max(len(line) - _SEALED_BYTES, 0))
        if self.head is None and (sealed is None or b'"format":' not in line):
            raise EvidenceError(f"is not evidence of format {FORMAT}")
        body = line[:-_SEALED_BYTES] + b"}"
        if sealed is None or sealed[1].decode() != _seal(self.seal, body):
            raise EvidenceError(f"line {self.lines} does not match its seal: it, or a line before, was changed or lost")
        self.seal = sealed[1].decode()
        if self.only and line.startswith(_VERDICT) and self.only not in line:
            return
        try:
            self._record(loads(body))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise EvidenceError(f"line {self.lines} is neither conditions nor a case nor a verdict") from error

    def _record(self, record: Any) -> None:
        if not isinstance(record, dict):
            raise ValueError("no record")
        if self.head is None:
            if record["format"] != FORMAT:
                raise EvidenceError(f"is evidence of format {record['format']!a:.40}; this program reads {FORMAT}")
            self.head = _plain(Head, {name: value for name, value in record.items() if name != "format"})
        elif "conditions" in record:
            self.conditions.append(_plain(Conditions, record["conditions"]))
        elif "case" in record:
            self.case_numbers[_text(_case(record["case"]))] = len(self.cases)
            self.cases.append(record["case"])
        else:
            self.verdicts.append(self._verdict(record))

    def _verdict(self, record: Record) -> Record:
        """As `Writing.verdict` took it."""
        state, under = record.get("verdict", RIGHT), record["under"]
        digests = record["digests"]
        if not isinstance(digests, list) or not digests or not all(_DIGEST.fullmatch(digest) for digest in digests):
            raise ValueError("digests")
        if not _CODE.fullmatch(record["code"]) or state not in (RIGHT, WRONG, ERROR):
            raise ValueError("code")
        if not 0 <= _whole(under) < len(self.conditions):
            raise ValueError("under")
        verdict = {"code": record["code"], "digests": digests, "verdict": state, "conditions": self.conditions[under]}
        verdict |= {"message": str(record.get("message", "")), "instructions": _whole(record["instructions"])}
        verdict["use"] = _number(record["use"])
        if "verdict" in record:
            verdict["cases"] = [_case(case) for case in record["cases"]]
            if "failing" in record:
                verdict["failing"] = dict(record["failing"])
            if "hazards" in record:
                verdict["hazards"] = [dict(hazard) for hazard in record["hazards"]]
            return verdict
        numbers, errors = record["runs"][::2], record["runs"][1::2]
        if not all(0 <= _whole(number) < len(self.cases) for number in numbers):
            raise ValueError("runs")
        pairs = zip(numbers, errors, strict=True)
        verdict["cases"] = [{**self.cases[number], RUN_FIELD: _number(error)} for number, error in pairs]
        return verdict


class Writing:
    """Lines for the end of a file: what they name is put in front of them where the file does not have it yet."""

    def __init__(self, contents: Contents) -> None:
        self._seal = contents.seal
        self._cases = dict(contents.case_numbers)
        self._conditions = {conditions: number for number, conditions in enumerate(contents.conditions)}

    def head(self, head: Head) -> bytes:
        """The first line."""
        return self._line({"format": FORMAT, **asdict(head)})

    def conditions(self, conditions: Conditions) -> bytes:
        """A line, or none."""
        if conditions in self._conditions:
            return b""
        self._conditions[conditions] = len(self._conditions)
        return self._line({"conditions": asdict(conditions)})

    def verdict(self, verdict: Mapping[str, Any]) -> bytes:
        """Lines of a verdict; it has its `conditions` with it."""
        lines = self.conditions(verdict["conditions"])
        record = {"code": verdict["code"], "digests": verdict["digests"]}
        record["under"] = self._conditions[verdict["conditions"]]
        rest = {"instructions": verdict["instructions"], "use": verdict["use"]}
        if verdict["verdict"] != RIGHT:
            told = ("verdict", "message", "cases", "failing", "hazards")
            return lines + self._line(record | rest | {name: verdict[name] for name in told if name in verdict})
        runs: list[Any] = []
        for case in verdict["cases"]:
            shared = _finite({name: value for name, value in case.items() if name != RUN_FIELD})
            key = _text(shared)
            if key not in self._cases:
                self._cases[key] = len(self._cases)
                lines += self._line({"case": shared})
            runs += [self._cases[key], _short(case[RUN_FIELD])]
        return lines + self._line({**record, "runs": runs, **rest})

    def _line(self, record: Mapping[str, Any]) -> bytes:
        body = json.dumps(_finite(record), separators=(",", ":"), allow_nan=False).encode()
        self._seal = _seal(self._seal, body)
        return body[:-1] + b',"seal":"' + self._seal.encode() + b'"}\n'


def _seal(before: str, body: bytes) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()[:_SEAL_DIGITS]


def _text(case: Record) -> str:
    return json.dumps(case, sort_keys=True)


def _plain(kind: Any, record: Any) -> Any:
    """A record of words and whole numbers; ValueError for other fields or types."""
    if not isinstance(record, dict):
        raise ValueError(kind.__name__)
    wanted = {name: str if str(f.type) == "str" else int for name, f in kind.__dataclass_fields__.items()}
    if {name: type(value) for name, value in record.items()} != wanted:
        raise ValueError(kind.__name__)
    return kind(**record)


def _case(record: Any) -> Record:
    if not isinstance(record, dict) or not isinstance(record["name"], str):
        raise ValueError("case")
    return record


def _whole(number: Any) -> int:
    if type(number) is not int:
        raise ValueError("a whole number")
    return number


def _number(value: Any) -> float:
    if type(value) not in (int, float) and value not in ("inf", "nan"):
        raise ValueError("a number")
    return float(value)


def _finite(value: Any) -> Any:
    """Data that JSON can hold: infinities and NaN as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _short(number: float) -> float | int | str:
    """Three digits; whole numbers without a point."""
    if not math.isfinite(number):
        return str(number)
    short = float(f"{number:.3g}")
    return int(short) if short == int(short) and abs(short) < 1e6 else short
