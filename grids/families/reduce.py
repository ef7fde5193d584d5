"""The second step of two-stage backward weights: folds the replicas of a workspace into dW."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import Identity, axis
from cache_schema.table import IdentityTable
from grids.family import Family, FamilyAxes
from grids.gemm.axes import REPLICAS
from grids.gemm.records import Gemm
from grids.rule import ONE_DTYPE
from grids.targets import Target


@dataclass(frozen=True, slots=True)
class Reduce(Identity):
    """One reduction."""

    family, direction = "reduce", "wgrad"

    ws_replicas: int = axis("replicas", 8, "f32 replicas of dW in the workspace", least=1)


def reduce_step(identity: Gemm) -> tuple[Reduce]:
    """The second step of a kernel that adds into replicas."""
    dtype = identity.dtype_d
    return (Reduce(identity.arch, dtype, dtype, dtype, ws_replicas=identity.ws_replicas),)


def _candidates(gpu: Target, dtype: str, axes: FamilyAxes) -> IdentityTable:
    counts = axes["ws_replicas"]
    return IdentityTable.from_identities(
        [Reduce(gpu.arch, dtype, dtype, dtype, ws_replicas=int(count)) for count in counts]
    )


FAMILY = Family(
    record=Reduce,
    sentence="second step of two-stage backward weights: folds the replicas of the workspace",
    axes={"ws_replicas": REPLICAS},
    candidates=_candidates,
    rules=(ONE_DTYPE,),
    is_step=True,
)
