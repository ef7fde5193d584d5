"""What a build did, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class CacheSummary:
    """One cache file. `identities` = built + duplicates + reused + failed + timed_out + disturbed."""

    arch: str
    dtype: str
    cache: Path
    sha256: str = ""
    bytes: int = 0
    changed: bool = True  # False: the file was right already and was not touched
    identities: int = 0
    built: int = 0  # distinct kernels compiled by this run
    duplicates: int = 0  # identities that share a kernel compiled by this run
    reused: int = 0  # identities whose kernel an earlier run compiled
    rejected: int = 0  # candidates that a rule excludes
    failed: int = 0
    timed_out: int = 0
    disturbed: int = 0  # failures of the machine, which the next run tries again
    workers: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)  # worker seconds by stage, and the parent's own
    failures: dict[str, str] = field(default_factory=dict)  # label: message, the first few
    notes: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Everything asked for is in the file."""
        return not self.missing

    @property
    def missing(self) -> int:
        """Identities without a kernel."""
        return self.failed + self.timed_out + self.disturbed

    def to_json(self) -> dict[str, Any]:
        """All fields; seconds to the millisecond."""
        data = {name: getattr(self, name) for name in self.__slots__}
        data |= {"cache": str(self.cache), "seconds": round(self.seconds, 3)}
        return data | {"stages": {name: round(seconds, 3) for name, seconds in self.stages.items()}}
