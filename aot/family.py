"""A family of kernels, as the compiler's half of the project sees it.

The other half of the same name is in `grids`: which kernels there are, and what each serves. `aot.families` lists all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from aot.kernels.source import KernelSource
from aot.runtime.accuracy import Demand
from aot.runtime.device import CodeProvider, Device
from aot.runtime.forecast import Forecast
from aot.runtime.plan_data import Plan
from aot.runtime.plan_options import PlanOptions
from aot.runtime.plan_parts import KernelEntry
from aot.verification.edge_case import EdgeCase
from aot.verification.launch_paths import LaunchPaths
from aot.verification.run_case import CaseResult
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.targets import Target


@dataclass(frozen=True, slots=True)
class Offer:
    """What a family does for problems.

    | member | what it is |
    |---|---|
    | `plan(entry, problem, options)` | the plan of a kernel that serves the problem |
    | `forecast(table, problem, target, demand, degree)` | what is said of the plans of all rows, which serve it |
    | `paths` | which launch options its kernels have |
    | `gives_up` | serving rules by which it refuses what needs another kind of kernel |
    """

    plan: Callable[[KernelEntry, ConvProblem, PlanOptions], Plan]
    forecast: Callable[[IdentityTable, ConvProblem, Target, Demand, int], Forecast]
    paths: LaunchPaths
    gives_up: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Helper:
    """What a family does as a step of other families' plans: it is offered for no problem.

    `run(case, entry, devices, code, seed)` judges a kernel of it by itself, over made-up results of the step before.
    """

    run: Callable[[EdgeCase, KernelEntry, tuple[Device, Device], CodeProvider, int], CaseResult]


@dataclass(frozen=True, slots=True)
class KernelFamily:
    """One family.

    | member | what it is |
    |---|---|
    | `emit(identity, flavor)` | the source of a kernel; its module and what that imports decide the code |
    | `edge_cases(identity)` | small problems that reach the edges of a kernel |
    | `widths(identity)` | what runs of channels must be multiples of, most telling first: small ones serve more |
    | `role` | whether it is offered for problems, or helps those that are |
    """

    name: str
    emit: Callable[[Any, str], KernelSource]
    edge_cases: Callable[[Any], Iterator[EdgeCase]]
    widths: Callable[[Any], tuple[int, ...]]
    role: Offer | Helper

    @property
    def alone(self) -> bool:
        """Whether a kernel of it is an answer to a problem."""
        return isinstance(self.role, Offer)
