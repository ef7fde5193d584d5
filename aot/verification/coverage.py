"""Whether evidence covers a cache: what a release asks for before it ships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from aot.verification.edges import EDGES
from aot.verification.evidence_format import RIGHT
from aot.verification.evidence_reading import read_evidence
from aot.verification.verifier import VERIFIER
from cache_schema.cache_check import sealed_sha256
from cache_schema.cache_reader import Cache
from cache_schema.label import encode

NO_EVIDENCE, OTHER_CODE = "no evidence", "evidence of another code object"


@dataclass(frozen=True, slots=True)
class Gap:
    """A kernel of the cache that the evidence does not show to be right."""

    digest: str
    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a cache is proven. `ignored` says of files and conditions why they count for nothing."""

    cache: str
    entries: int
    gaps: tuple[Gap, ...]
    ignored: tuple[tuple[str, str], ...]

    @property
    def complete(self) -> bool:
        """Whether every kernel is shown to be right."""
        return not self.gaps

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "cache": self.cache,
            "entries": self.entries,
            "covered": self.entries - len(self.gaps),
            "complete": self.complete,
            "gaps": [{"digest": gap.digest, "label": gap.label, "reason": gap.reason} for gap in self.gaps],
            "ignored": [{"file": file, "reason": reason} for file, reason in self.ignored],
        }


def check_coverage(path: Path, files: Sequence[Path]) -> Coverage:
    """Hold a cache against evidence files.

    A kernel is covered if a right verdict names its identity and the code object that the cache has for it, over the
    edge problems and by the emulator and hazard rules of this version. What counts is the digest of the code, not the
    cache file that it was verified in: evidence of shards covers the merged cache. Raises CacheError for a cache that
    is damaged anywhere.
    """
    ignored = []
    verdicts: dict[tuple[str, str], str] = {}
    named: set[str] = set()
    with Cache.open(path) as cache:
        sealed_sha256(cache)
        for file in files:
            contents = read_evidence(file)
            counting = set()
            for conditions in contents.conditions:
                found = {**asdict(conditions), **(asdict(contents.head) if contents.head else {})}
                wanted = {"emulator": VERIFIER, "problems": EDGES, "arch": cache.arch, "dtype": cache.dtype}
                other = [f"{name} {found[name]}, not {value}" for name, value in wanted.items() if found[name] != value]
                if other:
                    ignored.append((str(file), "; ".join(other)))
                else:
                    counting.add(conditions)
            for verdict in contents.verdicts:
                if verdict["conditions"] not in counting:
                    continue
                for digest in verdict["digests"]:
                    named.add(digest)
                    key = digest, verdict["code"]
                    if verdicts.get(key) != RIGHT:
                        verdicts[key] = verdict["verdict"]
        gaps = []
        digests = [row.tobytes().hex() for row in np.asarray(cache.digests)]
        codes = {kernel: cache.entry(number).blob_digest for number, kernel in _first_entries(cache).items()}
        for number, digest in enumerate(digests):
            state = verdicts.get((digest, codes[cache.kernel_of(number)]))
            if state != RIGHT:
                reason = state or (OTHER_CODE if digest in named else NO_EVIDENCE)
                gaps.append(Gap(digest, encode(cache.identity(number)), reason))
        return Coverage(str(path), len(cache), tuple(gaps), tuple(ignored))


def _first_entries(cache: Cache) -> dict[int, int]:
    """An entry of every kernel -> the kernel."""
    entries: dict[int, int] = {}
    for number in range(len(cache)):
        entries.setdefault(cache.kernel_of(number), number)
    return {number: kernel for kernel, number in entries.items()}
