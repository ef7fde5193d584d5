"""The launch options of problem files: paths that a case wants forced, and what a family says of them.

| option | kernels that have it | what it does |
|---|---|---|
| split_k | those that are told how often to split, or split so often anyway; -1: all | sets the degree |
| workgroups | stream-K kernels | sets the degree |
| two_stage | those with, or without, a second stage | nothing: such a kernel always works so |
| deterministic | those that add no slices by 16-bit atomics | runs the case twice; bits have to be equal |
| split_n | none: no kernel splits the batch | |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aot.runtime.plan_options import AUTOMATIC_DEGREE

#: Options that set the degree of a case, the one that decides first.
DEGREES = ("workgroups", "split_k")
#: The option that runs a case twice.
EQUAL_BITS = "deterministic"


@dataclass(frozen=True, slots=True)
class LaunchPaths:
    """`told` is the option by which plans tell a kernel its degree, "" for none: then it has one slice.

    `atomic`: slices are added to the result in 16 bits.
    """

    told: str = ""
    two_stage: bool = False
    atomic: bool = False

    def has(self, name: str, value: Any) -> bool:
        """Whether the kernels have the path; False for an option that no kernel has."""
        if name == "split_k":
            return value == AUTOMATIC_DEGREE or self.told == name or (value == 1 and not self.told)
        always = {
            EQUAL_BITS: not (value and self.atomic),
            "workgroups": self.told == name,
            "two_stage": self.two_stage == bool(value),
            "split_n": value == 1,
        }
        return bool(always.get(name, False))


def refusal(name: str, value: Any) -> str:
    """What is said of kernels that lack a path."""
    return {
        "split_k": f"not a kernel that splits its reduction {value} times",
        "workgroups": "not a stream-K kernel",
        "two_stage": f"a kernel with {'one stage' if value else 'two stages'}",
        EQUAL_BITS: "16-bit atomics add up in no fixed order",
        "split_n": "no kernel splits the batch",
    }.get(name, "not an option of any kernel")
