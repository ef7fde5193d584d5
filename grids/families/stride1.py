"""Backward data at stride 1 and dilation 1: its single sub-GEMM is folded into the code."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import constant
from grids.family import Family
from grids.gemm.axes import GEMM_AXES, WIDTHS
from grids.gemm.columns import dgrad_columns, gemm_candidates
from grids.gemm.dgrad_rules import DGRAD_RULES
from grids.gemm.records import Dgrad
from grids.gemm.rows import GemmRows
from grids.gemm.serving import STRIDE1_SERVING


@dataclass(frozen=True, slots=True)
class Stride1(Dgrad):
    """One backward-data kernel for stride 1 and dilation 1."""

    family = "stride1"

    folded: bool = constant(True)


FAMILY = Family(
    record=Stride1,
    sentence="backward data at stride 1 and dilation 1, its single sub-GEMM folded into the code",
    axes={**GEMM_AXES, "vector_size_a": WIDTHS, "vector_size_b": WIDTHS},
    candidates=gemm_candidates(Stride1, dgrad_columns),
    rules=DGRAD_RULES,
    serving=STRIDE1_SERVING,
    rows=GemmRows,
)
