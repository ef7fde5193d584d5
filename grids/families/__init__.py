"""The families of kernels: what a person names to build, count or exclude.

This tuple is the only list of this half; the one of the other half is in `aot.families`. To add a family, write its
module and name it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from cache_schema.errors import UnknownValueError
from cache_schema.identity import Identity, forget, register
from cache_schema.problem import DIRECTIONS
from grids.families import (
    atomic,
    fix_up,
    implicit_gemm,
    merged,
    nonsplit,
    reduce,
    stream_k,
    stride1,
    tilde,
    two_stage,
)
from grids.family import Family

#: In the order in which they are enumerated.
_FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        implicit_gemm.FAMILY,
        tilde.FAMILY,
        stride1.FAMILY,
        nonsplit.FAMILY,
        atomic.FAMILY,
        two_stage.FAMILY,
        merged.FAMILY,
        stream_k.FAMILY,
        reduce.FAMILY,
        fix_up.FAMILY,
    )
}
for _family in _FAMILIES.values():
    register(_family.record)


def families() -> Mapping[str, Family]:
    """All families by name, in the order in which they are enumerated."""
    return _FAMILIES


def family_of(identity: Identity) -> Family:
    """The family of an identity; `UnknownValueError` for one that only a file describes."""
    return known_family(identity.family)


def known_family(name: str) -> Family:
    """The family of this name; `UnknownValueError` when there is none."""
    try:
        return _FAMILIES[name]
    except KeyError:
        raise UnknownValueError("kernel family", name, _FAMILIES) from None


def select(directions: Iterable[str] | None = None, names: Iterable[str] | None = None) -> tuple[Family, ...]:
    """The families of these directions and names (None: all); `UnknownValueError` for a name that is none."""
    wanted_directions = _known("direction", directions, DIRECTIONS)
    wanted_names = _known("family", names, tuple(_FAMILIES))
    return tuple(f for f in _FAMILIES.values() if f.direction in wanted_directions and f.name in wanted_names)


def with_steps(chosen: Sequence[Family]) -> tuple[Family, ...]:
    """These families, and those whose kernels their plans need."""
    names = {family.name for family in chosen} | {name for family in chosen for name in family.step_families}
    return tuple(family for family in _FAMILIES.values() if family.name in names)


def step_families() -> frozenset[str]:
    """Names of the families whose kernels are steps of other plans and are never offered alone."""
    return frozenset(family.name for family in _FAMILIES.values() if family.is_step)


def add(family: Family) -> None:
    """Add a family for as long as the process lives; ValueError when its name is taken."""
    if family.name in _FAMILIES:
        raise ValueError(f"there is a family {family.name!r} already")
    register(family.record)
    _FAMILIES[family.name] = family


def remove(family: Family) -> None:
    """Undo `add`."""
    del _FAMILIES[family.name]
    forget(family.record)


@contextmanager
def added(family: Family) -> Iterator[None]:
    """With one more family."""
    add(family)
    try:
        yield
    finally:
        remove(family)


def _known(what: str, given: Iterable[str] | None, allowed: Sequence[str]) -> tuple[str, ...]:
    values = tuple(allowed if given is None else given)
    for value in values:
        if value not in allowed:
            raise UnknownValueError(what, value, allowed)
    return values
