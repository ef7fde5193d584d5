"""Depthwise backward weights: several groups per workgroup, two-stage."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import axis, constant
from grids.families.reduce import reduce_step
from grids.family import Choice, Family
from grids.gemm.axes import GEMM_AXES, PLAIN_LOOP, REPLICAS, k_loop_codes
from grids.gemm.columns import gemm_candidates, merged_columns
from grids.gemm.records import RUNTIME_SPLIT, Wgrad
from grids.gemm.rows import GemmRows
from grids.gemm.serving import MERGED_SERVING
from grids.gemm.wgrad_rules import MERGED, TWO_STAGE, WGRAD_LOADS, WGRAD_REGISTERS, WGRAD_TILE

_DEGREES = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Merged(Wgrad):
    """One kernel of several groups; its loads are as wide as the run of merged channels allows."""

    family = "merged"

    vector_size_a: int = constant(0)
    vector_size_b: int = constant(0)
    vector_size_c: int = constant(0)
    split_k: int = constant(RUNTIME_SPLIT)
    two_stage: bool = constant(True)
    ws_replicas: int = axis("replicas", 8, "f32 replicas of dW that the slices are dealt over", least=1)
    group_merge: int = axis("gm", 0, "groups that a workgroup computes", least=2)


FAMILY = Family(
    record=Merged,
    sentence="depthwise backward weights, several groups per workgroup, two-stage",
    axes={**GEMM_AXES, "k_loop": PLAIN_LOOP, "group_merge": Choice(_DEGREES, _DEGREES), "ws_replicas": REPLICAS},
    candidates=gemm_candidates(Merged, merged_columns),
    rules=(*WGRAD_TILE, *TWO_STAGE, *WGRAD_LOADS, *MERGED, *WGRAD_REGISTERS),
    serving=MERGED_SERVING,
    rows=GemmRows,
    steps=reduce_step,
    step_families=("reduce",),
    breakdown=k_loop_codes,
)
