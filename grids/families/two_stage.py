"""Backward weights split over K into f32 replicas, reduced by a second kernel."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import axis, constant
from grids.families.reduce import reduce_step
from grids.family import Family
from grids.gemm.axes import GEMM_AXES, PLAIN_LOOP, REPLICAS, WIDTHS, k_loop_codes
from grids.gemm.columns import gemm_candidates, wgrad_columns
from grids.gemm.records import RUNTIME_SPLIT, Wgrad
from grids.gemm.rows import GemmRows
from grids.gemm.serving import TWO_STAGE_SERVING
from grids.gemm.wgrad_rules import TWO_STAGE, WGRAD_LOADS, WGRAD_REGISTERS, WGRAD_TILE


@dataclass(frozen=True, slots=True)
class TwoStage(Wgrad):
    """One kernel that adds into a workspace."""

    family = "two_stage"

    split_k: int = constant(RUNTIME_SPLIT)
    two_stage: bool = constant(True)
    ws_replicas: int = axis("replicas", 8, "f32 replicas of dW that the slices are dealt over", least=1)


FAMILY = Family(
    record=TwoStage,
    sentence="backward weights split over K into f32 replicas, reduced by a second kernel",
    axes={
        **GEMM_AXES,
        "k_loop": PLAIN_LOOP,
        "vector_size_a": WIDTHS,
        "vector_size_b": WIDTHS,
        "ws_replicas": REPLICAS,
    },
    candidates=gemm_candidates(TwoStage, wgrad_columns),
    rules=(*WGRAD_TILE, *TWO_STAGE, *WGRAD_LOADS, *WGRAD_REGISTERS),
    serving=TWO_STAGE_SERVING,
    rows=GemmRows,
    steps=reduce_step,
    step_families=("reduce",),
    breakdown=k_loop_codes,
)
