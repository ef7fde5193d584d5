"""The half that needs no compiler: square tiles of one wave, for problems without groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cache_schema.identity import Identity, axis
from cache_schema.table import IdentityTable
from grids.family import Choice, Family, FamilyAxes
from grids.rule import Rule
from grids.served import DTYPE, ServingRule, all_or_nothing
from grids.targets import Target

#: Elements of a load, which channels are a multiple of.
WIDTH = 8


@dataclass(frozen=True, slots=True)
class Toy(Identity):
    """One kernel."""

    family, direction = "toy", "fwd"

    edge: int = axis("edge", 16, "rows and columns of the output tile", least=1)
    eager: bool = axis("eager", False, "prefetches")


def _candidates(gpu: Target, dtype: str, axes: FamilyAxes) -> IdentityTable:
    edges, eager = np.meshgrid(np.array(axes["edge"]), np.array([False, True]), indexing="ij")
    columns = {"arch": gpu.arch, "dtype_a": dtype, "dtype_b": dtype, "dtype_d": dtype}
    return IdentityTable.from_columns(Toy, edges.size, {**columns, "edge": edges.ravel(), "eager": eager.ravel()})


FAMILY = Family(
    record=Toy,
    sentence="a toy",
    axes={"edge": Choice((16, 32, 48), (16, 32, 48, 64))},
    candidates=_candidates,
    rules=(Rule("T1_edge", "the edge is no power of two", lambda r: r.edge & (r.edge - 1) == 0),),
    serving=(
        DTYPE,
        ServingRule("S_toy", "toys have no groups, and channels by eight", lambda r: all_or_nothing(
            r.problem.groups > 1 or r.problem.c % WIDTH != 0
        )),
    ),
)  # fmt: skip
