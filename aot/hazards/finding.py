"""One violated rule at one place of the code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """`address` and `text`: the instruction that comes too early; `before`: those that it comes too early after."""

    address: int
    rule: str
    text: str
    detail: str
    before: tuple[str, ...] = ()

    def __str__(self) -> str:
        behind = f", behind {' and '.join(self.before)}" if self.before else ""
        return f"{self.rule} at {self.address:#x}: {self.text}: {self.detail}{behind}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "before": list(self.before)}
