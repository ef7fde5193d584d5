"""What a caller may say of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aot.runtime.accuracy import BY_DEFAULT, Demand
from aot.runtime.plan_parts import KernelEntry
from cache_schema.identity import Identity

#: A degree of this much stands for the automatic one.
AUTOMATIC_DEGREE = -1


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan; every family takes from it what its kernels can be told.

    `split_k` is the number of slices of the reduction, -1 for as many as the family's own rule gives and the `demand`
    for accuracy allows; a number that is given is taken, and the plan says what it makes of the numbers.
    `workspace_limit` in bytes excludes kernels that need more. `workgroups` is for kernels whose workgroups stay on the
    GPU, None for as many as it holds at once. `helper` finds the kernel of another step of the plan in the cache.
    """

    split_k: int = AUTOMATIC_DEGREE
    workspace_limit: int | None = None
    workgroups: int | None = None
    helper: Callable[[Identity], KernelEntry | None] | None = None
    demand: Demand = BY_DEFAULT


AUTOMATIC = PlanOptions()
