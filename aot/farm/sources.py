"""Digests of the sources that decide the kernels of a family: where they are unchanged, nothing is emitted again.

The deciding modules of a family are those that define its `emit` and its record, the one that makes kernels of sources,
and what of the project these import, directly or not. The lists of families are not followed: they would bring in the
others. Of
every module counts what it does and not what it says (`aot.farm.source_text`), and of files with data that it names in
quotes and that lie beside it, every byte.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aot.family import KernelFamily
from aot.farm.source_text import deciding_text, file_names, imported_names
from grids import families as grid_families

_ROOT = Path(__file__).parents[2]
#: Makes code objects of what families emit.
_UNIT = "aot.farm.units"
_LISTS = ("aot.families", "grids.families")
#: Where a record of provenance has the digests, by family.
SOURCES = "sources"


def source_digests(families: Iterable[KernelFamily]) -> dict[str, str]:
    """64 hex digits per family, over names and deciding contents of its modules in this installation."""
    found = {}
    for family in families:
        starts = family.emit.__module__, grid_families.known_family(family.name).record.__module__
        found[family.name] = family_digest(starts, tuple(dict.fromkeys(map(_root_of, starts))))
    return found


def unchanged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> frozenset[str]:
    """Families whose kernels are made alike by what two records of provenance name; all else in these has to be equal.

    The digests stand under `SOURCES`.
    """
    if {**ours, SOURCES: None} != {**theirs, SOURCES: None}:
        return frozenset()
    found = theirs.get(SOURCES)
    found = found if isinstance(found, dict) else {}  # a file of an earlier version has one for all
    return frozenset(name for name, digest in ours[SOURCES].items() if found.get(name) == digest)


@cache
def family_digest(starts: tuple[str, ...], own_roots: tuple[Path, ...]) -> str:
    """The digest of a family that these modules define; modules are looked for in their own root folders first."""
    roots = tuple(dict.fromkeys((*own_roots, _ROOT)))
    digest = hashlib.sha256()
    for name, path in sorted(deciding_modules((*starts, _UNIT), roots).items()):
        digest.update(f"{name}={_contents(path)};".encode())
    return digest.hexdigest()


def deciding_modules(starts: Iterable[str], roots: tuple[Path, ...]) -> dict[str, Path]:
    """Modules under the roots that these import, directly or not, themselves and their packages included."""
    found: dict[str, Path] = {}
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        path = _file(name, roots)
        if path is None or name in found or name in _LISTS:
            continue
        found[name] = path
        waiting += _imports(path)
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return found


@cache
def _file(name: str, roots: tuple[Path, ...]) -> Path | None:
    for root in roots:
        if not _holds(root, name.partition(".")[0]):
            continue
        place = root.joinpath(*name.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


@cache
def _contents(path: Path) -> str:
    """The digest of what a module does, and of the data that it reads."""
    text = _text(path)
    found = [text.encode()]
    for name in sorted(file_names(text)):
        beside = path.with_name(name)
        if beside.is_file():
            found.append(beside.read_bytes())
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in found)).hexdigest()


@cache
def _text(path: Path) -> str:
    return deciding_text(path.read_text(encoding="utf-8"))


@cache
def _imports(path: Path) -> frozenset[str]:
    return frozenset(imported_names(_text(path)))


@cache
def _holds(root: Path, package: str) -> bool:
    return (root / package).exists() or (root / f"{package}.py").exists()


def _root_of(module: str) -> Path:
    """The folder from which a module was imported."""
    file = Path(str(sys.modules[module].__file__))
    return file.parents[module.count(".") + (file.name == "__init__.py")]
