"""The families of implicit-GEMM kernels: what a person names to build, count or exclude.

A family is a direction and a way of storing the result. It is no field of an identity: it follows from the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cache_schema.errors import UnknownValueError
from cache_schema.identity import IMPLICIT_GEMM, REDUCE
from cache_schema.problem import DIRECTIONS
from cache_schema.table import IdentityTable


@dataclass(frozen=True, slots=True)
class Family:
    """A name, the direction it serves, and one sentence for the command line."""

    name: str
    direction: str
    sentence: str


#: In the order in which they are enumerated.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("implicit_gemm", "fwd", "forward, one GEMM over all output pixels"),
        Family("tilde", "dgrad", "backward data at any stride and dilation, one sub-GEMM per pixel lattice"),
        Family(
            "stride1", "dgrad", "backward data at stride 1 and dilation 1, its single sub-GEMM folded into the code"
        ),
        Family("nonsplit", "wgrad", "backward weights in one slice, stored directly"),
        Family("atomic", "wgrad", "backward weights split over K at a run-time degree, summed by atomics"),
        Family("two_stage", "wgrad", "backward weights split over K into f32 replicas, reduced by a second kernel"),
        Family("merged", "wgrad", "depthwise backward weights, several groups per workgroup, two-stage"),
        Family("stream_k", "wgrad", "backward weights whose K tiles persistent workgroups share evenly"),
        Family("reduce", "wgrad", "second steps of backward weights: fold replicas, or add up stream-K parts"),
    )
}


def select(directions: Iterable[str] | None = None, names: Iterable[str] | None = None) -> tuple[Family, ...]:
    """The families of these directions and names (None: all); `UnknownValueError` for a name that is none."""
    wanted_directions = _known("direction", directions, DIRECTIONS)
    wanted_names = _known("family", names, tuple(FAMILIES))
    return tuple(f for f in FAMILIES.values() if f.direction in wanted_directions and f.name in wanted_names)


def with_helpers(families: Sequence[Family]) -> tuple[Family, ...]:
    """These families, and those whose kernels their plans need."""
    chosen = {family.name for family in families}
    if chosen & {"two_stage", "merged", "stream_k"}:
        chosen.add("reduce")
    return tuple(family for family in FAMILIES.values() if family.name in chosen)


def family_names(table: IdentityTable) -> npt.NDArray[np.object_]:
    """The family of every row, "" for kernels that belong to none."""
    return np.array(["", *FAMILIES], dtype=object)[family_codes(table)]


def family_codes(table: IdentityTable) -> npt.NDArray[np.int8]:
    """1 + the position in `FAMILIES` of the family of every row, 0 for kernels that belong to none."""
    split, wgrad, dgrad = (
        table.columns["split_k"] > 1,
        table.equals("direction", "wgrad"),
        table.equals("direction", "dgrad"),
    )
    stride1 = dgrad & (table.columns["stride_h"] == 1)
    two_stage = wgrad & table.columns["two_stage"]
    tests = {
        "implicit_gemm": table.equals("direction", "fwd"),
        "merged": wgrad & (table.columns["group_merge"] > 1),
        "two_stage": two_stage,
        "stream_k": wgrad & table.columns["stream_k"],
        "atomic": wgrad & split,
        "nonsplit": wgrad,
        "stride1": stride1,
        "tilde": dgrad,
    }
    position = {name: 1 + index for index, name in enumerate(FAMILIES)}
    codes = np.select(list(tests.values()), [np.int8(position[name]) for name in tests], default=np.int8(0))
    others = np.where(table.equals("algorithm", REDUCE), position["reduce"], 0)
    return np.where(table.equals("algorithm", IMPLICIT_GEMM), codes, others).astype(np.int8)


def _known(what: str, given: Iterable[str] | None, allowed: Sequence[str]) -> tuple[str, ...]:
    values = tuple(allowed if given is None else given)
    for value in values:
        if value not in allowed:
            raise UnknownValueError(what, value, allowed)
    return values
