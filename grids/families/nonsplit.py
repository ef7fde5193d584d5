"""Backward weights in one slice, stored directly."""

from __future__ import annotations

from dataclasses import dataclass

from grids.family import Family
from grids.gemm.axes import GEMM_AXES, PLAIN_LOOP, WIDTHS, k_loop_codes
from grids.gemm.columns import gemm_candidates, wgrad_columns
from grids.gemm.records import Wgrad
from grids.gemm.rows import GemmRows
from grids.gemm.serving import NONSPLIT_SERVING
from grids.gemm.wgrad_rules import WGRAD_LOADS, WGRAD_REGISTERS, WGRAD_TILE


@dataclass(frozen=True, slots=True)
class Nonsplit(Wgrad):
    """One kernel that stores dW."""

    family = "nonsplit"


FAMILY = Family(
    record=Nonsplit,
    sentence="backward weights in one slice, stored directly",
    axes={**GEMM_AXES, "k_loop": PLAIN_LOOP, "vector_size_a": WIDTHS, "vector_size_b": WIDTHS},
    candidates=gemm_candidates(Nonsplit, wgrad_columns),
    rules=(*WGRAD_TILE, *WGRAD_LOADS, *WGRAD_REGISTERS),
    serving=NONSPLIT_SERVING,
    rows=GemmRows,
    breakdown=k_loop_codes,
)
