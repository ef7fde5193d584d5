"""The second step of stream-K backward weights: adds up the parts of output tiles that workgroups have left."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.identity import Identity
from cache_schema.table import IdentityTable
from grids.family import Family, FamilyAxes
from grids.rule import ONE_DTYPE
from grids.targets import Target


@dataclass(frozen=True, slots=True)
class FixUp(Identity):
    """One kernel for all tiles."""

    family, direction = "fix_up", "wgrad"


def fix_up_step(identity: Identity) -> tuple[FixUp]:
    """The second step of a stream-K kernel."""
    dtype = identity.dtype_d
    return (FixUp(identity.arch, dtype, dtype, dtype),)


def _candidates(gpu: Target, dtype: str, _axes: FamilyAxes) -> IdentityTable:
    return IdentityTable.from_identities([FixUp(gpu.arch, dtype, dtype, dtype)])


FAMILY = Family(
    record=FixUp,
    sentence="second step of stream-K backward weights: adds up the parts of output tiles",
    axes={},
    candidates=_candidates,
    rules=(ONE_DTYPE,),
    is_step=True,
)
