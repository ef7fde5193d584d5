"""What became of a candidate. Every candidate has exactly one outcome; nothing is silently skipped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class OutcomeKind(IntEnum):
    """Numbers are stored in cache files: never renumber, only append."""

    BUILT = 0  # compiled for this identity
    DUPLICATE = 1  # shares the code of another identity with the same content key
    REUSED = 2  # taken from an earlier run; exists in run summaries only, a cache file says built or duplicate
    REJECTED = 3  # a rule says no, the reason code says which
    FAILED = 4  # emission, compilation or linking failed, the detail says how
    TIMED_OUT = 5  # exceeded the time limit of one kernel
    DISTURBED = 6  # the machine failed, not the kernel: too little memory, a missing file, a worker that was killed

    @property
    def delivered(self) -> bool:
        """True when the cache holds code for the identity."""
        return self in (OutcomeKind.BUILT, OutcomeKind.DUPLICATE, OutcomeKind.REUSED)

    @property
    def failure(self) -> bool:
        """True when something that was asked for is missing, so the exit code must say so."""
        return self is OutcomeKind.FAILED or self.passing

    @property
    def passing(self) -> bool:
        """True for a failure that another machine or minute may not see: the next build tries again."""
        return self in (OutcomeKind.TIMED_OUT, OutcomeKind.DISTURBED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One candidate's outcome. `reason` is a code such as "F5_lds" ("" when delivered); `detail` is for people."""

    kind: OutcomeKind
    reason: str = ""
    detail: str = ""
