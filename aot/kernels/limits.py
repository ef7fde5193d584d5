"""What a kernel can hold of a problem.

Serving rules keep away what it cannot address, by the same arithmetic.
"""

from __future__ import annotations

from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from grids.addressing import reaches_of
from grids.gemm.records import Gemm

#: The uniform loop keeps one validity bit per tap; the tap behind the last one needs a bit too.
UNIFORM_TAP_LIMIT = 31


def check_limits(identity: Gemm, problem: ConvProblem) -> None:
    """Raises `ProblemError` for what a kernel's 32-bit coordinates, offsets and counts do not hold."""
    for reach in reaches_of(identity, problem):
        if reach.exceeds:
            raise ProblemError(reach.field, f"{reach.what} reach {reach.value}; kernels hold at most {reach.limit}")
