"""How far a build is: plain numbers for whoever shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Counts:
    """Identities by what became of them in this run. `settled` of `total` have an outcome."""

    total: int = 0
    built: int = 0
    duplicates: int = 0
    reused: int = 0
    failed: int = 0
    timed_out: int = 0
    disturbed: int = 0

    @property
    def settled(self) -> int:
        return self.built + self.duplicates + self.reused + self.failed + self.timed_out + self.disturbed


class Progress(Protocol):
    """Told often, from the build's own thread; must return at once."""

    def stage(self, name: str, total: int) -> None:
        """A new stage begins, of so many steps."""
        ...

    def advance(self, done: int, counts: Counts) -> None:
        """So many steps of the stage are done."""
        ...

    def close(self) -> None:
        """The build is over, one way or another."""
        ...


class Silent:
    """Shows nothing."""

    def stage(self, name: str, total: int) -> None: ...

    def advance(self, done: int, counts: Counts) -> None: ...

    def close(self) -> None: ...
