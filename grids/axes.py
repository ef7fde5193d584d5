"""The axes of the catalogue as data: axes.yaml, and a user's file on top of it.

A user's file narrows or extends the catalogue within what the kernel builders can make (`ALLOWED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from cache_schema.errors import RequestError, UnknownValueError
from cache_schema.strict_yaml import load, read_text
from grids.families import FAMILIES

AxisValue = str | int
#: The values of every axis of one family, by axis name.
FamilyAxes = Mapping[str, tuple[AxisValue, ...]]

_TILES = (16, 32, 64, 128, 256, 512)
_WIDTHS = (1, 2, 4, 8)
#: Every value that the builders know, by axis. The loaders divide by tile extents with shifts: powers of two only.
ALLOWED: dict[str, tuple[AxisValue, ...]] = {
    "tile_m": _TILES,
    "tile_n": _TILES,
    "tile_k": (16, 32, 64, 128),
    "warp_m": (1, 2, 4, 8, 16),
    "warp_n": (1, 2, 4, 8, 16),
    "warp_tile": (16, 32),
    "pipeline": ("mem", "compv3", "compv4", "wavelet"),
    "epilogue": ("default", "cshuffle"),
    "k_loop": ("plain", "unroll_k", "async_dma"),
    "vector_size_a": _WIDTHS,
    "vector_size_b": _WIDTHS,
    "vector_size_c": _WIDTHS,
    "group_merge": (2, 4, 8, 16, 32, 64),
    "ws_replicas": (1, 2, 4, 8, 16),
    "max_sub_gemms": (1, 2, 4, 8, 16, 32, 64),
}


class AxesError(RequestError):
    """An axes file that is malformed or asks for what no builder can make."""


def load_axes(path: Path | None = None) -> dict[str, FamilyAxes]:
    """Axis values by family name: the catalogue's own, with the axes named in the user's file replaced.

    An axis under `families` in the user's file beats one under `every` there; both beat the catalogue's own.
    Raises `AxesError` naming file, axis and value.
    """
    every, families = _default_axes()
    own_every, own_families = _read(path) if path else ({}, {})
    return {
        name: {
            axis: values
            for part in (every, families[name], own_every, own_families.get(name, {}))
            for axis, values in part.items()
            if axis in every or axis in families[name]
        }
        for name in FAMILIES
    }


@cache
def _default_axes() -> tuple[FamilyAxes, dict[str, FamilyAxes]]:
    text = files("grids").joinpath("axes.yaml").read_text(encoding="utf-8")
    return _parse("grids/axes.yaml", load(text), None)


def _read(path: Path) -> tuple[FamilyAxes, dict[str, FamilyAxes]]:
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise AxesError(f"axes file {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        document = load(text)
    except ValueError as error:
        raise AxesError(f"axes file {path}: not YAML that is read here: {error}") from error
    return _parse(str(path), document, _default_axes())


def _parse(
    where: str, document: Any, defaults: tuple[FamilyAxes, dict[str, FamilyAxes]] | None
) -> tuple[FamilyAxes, dict[str, FamilyAxes]]:
    sections = _mapping(where, "the file", document)
    for name in sections:
        if name not in ("every", "families"):
            raise AxesError(f"axes file {where}: {UnknownValueError('section', name, ('every', 'families'))}")
    every = _section(where, "every", sections.get("every"), tuple(ALLOWED))
    families = {}
    for name, axes in _mapping(where, "families", sections.get("families")).items():
        if name not in FAMILIES:
            raise AxesError(f"axes file {where}: {UnknownValueError('family', name, FAMILIES)}")
        known = tuple(ALLOWED) if defaults is None else tuple({**defaults[0], **defaults[1][name]})
        families[name] = _section(where, name, axes, known)
    return every, families


def _section(where: str, section: str, axes: Any, known: tuple[str, ...]) -> FamilyAxes:
    return {
        axis: _values(where, section, axis, values, known) for axis, values in _mapping(where, section, axes).items()
    }


def _values(where: str, section: str, axis: str, values: Any, known: tuple[str, ...]) -> tuple[AxisValue, ...]:
    if axis not in known:
        raise AxesError(f"axes file {where}, {section}: {UnknownValueError('axis', axis, known)}")
    if not isinstance(values, list) or not values:
        raise AxesError(f"axes file {where}, {section}.{axis}: expected a list of at least one value, found {values!r}")
    for value in values:
        # true equals 1 and 16.0 equals 16, but axes have whole numbers and words.
        if type(value) not in (int, str) or value not in ALLOWED[axis]:
            raise AxesError(f"axes file {where}, {section}.{axis}: {UnknownValueError('value', value, ALLOWED[axis])}")
    if len(set(values)) != len(values):
        raise AxesError(f"axes file {where}, {section}.{axis}: a value is listed twice: {values}")
    return tuple(values)


def _mapping(where: str, section: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise AxesError(f"axes file {where}: {section} is not a mapping")
    return value
