"""The axes of the catalogue: what families declare, and a user's file on top of it.

A user's file is YAML with two sections: `every` for all families that have the axis, `families` by name. It narrows or
extends the catalogue within what the kernel builders can make.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cache_schema.errors import RequestError, UnknownValueError
from cache_schema.strict_yaml import load, read_text
from grids.families import families
from grids.family import AxisValue, FamilyAxes

EVERY = "every"


class AxesError(RequestError):
    """An axes file that is malformed or asks for what no builder can make."""


def load_axes(path: Path | None = None) -> dict[str, FamilyAxes]:
    """Axis values by family name: the catalogue's own, with the axes named in the user's file replaced.

    An axis under `families` in the user's file beats one under `every` there; both beat the catalogue's own.
    Raises `AxesError` naming file, axis and value.
    """
    every, own = _read(path) if path else ({}, {})
    found: dict[str, FamilyAxes] = {}
    for name, family in families().items():
        usual = {axis: choice.values for axis, choice in family.axes.items()}
        given = {**every, **own.get(name, {})}
        found[name] = {axis: given.get(axis, values) for axis, values in usual.items()}
    return found


def _read(path: Path) -> tuple[FamilyAxes, dict[str, FamilyAxes]]:
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise AxesError(f"axes file {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        document = load(text)
    except ValueError as error:
        raise AxesError(f"axes file {path}: not YAML that is read here: {error}") from error
    where = str(path)
    sections = _mapping(where, "the file", document)
    for name in sections:
        if name not in (EVERY, "families"):
            raise AxesError(f"axes file {where}: {UnknownValueError('section', name, (EVERY, 'families'))}")
    known = families()
    # What all families that have the axis can make.
    everywhere: dict[str, tuple[AxisValue, ...]] = {}
    for family in known.values():
        for axis, choice in family.axes.items():
            shared = everywhere.get(axis, choice.allowed)
            everywhere[axis] = tuple(value for value in shared if value in choice.allowed)
    every = _section(where, EVERY, sections.get(EVERY), everywhere)
    own = {}
    for name, axes in _mapping(where, "families", sections.get("families")).items():
        if name not in known:
            raise AxesError(f"axes file {where}: {UnknownValueError('family', name, known)}")
        allowed = {axis: choice.allowed for axis, choice in known[name].axes.items()}
        own[name] = _section(where, name, axes, allowed)
    return every, own


def _section(where: str, section: str, axes: Any, allowed: FamilyAxes) -> FamilyAxes:
    found = {}
    for axis, values in _mapping(where, section, axes).items():
        if axis not in allowed:
            raise AxesError(f"axes file {where}, {section}: {UnknownValueError('axis', axis, allowed)}")
        found[axis] = _values(where, section, axis, values, allowed[axis])
    return found


def _values(where: str, section: str, axis: str, values: Any, allowed: tuple[AxisValue, ...]) -> tuple[AxisValue, ...]:
    if not isinstance(values, list) or not values:
        raise AxesError(f"axes file {where}, {section}.{axis}: expected a list of at least one value, found {values!r}")
    for value in values:
        # true equals 1 and 16.0 equals 16, but axes have whole numbers and words.
        if type(value) not in (int, str) or value not in allowed:
            raise AxesError(f"axes file {where}, {section}.{axis}: {UnknownValueError('value', value, allowed)}")
    if len(set(values)) != len(values):
        raise AxesError(f"axes file {where}, {section}.{axis}: a value is listed twice: {values}")
    return tuple(values)


def _mapping(where: str, section: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise AxesError(f"axes file {where}: {section} is not a mapping")
    return value
