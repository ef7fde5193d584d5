"""The evidence file: what was run to show that the kernels of a cache are right, and what came of it.

    file    = header verdict*            one JSON object per line
    header  = {format, cache, arch, dtype, emulator, engine, seed, problems}
                cache: the seal of the cache file; emulator: the version of the emulator; problems: "edges/N", or the
                SHA-256 of the problem file
    verdict = {digest, label, code_object, verdict, message, cases: [case], failing?}
                verdict: right, wrong (a result or a fault of the kernel), error (could not be run); failing: problem,
                inputs and seed of the first case that was not right
    case    = {name, problem, inputs, seed, elements, exact, instructions, worst_error, bound, worst_use,
               failure?, faults?, comparison?}
                exact: elements for which one value only is right; worst_error: largest |result - exact|; bound: the
                largest that was allowed; worst_use: largest share of its accumulation allowance that an element took
                up (aot.runtime.bounds); the last three only where the case failed

A run appends verdicts as they come, and continues where an earlier one with the same header stopped; at its end the
verdicts are sorted by digest, so that equal runs give equal files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cache_schema.atomic_file import replace_file
from cache_schema.errors import DeliveryError, RequestError

FORMAT = "rocke-aot-evidence/1"
SUFFIX = ".evidence.jsonl"
RIGHT, WRONG, ERROR = "right", "wrong", "error"


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

    def to_json(self) -> dict[str, Any]:
        """The first line."""
        return {"format": FORMAT, **asdict(self)}


class Evidence:
    """An evidence file that is being written; verdicts are kept by digest."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.header = path, header
        self.verdicts: dict[str, dict[str, Any]] = {}

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
                evidence.verdicts = {str(verdict["digest"]): verdict for verdict in verdicts}
        evidence.settle()
        return evidence

    def add(self, verdict: Mapping[str, Any]) -> None:
        """Append one verdict; it is on disk when this returns, but not yet in its place."""
        self.verdicts[str(verdict["digest"])] = dict(verdict)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(verdict) + "\n")

    def settle(self) -> None:
        """Rewrite the file in order, whole or not at all."""
        lines = [self.header.to_json(), *(self.verdicts[digest] for digest in sorted(self.verdicts))]
        with replace_file(self.path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())


def default_path(cache: Path) -> Path:
    """Where the evidence of a cache is looked for: beside it."""
    return cache.with_name(cache.name + SUFFIX)


def evidence_files(cache: Path) -> list[Path]:
    """The evidence beside a cache, whatever its problems."""
    return sorted(path for path in cache.parent.glob(f"*{SUFFIX}") if path.name.startswith(f"{cache.name}."))


def find_verdict(path: Path, seal: str, digest: str) -> dict[str, Any] | None:
    """The verdict of one kernel, where the evidence is of the cache with this seal; reads no other verdict."""
    start = json.dumps({"digest": digest}).removesuffix("}")
    try:
        with path.open(encoding="utf-8") as file:
            if json.loads(next(file, "{}")).get("cache") != seal:
                return None
            line = next((line for line in file if line.startswith(start) and line.endswith("\n")), None)
            return None if line is None else dict(json.loads(line))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"cannot read evidence {path}: {error}") from error


def read_evidence(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and verdicts; a line that was cut off at the end of the file is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise RequestError(f"cannot read evidence {path}: {error.strerror or error}") from error
    records = []
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
        except ValueError:
            if number == len(lines) - 1 and not line.endswith("\n"):
                break
            raise EvidenceError(f"{path}: line {number + 1} is not JSON") from None
        if not isinstance(record, dict):
            raise EvidenceError(f"{path}: line {number + 1} is not an object")
        records.append(record)
    if not records or records[0].get("format") != FORMAT:
        raise EvidenceError(f"{path} is not evidence of format {FORMAT}")
    if any("digest" not in record or "verdict" not in record for record in records[1:]):
        raise EvidenceError(f"{path}: a line is no verdict")
    return records[0], records[1:]


def summarise_evidence(seal: str, path: Path) -> dict[str, Any]:
    """Counts for `inspect`: whether the evidence is of the cache with this seal, verdicts, runs, the worst error."""
    header, verdicts = read_evidence(path)
    cases = [case for verdict in verdicts for case in verdict.get("cases", ())]
    return {
        "file": str(path),
        "of_this_cache": header["cache"] == seal,
        "emulator": header["emulator"],
        "problems": header["problems"],
        **{name: sum(verdict["verdict"] == name for verdict in verdicts) for name in (RIGHT, WRONG, ERROR)},
        "runs": len(cases),
        "worst_use_of_bound": max((float(case["worst_use"]) for case in cases), default=0.0),
    }
