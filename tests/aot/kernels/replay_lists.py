"""Committed lists of what the builders emit: one line per kernel, `<sha256 of the IR> <label>`.

A change of the builders shows as a change of these lists (`scripts/refresh-replay` writes them anew): it is seen which
kernels a commit touches, and that a refactoring touches none.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from aot.families import emit
from cache_schema.identity import Identity
from cache_schema.label import decode, encode
from grids.catalogue import open_catalogue
from grids.families import families
from grids.family import Family
from grids.selection import spread

FOLDER = Path(__file__).parent / "replay"
ARCHES = ("gfx950", "gfx942")
FLAVORS = ("llvm20", "llvm22")
KERNELS_PER_DTYPE = 24


def path_of(family: str, arch: str, flavor: str) -> Path:
    """The list of one family, architecture and flavor."""
    return FOLDER / f"{family}-{arch}-{flavor}.txt"


def sample(family: Family, arch: str) -> list[Identity]:
    """Identities of a family spread over all its axes."""
    identities: list[Identity] = []
    for dtype in ("bf16", "fp16"):
        table = open_catalogue(arch, [dtype], [family.direction], [family.name]).buildable()
        table = spread(table.take(table.of_families([family.name])), KERNELS_PER_DTYPE)
        identities += [table.row(index) for index in range(len(table))]
    return identities


def line(identity: Identity, flavor: str) -> str:
    """What the list says of one kernel."""
    return f"{hashlib.sha256(emit(identity, flavor).ir.encode()).hexdigest()} {encode(identity)}"


def read(path: Path) -> list[tuple[str, Identity]]:
    """(sha256, identity) of each line."""
    return [(digest, decode(label)) for digest, label in map(str.split, path.read_text().splitlines())]


def refresh() -> list[Path]:
    """Write all lists; the paths of those that changed."""
    changed = []
    for family in families().values():
        for arch in ARCHES:
            identities = sample(family, arch)
            for flavor in FLAVORS:
                path = path_of(family.name, arch, flavor)
                text = "".join(line(identity, flavor) + "\n" for identity in identities)
                if not path.exists() or path.read_text() != text:
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(text)
                    changed.append(path)
    return changed
