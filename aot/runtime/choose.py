"""Which of the kernels that serve a problem to take when nobody has measured them.

Every family forecasts the plans of its kernels, `aot.runtime.forecast` says how. Kernels whose plans are not accurate
enough for the demand come last, whatever their estimate. Equal estimates are ordered by identity digest, so the choice
is the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aot.families import offer_of, per_row
from aot.runtime.accuracy import BY_DEFAULT, Demand
from aot.runtime.forecast import NOTHING, Forecast, Ints, Mask
from aot.runtime.plan_options import AUTOMATIC_DEGREE
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.targets import target


@dataclass(frozen=True, slots=True)
class Choice:
    """Row numbers from best to worst, and in the same order what is forecast of them and which meet the demand."""

    rows: Ints
    forecast: Forecast
    admitted: Mask


def forecast(table: IdentityTable, problem: ConvProblem, arch: str, demand: Demand, degree: int) -> Forecast:
    """What the families say of their kernels, in one; rows are taken to serve the problem."""
    unit, places, told = target(arch), [], []
    for family, rows, part in per_row(table):
        places.append(np.arange(len(table))[rows])
        told.append(offer_of(family).forecast(part, problem, unit, demand, degree))
    if len(told) == 1:
        return told[0]
    if not told:
        return NOTHING
    order = np.argsort(np.concatenate(places))
    return Forecast(*(np.concatenate([getattr(part, name) for part in told])[order] for name in Forecast.__slots__))


def choose(
    table: IdentityTable,
    digests: npt.NDArray[np.uint8],
    problem: ConvProblem,
    arch: str,
    demand: Demand = BY_DEFAULT,
    degree: int = AUTOMATIC_DEGREE,
) -> Choice:
    """Rank rows, which are taken to serve the problem; `digests` has one row of bytes per identity.

    For a `degree` of more than one only kernels that split their reduction are in the order.
    """
    told = forecast(table, problem, arch, demand, degree)
    rows = np.flatnonzero(told.slices > 1) if degree > 1 else np.arange(len(table))
    told = told.take(rows)
    admitted = demand.admits(told.expected_ulps, told.deterministic)
    words = np.pad(digests, ((0, 0), (0, -digests.shape[1] % 8))).view(">u8")[rows]
    order: Ints = np.lexsort((*words.T[::-1], np.round(told.clk, 3), ~admitted))
    return Choice(rows[order], told.take(order), admitted[order])
