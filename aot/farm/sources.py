"""A digest of the sources that decide what is in a cache: if it is unchanged, nothing has to be emitted again."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: Whatever decides identities, rejections, IR, code objects and facts. Commands, farm and emulator decide nothing.
_DECIDING = ("cache_schema", "grids", "aot/ir", "aot/kernels", "aot/toolchain", "aot/farm/units.py")
_SUFFIXES = (".py", ".yaml")


@cache
def sources_digest() -> str:
    """64 hex digits over names and bytes of the deciding files of this installation."""
    digest = hashlib.sha256()
    for path in sorted(path for part in _DECIDING for path in _files(_ROOT / part)):
        for field in (path.relative_to(_ROOT).as_posix().encode(), path.read_bytes()):
            digest.update(len(field).to_bytes(8, "little"))
            digest.update(field)
    return digest.hexdigest()


def _files(part: Path) -> list[Path]:
    return [part] if part.is_file() else [path for path in part.rglob("*") if path.suffix in _SUFFIXES]
