"""Small problems that reach the edges of one kernel: a handful per identity, each for a reason.

Extents are the least that do it, since a release runs this for every kernel.
"""

from __future__ import annotations

from aot.families import family_of
from aot.verification.edge_case import EdgeCase
from cache_schema.identity import Identity

#: Raise the number when the cases change: evidence of the old ones then counts no more.
EDGES = "edges/4"


def edge_cases(identity: Identity) -> tuple[EdgeCase, ...]:
    """The cases of one kernel; `UnknownValueError` for one of no family."""
    return tuple(family_of(identity).edge_cases(identity))
