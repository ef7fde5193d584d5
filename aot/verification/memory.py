"""How much memory a problem takes to verify, and how much there is.

Counted are the arrays that are alive at once, of operands with `a` and `b` elements and a result of `d`:

    making operands     10 (a + b), in float64 and in 16 bits; 16 from integers, 24 where two are added up
    judging             4 (a + b): the operands in 16 bits, and the copies that a device gets
                        17 d, the reference, 33 d, the tolerance, 70 d, the widest of what makes them, runs and
                        compares, and 64 of each element of a piece, and 24 of each weight of a tap, widened
    kept                2 (a + b) + 50 d, of the problems before
"""

from __future__ import annotations

import resource
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from aot.runtime.float16 import SLICE_ELEMENTS
from aot.runtime.reference import PIECE_ELEMENTS, TENSORS, tensor_shape
from aot.verification.edge_case import EdgeCase
from aot.workers.cgroup import allowance
from cache_schema.problem import ConvProblem

#: References and tolerances that a process keeps for the next kernel; more than the edges of all kernels need.
KEPT_BYTES = 512 << 20
#: Bytes per element, by the kind of inputs.
_MAKING = {"cancel": 24, **dict.fromkeys(("uniform", "positive", "ones", "nan", "inf", "inf-w"), 10)}
_MAKING_INTEGERS = 16
#: What the objects around the arrays of a small problem take.
_OBJECT_BYTES = 16 << 10
_Result = TypeVar("_Result")


def elements(problem: ConvProblem) -> tuple[int, int, int]:
    """Of both operands and of the result."""
    a, b, d = (prod(tensor_shape(problem, name)) for name in TENSORS[problem.direction])
    return a, b, d


def kept_bytes(problem: ConvProblem) -> int:
    """What stays of a problem once it was judged."""
    a, b, d = elements(problem)
    return 2 * (a + b) + 50 * d


def peak_bytes(problem: ConvProblem, inputs: str) -> int:
    """The most that verifying a problem on a kind of inputs takes beyond what a process has anyway."""
    a, b, d = elements(problem)
    channels = max(problem.c, problem.k)
    piece = min(PIECE_ELEMENTS + channels, problem.n * problem.ho * problem.wo * channels)
    making = _MAKING.get(inputs, _MAKING_INTEGERS) * (a + b) + 32 * min(SLICE_ELEMENTS, max(a, b))
    judging = 4 * (a + b) + 120 * d + 64 * piece + 24 * problem.k * problem.cpg
    return max(making, judging)


def room_for(cases: Sequence[EdgeCase]) -> int:
    """What verifying all of them, one after the other, takes."""
    peak = max((peak_bytes(case.problem, case.inputs) for case in cases), default=0)
    return peak + min(KEPT_BYTES, sum(kept_bytes(case.problem) for case in cases))


def bytes_to_have() -> int:
    """What this process can still take: of the machine, of its control groups, and of its own limits."""
    pages = [int(word) * resource.getpagesize() for word in Path("/proc/self/statm").read_text().split()]
    limits = [(resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])]
    own = [max(0, soft - used) for what, used in limits if (soft := resource.getrlimit(what)[0]) >= 0]
    return min([allowance().memory_bytes, *own])


def keep(size_of: Callable[[ConvProblem], int]) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Remember the results of a function of a problem and more, the last ones that fit `KEPT_BYTES` by their size."""

    def decorate(function: Callable[..., _Result]) -> Callable[..., _Result]:
        kept: OrderedDict[Hashable, tuple[int, _Result]] = OrderedDict()
        held = 0

        @wraps(function)
        def recall(problem: ConvProblem, *rest: Any) -> _Result:
            nonlocal held
            key = problem, *rest
            if key in kept:
                kept.move_to_end(key)
                return kept[key][1]
            size = size_of(problem) + _OBJECT_BYTES
            while kept and held + size > KEPT_BYTES:
                held -= kept.popitem(last=False)[1][0]
            result = function(problem, *rest)
            kept[key] = size, result
            held += size
            return result

        return recall

    return decorate
