"""Random convolution problems for tests, small enough to brute-force or as large as tensors may be."""

from __future__ import annotations

import random

from cache_schema.errors import ProblemError
from cache_schema.problem import DIRECTIONS, ConvProblem


def random_problem(rng: random.Random, *, large: bool = False) -> ConvProblem:
    """A valid problem of any direction; `large` reaches grid, reduction and split limits."""
    while True:
        groups = rng.choice((1, 1, 1, 2, 3, 4, 8, 16, 64, 40000 if large else 32, 70000 if large else 5))
        per_group = (1, 1, 2, 3, 4, 6, 8, 16, 24, 64) + ((1 << 16, 1 << 19, 3 << 17) if large else ())
        extents = (1, 2, 3, 7, 8, 14, 30) + ((224, 900, 4000) if large else ())
        try:
            return ConvProblem(
                direction=rng.choice(DIRECTIONS),
                dtype=rng.choice(("bf16", "fp16")),
                n=rng.choice((0, 1, 2, 8) + ((256, 70000) if large else ())),
                c=groups * rng.choice(per_group),
                h=rng.choice(extents),
                w=rng.choice(extents),
                k=groups * rng.choice(per_group),
                y=rng.choice((1, 1, 2, 3, 3, 5, 7)),
                x=rng.choice((1, 1, 2, 3, 3, 5, 7)),
                stride_h=rng.choice((1, 1, 2, 3, 9)),
                stride_w=rng.choice((1, 1, 2, 3, 9)),
                pad_h=rng.choice((0, 1, 2, 3)),
                pad_w=rng.choice((0, 1, 2, 3)),
                dilation_h=rng.choice((1, 1, 2, 3)),
                dilation_w=rng.choice((1, 1, 2, 3)),
                groups=groups,
            )
        except ProblemError:
            continue
