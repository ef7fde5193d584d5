"""Forward: one GEMM over all output pixels."""

from __future__ import annotations

from dataclasses import dataclass

from grids.family import Family
from grids.gemm.axes import EVERY_LOOP, GEMM_AXES, WIDTHS, k_loop_codes
from grids.gemm.columns import forward_columns, gemm_candidates
from grids.gemm.forward_rules import FORWARD_RULES
from grids.gemm.records import Forward
from grids.gemm.rows import GemmRows
from grids.gemm.serving import FORWARD_SERVING


@dataclass(frozen=True, slots=True)
class ImplicitGemm(Forward):
    """One forward kernel."""

    family = "implicit_gemm"


FAMILY = Family(
    record=ImplicitGemm,
    sentence="forward, one GEMM over all output pixels",
    axes={**GEMM_AXES, "k_loop": EVERY_LOOP, "vector_size_a": WIDTHS, "vector_size_c": WIDTHS},
    candidates=gemm_candidates(ImplicitGemm, forward_columns),
    rules=FORWARD_RULES,
    serving=FORWARD_SERVING,
    rows=GemmRows,
    breakdown=k_loop_codes,
)
