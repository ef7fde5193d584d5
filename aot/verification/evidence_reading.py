"""What evidence says: in full, of one kernel, and in numbers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from aot.verification.evidence import SUFFIX, take_lines
from aot.verification.evidence_format import ERROR, FORMAT, RIGHT, WRONG, Contents, EvidenceError, Record
from cache_schema.errors import RequestError


def default_path(cache: Path) -> Path:
    """Where the evidence of a cache is looked for: beside it."""
    return cache.parent / f"{cache.name}{SUFFIX}"


def evidence_files(cache: Path) -> list[Path]:
    """The evidence beside a cache, whatever its problems."""
    return sorted(path for path in cache.parent.glob(f"*{SUFFIX}") if path.name.startswith(f"{cache.name}."))


def read_evidence(path: Path, only: str = "") -> Contents:
    """The file, or what it says of one identity; a line that was cut off at the end is left out.

    Raises RequestError for a file that cannot be read, EvidenceError for one that is damaged or something else.
    """
    contents = Contents(only.encode())
    try:
        with path.open("rb") as file:
            take_lines(contents, file, path)
    except OSError as error:
        raise RequestError(f"cannot read evidence {path}: {error.strerror or error}") from error
    if contents.head is None:
        raise EvidenceError(f"{path} is not evidence of format {FORMAT}")
    return contents


def find_verdict(path: Path, seal: str, digest: str) -> Record | None:
    """The last right verdict on one kernel, else the last one, where the evidence is of the cache with this seal."""
    contents = read_evidence(path, digest)
    if contents.head is None or contents.head.cache != seal:
        return None
    named = [verdict for verdict in contents.verdicts if digest in verdict["digests"]]
    found = [{**verdict, "conditions": asdict(verdict["conditions"])} for verdict in named]
    return next((v for v in reversed(found) if v["verdict"] == RIGHT), found[-1] if found else None)


def summarise_evidence(seal: str, path: Path) -> list[Record]:
    """Counts for `inspect`, once for each conditions of verdicts: whether the file is of the cache with this seal,
    identities by verdict, code objects, runs, the worst error."""
    contents = read_evidence(path)
    rows = []
    for conditions in contents.conditions:
        verdicts = [verdict for verdict in contents.verdicts if verdict["conditions"] == conditions]
        named = {
            state: {digest for verdict in verdicts if verdict["verdict"] == state for digest in verdict["digests"]}
            for state in (RIGHT, WRONG, ERROR)
        }
        rows.append(
            {
                "file": str(path),
                "of_this_cache": contents.head is not None and contents.head.cache == seal,
                **asdict(conditions),
                **{state: len(digests) for state, digests in named.items()},
                "code_objects": len({verdict["code"] for verdict in verdicts}),
                "runs": sum(len(verdict["cases"]) for verdict in verdicts),
                "worst_use_of_bound": max((float(verdict["use"]) for verdict in verdicts), default=0.0),
            }
        )
    return rows
