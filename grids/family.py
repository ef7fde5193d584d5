"""A kernel family, the half that needs no compiler: what its identities are, which exist, and what they can run.

A family is one `Family`, made in a module of its own under `grids/families` and listed there. Whatever enumerates,
judges or serves goes over that list; nothing else knows a family by name. The half that builds, plans and checks its
kernels has the same name under `aot/families`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.identity import Identity, Schema, schema_of_record
from cache_schema.table import IdentityTable
from grids.rule import VALUES, Rows, Rule
from grids.served import ServingRule
from grids.targets import Target

AxisValue = str | int
#: The values of every axis of one family, by axis name.
FamilyAxes = Mapping[str, tuple[AxisValue, ...]]
#: Name of an axis for people, code per row, and the value of every code.
AxisCodes = tuple[str, npt.NDArray[Any], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The values of one axis: those of the catalogue, and all that the builders can make, for a user's axes file."""

    values: tuple[AxisValue, ...]
    allowed: tuple[AxisValue, ...]


def no_steps(_identity: Identity) -> tuple[Identity, ...]:
    """Of families whose plans launch one kernel."""
    return ()


def no_axes(_table: IdentityTable) -> tuple[AxisCodes, ...]:
    """Of families with nothing to add to their fields in a breakdown."""
    return ()


@dataclass(frozen=True, eq=False)
class Family:
    """One family.

    `candidates(target, dtype, axes)` is every identity of these axes, before any rule. `rules` decide what is built,
    in order, on the rows that `rows` derives; `serving` decides what a kernel may be launched on. `steps(identity)` are
    the kernels of other families that a plan of this one launches beside its own; families of such kernels have
    `is_step` and are never offered alone. `breakdown` adds axes that are no single field to the counts by axis.
    """

    record: type[Identity]
    sentence: str
    axes: Mapping[str, Choice]
    candidates: Callable[[Target, str, FamilyAxes], IdentityTable]
    rules: tuple[Rule, ...]
    serving: tuple[ServingRule, ...] = ()
    rows: Callable[[IdentityTable, Target, str], Rows] = Rows
    steps: Callable[[Any], tuple[Identity, ...]] = no_steps
    step_families: tuple[str, ...] = ()
    is_step: bool = False
    breakdown: Callable[[IdentityTable], tuple[AxisCodes, ...]] = no_axes

    @property
    def schema(self) -> Schema:
        """The fields of its identities."""
        return schema_of_record(self.record)

    @property
    def name(self) -> str:
        """Its name, which is also that of its other half."""
        return self.record.family

    @property
    def direction(self) -> str:
        """The direction that its kernels compute."""
        return self.record.direction

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """`rules` behind the one that every family has."""
        return (VALUES, *self.rules)


def field_codes(table: IdentityTable, name: str) -> AxisCodes:
    """A field as an axis of a breakdown."""
    column = table.columns[name]
    if name in table.vocab:
        return name, column, table.vocab[name]
    if column.dtype == np.bool_:
        return name, column.astype(np.uint8), ("no", "yes")
    return name, column, tuple(range(int(column.max(initial=0)) + 1))
