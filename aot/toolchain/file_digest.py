"""sha256 of the tools' bytes, remembered by (path, size, mtime, inode) so that 150 MB are hashed once per machine.

The memory is a small JSON file in the user's cache folder and never part of a key: a lost or unwritable one costs time
and nothing else. What enters a content key is the hash of the bytes alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

_MEMORY_VERSION = 1


def memory_path() -> Path:
    """`$XDG_CACHE_HOME/rocke-aot/tools.json`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "rocke-aot" / "tools.json"


def file_sha256(path: Path) -> str:
    """Hex sha256 of the file's bytes."""
    return remembered("sha256", path, _hash)


def remembered(what: str, path: Path, compute: Callable[[Path], str]) -> str:
    """`compute(path)`, from memory if the file is still the one it was computed for."""
    real = path.resolve()
    status = real.stat()
    return _remembered(what, real, f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}", compute)


@functools.lru_cache(maxsize=64)
def _remembered(what: str, path: Path, stamp: str, compute: Callable[[Path], str]) -> str:
    key = f"{what} {path}"
    known = _read().get(key)
    if known is not None and known[0] == stamp:
        return known[1]
    value = compute(path)
    _store(key, (stamp, value))
    return value


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read() -> dict[str, tuple[str, str]]:
    try:
        content = json.loads(memory_path().read_text())
        if content["version"] != _MEMORY_VERSION:
            return {}
        return {str(key): (str(stamp), str(value)) for key, (stamp, value) in content["tools"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _store(key: str, entry: tuple[str, str]) -> None:
    """Add one entry by renaming a whole new file into place; a lost race loses an entry, never a file."""
    path = memory_path()
    content = {"version": _MEMORY_VERSION, "tools": _read() | {key: entry}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as stream:
            json.dump(content, stream)
        Path(stream.name).replace(path)
    except OSError:
        return
