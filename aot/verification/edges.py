"""Small problems that reach the edges of one kernel: a handful per identity, each for a reason.

Extents are the least that do it, since a release runs this for every kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aot.runtime.plan_data import PlanError
from aot.verification.edge_case import EdgeCase
from aot.verification.edges_dgrad import dgrad_cases
from aot.verification.edges_forward import forward_cases
from aot.verification.edges_wgrad import wgrad_cases
from aot.verification.run_reduce import reduce_cases
from cache_schema.identity import IMPLICIT_GEMM, REDUCE, Identity

#: Raise the number when the cases change: evidence of the old ones then counts no more.
EDGES = "edges/3"

_CASES: dict[tuple[str, str], Callable[[Identity], Iterator[EdgeCase]]] = {
    (IMPLICIT_GEMM, "fwd"): forward_cases,
    (IMPLICIT_GEMM, "dgrad"): dgrad_cases,
    (IMPLICIT_GEMM, "wgrad"): wgrad_cases,
    (REDUCE, "wgrad"): reduce_cases,
}


def edge_cases(identity: Identity) -> tuple[EdgeCase, ...]:
    """The cases of one kernel; `PlanError` for a family that has none."""
    key = (identity.algorithm, identity.direction)
    if key not in _CASES:
        raise PlanError(f"there are no verification problems for {identity.algorithm} {identity.direction} kernels")
    return tuple(_CASES[key](identity))
