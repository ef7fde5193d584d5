"""JSON from elsewhere: what `json` lets pass and no reader here can use is refused.

A key that is repeated (json takes the last), NaN and infinity (no JSON), half a surrogate pair (no UTF-8, so it can
never be printed or hashed), nesting that nothing here writes (the stack of whoever walks it).
"""

from __future__ import annotations

import json
from typing import Any

#: Provenance, the deepest of what is written here, has five levels.
MOST_LEVELS = 24


def loads(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError says in one line what is wrong with it."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deep") from None
    require_shallow(value)
    # Halves come from escapes, or from text that was no UTF-8; bytes have been decoded strictly.
    if isinstance(text, str) or b"\\u" in text:
        require_unicode(value)
    return value


def require_shallow(value: Any) -> None:
    """ValueError for data of more levels than `MOST_LEVELS`."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_LEVELS):
        level = [
            child
            for part in level
            for child in (part.values() if isinstance(part, dict) else part)
            if type(child) in (dict, list)
        ]
        if not level:
            return
    raise ValueError(f"nested deeper than {MOST_LEVELS} levels")


def require_unicode(value: Any) -> None:
    """ValueError for plain data with text that has no UTF-8 form."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a surrogate pair, {error.object[error.start]!a}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {repeated[:40]!a} is repeated")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
