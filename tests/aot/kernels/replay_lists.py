"""Committed lists of what the builders emit: one line per kernel, `<sha256 of the IR> <label>`.

A change of the builders shows as a change of these lists (`scripts/refresh-replay` writes them anew): it is seen which
kernels a commit touches, and that a refactoring touches none.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from aot.kernels import emit
from cache_schema.identity import Identity
from cache_schema.label import decode, encode
from grids.catalogue import open_catalogue

FOLDER = Path(__file__).parent / "replay"
DIRECTIONS = ("fwd", "dgrad", "wgrad")
ARCHES = ("gfx950", "gfx942")
FLAVORS = ("llvm20", "llvm22")
KERNELS_PER_DTYPE = 24


def path_of(direction: str, arch: str, flavor: str) -> Path:
    """The list of one family and flavor."""
    return FOLDER / f"{direction}-{arch}-{flavor}.txt"


def sample(direction: str, arch: str) -> list[Identity]:
    """Identities spread over all axes."""
    identities: list[Identity] = []
    for dtype in ("bf16", "fp16"):
        table = open_catalogue(arch, [dtype], directions=[direction]).buildable(KERNELS_PER_DTYPE)
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
    for direction in DIRECTIONS:
        for arch in ARCHES:
            identities = sample(direction, arch)
            for flavor in FLAVORS:
                path = path_of(direction, arch, flavor)
                text = "".join(line(identity, flavor) + "\n" for identity in identities)
                if not path.exists() or path.read_text() != text:
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(text)
                    changed.append(path)
    return changed
