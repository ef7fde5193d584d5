"""Backward data at any stride and dilation: the sub-GEMMs of a table, searched by every workgroup."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import CAPABILITY, axis
from grids.family import Choice, Family
from grids.gemm.axes import GEMM_AXES, WIDTHS
from grids.gemm.columns import dgrad_columns, gemm_candidates
from grids.gemm.dgrad_rules import DGRAD_RULES, SUB_GEMM_RULES
from grids.gemm.records import MAX_SUB_GEMMS, Dgrad
from grids.gemm.rows import GemmRows
from grids.gemm.serving import TILDE_SERVING


@dataclass(frozen=True, slots=True)
class Tilde(Dgrad):
    """One backward-data kernel for any stride and dilation."""

    family = "tilde"

    max_sub_gemms: int = axis(
        "subgemms", MAX_SUB_GEMMS, "sub-GEMMs that it is offered for", role=CAPABILITY, least=1, most=MAX_SUB_GEMMS
    )


FAMILY = Family(
    record=Tilde,
    sentence="backward data at any stride and dilation, one sub-GEMM per pixel lattice",
    axes={
        **GEMM_AXES,
        "vector_size_a": WIDTHS,
        "vector_size_b": WIDTHS,
        "max_sub_gemms": Choice((MAX_SUB_GEMMS,), (1, 2, 4, 8, 16, 32, 64)),
    },
    candidates=gemm_candidates(Tilde, dgrad_columns),
    rules=(*SUB_GEMM_RULES, *DGRAD_RULES),
    serving=TILDE_SERVING,
    rows=GemmRows,
)
