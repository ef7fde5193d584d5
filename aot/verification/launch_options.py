"""Which kernels honour the launch options of a problem; what these are is in `launch_paths`.

A kernel that lacks a path refuses the option and computes the problem its own way, which has to be right as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.families import offer_of, per_row
from aot.verification.edge_case import EdgeCase
from aot.verification.launch_paths import DEGREES, EQUAL_BITS, refusal
from cache_schema.table import IdentityTable

Mask = npt.NDArray[np.bool_]


def refused_options(table: IdentityTable, serving: Mask, launch: Mapping[str, Any]) -> str:
    """What is said of options that some of the serving kernels refuse; empty if there are none."""
    told, asked = [], table.take(np.flatnonzero(serving))
    for name, value in launch.items():
        refusing = int((~_has(asked, name, value)).sum())
        if refusing:
            told.append(f"{name}={value} is refused by {refusing} of {len(asked)} kernels: {refusal(name, value)}")
    return "; ".join(told)


def with_options(case: EdgeCase, table: IdentityTable) -> EdgeCase:
    """The case as the one kernel of the table, which serves it, runs it."""
    if not case.launch:
        return case
    honoured = {name: value for name, value in case.launch if _has(table, name, value).all()}
    degree = next((int(honoured[name]) for name in DEGREES if name in honoured), case.degree)
    return replace(case, degree=degree, repeat=case.repeat or bool(honoured.get(EQUAL_BITS)), launch=())


def _has(table: IdentityTable, name: str, value: Any) -> Mask:
    """Per row, whether the kernel has the path."""
    mask: Mask = np.zeros(len(table), dtype=np.bool_)
    for family, rows, _ in per_row(table):
        mask[rows] = offer_of(family).paths.has(name, value)
    return mask
