"""What goes without saying in a label: the usual value of each field, per (direction, algorithm).

Labels name only what differs from here, so a change of this table changes what existing labels mean. Families are
added, never altered; a test pins the table.
"""

from __future__ import annotations

from cache_schema.identity import FIELD_DEFAULT, IMPLICIT_GEMM

Value = str | int | bool

_IMPLICIT: dict[str, dict[str, Value]] = {
    "fwd": {"grouped": True},
    "wgrad": {"grouped": True},
    "dgrad": {"grouped": True, "max_sub_gemms": 64},
}
_DIRECT: dict[str, Value] = {"pipeline": "direct", "epilogue": "direct"}


def baseline(direction: str, algorithm: str) -> dict[str, Value]:
    """Values of all fields behind the key fields; total, since unknown families take the defaults of `Identity`."""
    if algorithm == IMPLICIT_GEMM:
        return {**FIELD_DEFAULT, **_IMPLICIT.get(direction, {})}
    if algorithm.startswith("direct"):
        return {**FIELD_DEFAULT, **_DIRECT}
    return dict(FIELD_DEFAULT)
