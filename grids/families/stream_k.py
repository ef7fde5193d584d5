"""Backward weights whose K tiles persistent workgroups share evenly. It pays where output tiles are large and few."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import constant
from grids.families.fix_up import fix_up_step
from grids.family import Choice, Family
from grids.gemm.axes import GEMM_AXES, WIDTHS
from grids.gemm.columns import gemm_candidates, stream_k_columns
from grids.gemm.records import Wgrad
from grids.gemm.rows import GemmRows
from grids.gemm.serving import STREAM_K_SERVING
from grids.gemm.wgrad_rules import STREAM_K, WGRAD_LOADS, WGRAD_REGISTERS, WGRAD_TILE


@dataclass(frozen=True, slots=True)
class StreamK(Wgrad):
    """One persistent kernel."""

    family = "stream_k"

    async_dma: bool = constant(False)
    unroll_k: bool = constant(False)
    async_chunk_a: int = constant(0)
    async_chunk_b: int = constant(0)
    stream_k: bool = constant(True)
    prefetch_addr: bool = constant(False)


def _narrowed(axis: str, *values: int | str) -> Choice:
    return Choice(values, GEMM_AXES[axis].allowed)


FAMILY = Family(
    record=StreamK,
    sentence="backward weights whose K tiles persistent workgroups share evenly",
    axes={
        **GEMM_AXES,
        "tile_m": _narrowed("tile_m", 64, 128, 256),
        "tile_n": _narrowed("tile_n", 64, 128, 256),
        "tile_k": _narrowed("tile_k", 32, 64),
        "pipeline": _narrowed("pipeline", "compv3", "compv4"),
        "vector_size_a": WIDTHS,
        "vector_size_b": WIDTHS,
    },
    candidates=gemm_candidates(StreamK, stream_k_columns),
    rules=(*WGRAD_TILE, *WGRAD_LOADS, *STREAM_K, *WGRAD_REGISTERS),
    serving=STREAM_K_SERVING,
    rows=GemmRows,
    steps=fix_up_step,
    step_families=("fix_up",),
)
