"""Backward weights split over K at a run-time degree; the slices are added into dW."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import constant
from grids.family import Family
from grids.gemm.axes import GEMM_AXES, PLAIN_LOOP, WIDTHS, k_loop_codes
from grids.gemm.columns import gemm_candidates, wgrad_columns
from grids.gemm.records import RUNTIME_SPLIT, Wgrad
from grids.gemm.rows import GemmRows
from grids.gemm.serving import ATOMIC_SERVING
from grids.gemm.wgrad_rules import ATOMIC, WGRAD_LOADS, WGRAD_REGISTERS, WGRAD_TILE


@dataclass(frozen=True, slots=True)
class Atomic(Wgrad):
    """One kernel that adds into dW."""

    family = "atomic"

    split_k: int = constant(RUNTIME_SPLIT)


FAMILY = Family(
    record=Atomic,
    sentence="backward weights split over K at a run-time degree, summed by atomics",
    axes={**GEMM_AXES, "k_loop": PLAIN_LOOP, "vector_size_a": WIDTHS, "vector_size_b": WIDTHS},
    candidates=gemm_candidates(Atomic, wgrad_columns),
    rules=(*WGRAD_TILE, *ATOMIC, *WGRAD_LOADS, *WGRAD_REGISTERS),
    serving=ATOMIC_SERVING,
    rows=GemmRows,
    breakdown=k_loop_codes,
)
