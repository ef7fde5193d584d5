"""What lies where a cache is to be written, and whether a build may take its place.

Only what is known to be ours, of a format that is written here and not larger than what is asked for, makes way by
itself. A cache that would lose kernels, or of which it cannot be told, makes way for `--replace`; what is not ours, or
of a newer release, never does.
"""

from __future__ import annotations

import json
from pathlib import Path

from aot.farm.previous import Previous
from cache_schema.cache_format import FRONT_BYTES, HEADER_BYTES, MAGIC, NewerFormatError, read_header
from cache_schema.errors import CacheError, RequestError
from cache_schema.table import IdentityTable

_ADVICE = "choose another --out, or move it away"


def require_replaceable(path: Path, asked: IdentityTable, *, replace: bool) -> None:
    """RequestError, naming what is there and what to do, where a cache of these identities may not take its place."""
    if path.is_symlink():
        raise RequestError(f"{path} is a link; name the folder that it leads to as --out, or {_ADVICE}")
    if not path.exists():
        return
    if not path.is_file():
        raise RequestError(f"{path} is no file; {_ADVICE}")
    try:
        front = _front(path)
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}; {_ADVICE}") from error
    if front[: len(MAGIC)] != MAGIC:
        raise RequestError(f"{path} is no kernel cache and is left alone; {_ADVICE}")
    try:
        read_header(front, path.stat().st_size, str(path))
    except NewerFormatError as error:
        raise RequestError(f"{error}; {_ADVICE}") from error
    except CacheError:
        pass  # of an older format, or damaged: what it holds decides
    if not replace:
        _require_no_loss(path, front, asked)


def _require_no_loss(path: Path, front: bytes, asked: IdentityTable) -> None:
    wanted = asked.family_sizes()
    try:
        previous = Previous(path)
        try:
            held = previous.sizes()
        finally:
            previous.close()
    except CacheError as error:
        count = _claimed_entries(front)
        if count is None or count > len(asked):
            told = "an unknown number of" if count is None else f"{count}"
            raise RequestError(
                f"{error}; it has {told} kernels and this request asks for {len(asked)}: {_ADVICE}, "
                "or give them up with --replace"
            ) from error
        return
    for family, count in held.items():
        if wanted.get(family, 0) < count:
            raise RequestError(
                f"{path} holds {count} kernels of family {family} and this request asks for {wanted.get(family, 0)}; "
                "choose another --out, or give them up with --replace"
            )


def _front(path: Path) -> bytes:
    """Header and, as far as a damaged one tells, directory."""
    with path.open("rb") as file:
        return file.read(FRONT_BYTES)


def _claimed_entries(front: bytes) -> int | None:
    """What the directory of a damaged file says of its size; None where it cannot be read."""
    try:
        directory, _ = json.JSONDecoder().raw_decode(front[HEADER_BYTES:].decode("ascii", "replace"))
        rows = directory["groups"]["entry"]["rows"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return rows if type(rows) is int else None
