"""Launch options of problem files: paths that a case wants forced, and which kernels have them.

| option | kernels that have it | what it does |
|---|---|---|
| split_k | those that are told how often to split, or split so often anyway; -1: all | sets the degree |
| workgroups | stream-K kernels | sets the degree |
| two_stage | those with, or without, a second stage | nothing: such a kernel always works so |
| deterministic | those that add no slices by 16-bit atomics | runs the case twice; bits have to be equal |
| split_n | none: no kernel splits the batch | |

A kernel that lacks a path refuses the option and computes the problem its own way, which has to be right as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.runtime.plan_wgrad import AUTOMATIC_DEGREE
from aot.verification.edge_case import EdgeCase
from cache_schema.table import IdentityTable

Mask = npt.NDArray[np.bool_]


def has_option(table: IdentityTable, name: str, value: Any) -> tuple[Mask, str]:
    """Per row, whether the kernel has the path, and what is said of those that have not."""
    split = table.wide("split_k")
    two_stage = table.columns["two_stage"].astype(np.bool_)
    everywhere = np.ones(len(table), dtype=np.bool_)
    if name == "split_k":
        if value == AUTOMATIC_DEGREE:
            return everywhere, ""
        told = (split > 1) & table.equals("direction", "wgrad")
        mask: Mask = told | ((split == value) & ~table.columns["stream_k"].astype(np.bool_))
        return mask, f"not a kernel that splits its reduction {value} times"
    if name == "workgroups":
        return table.columns["stream_k"].astype(np.bool_), "not a stream-K kernel"
    if name == "two_stage":
        return two_stage == bool(value), f"a kernel with {'one stage' if value else 'two stages'}"
    if name == "deterministic":
        if not value:
            return everywhere, ""
        return (split <= 1) | two_stage, "16-bit atomics add up in no fixed order"
    if name == "split_n":
        return everywhere & (value == 1), "no kernel splits the batch"
    return ~everywhere, "not an option of any kernel"


def refused_options(table: IdentityTable, serving: Mask, launch: Mapping[str, Any]) -> str:
    """What is said of options that some of the serving kernels refuse; empty if there are none."""
    told = []
    for name, value in launch.items():
        mask, reason = has_option(table, name, value)
        refusing, serving_count = int((serving & ~mask).sum()), int(serving.sum())
        if refusing:
            told.append(f"{name}={value} is refused by {refusing} of {serving_count} kernels: {reason}")
    return "; ".join(told)


def with_options(case: EdgeCase, table: IdentityTable) -> EdgeCase:
    """The case as the one kernel of the table runs it."""
    if not case.launch:
        return case
    honoured = {name: value for name, value in case.launch if has_option(table, name, value)[0].all()}
    degree = int(honoured.get("workgroups", honoured.get("split_k", case.degree)))
    return replace(case, degree=degree, repeat=case.repeat or bool(honoured.get("deterministic")), launch=())
