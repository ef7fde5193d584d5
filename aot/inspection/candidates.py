"""Which entries of a cache serve a problem, in order of preference, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.inspection.cache_summary import axes
from aot.runtime.accuracy import BY_DEFAULT, AccuracyError, Demand
from aot.runtime.choose import choose
from aot.runtime.forecast import Forecast, Ints, Mask
from aot.runtime.plan_options import AUTOMATIC_DEGREE
from cache_schema.cache_reader import Cache
from cache_schema.errors import DeliveryError
from cache_schema.problem import ConvProblem
from grids.reasons import deciding_fields, explain
from grids.serving import serves, serving_reasons


class NoCandidateError(DeliveryError):
    """No kernel of the cache serves the problem; `reasons` counts the entries per serving reason."""

    def __init__(self, cache: Cache, reasons: dict[str, int]) -> None:
        self.reasons = reasons
        told = "; ".join(f"{count:,} because of {reason} ({explain(reason)})" for reason, count in reasons.items())
        super().__init__(
            f"none of the {len(cache):,} entries of {cache.path} serves the problem" + (f": {told}" if told else "")
        )


@dataclass(frozen=True)
class Refused:
    """Entries that one serving rule refuses; `fields` breaks them down by what decides it."""

    reason: str
    count: int
    explanation: str
    fields: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Candidates:
    """The answer of a cache to one problem.

    `rows` are entry numbers: those accurate enough for the demand first, of these the best estimate first. In the same
    order are what is forecast of their plans, and which of them meet the demand.
    """

    cache: Cache
    problem: ConvProblem
    rows: Ints
    codes: npt.NDArray[np.int8]
    forecast: Forecast
    admitted: Mask

    @property
    def reasons(self) -> dict[str, int]:
        """Refused entries per serving reason, most frequent first."""
        reasons = serving_reasons()
        counts = np.bincount(self.codes, minlength=len(reasons)).tolist()
        found = [(reasons[code], count) for code, count in enumerate(counts) if code and count]
        return dict(sorted(found, key=lambda pair: -pair[1]))

    @cached_property
    def refused(self) -> list[Refused]:
        """One row per serving reason."""
        found = []
        for reason, count in self.reasons.items():
            table = self.cache.table.take(self.codes == serving_reasons().index(reason))
            varying = axes(table)
            fields = {
                name: varying.get(name) or {str(_value(table.row(0), name)): count} for name in deciding_fields(reason)
            }
            found.append(Refused(reason, count, explain(reason), fields))
        return found


def _value(identity: object, name: str) -> Any:
    return getattr(identity, name)


def find_candidates(
    cache: Cache,
    problem: ConvProblem,
    workspace_limit: int | None = None,
    demand: Demand = BY_DEFAULT,
    degree: int = AUTOMATIC_DEGREE,
) -> Candidates:
    """Ask a cache; the result may have no rows. For more than one slice only kernels that split are asked."""
    mask, codes = serves(cache.table, problem, workspace_limit)
    rows = np.flatnonzero(mask)
    choice = choose(cache.table.take(rows), cache.digests[rows], problem, cache.arch, demand, degree)
    return Candidates(cache, problem, rows[choice.rows], codes, choice.forecast, choice.admitted)


def best_candidate(
    cache: Cache,
    problem: ConvProblem,
    workspace_limit: int | None = None,
    demand: Demand = BY_DEFAULT,
    degree: int = AUTOMATIC_DEGREE,
) -> int:
    """Entry to use when none is asked for; NoCandidateError where none serves, AccuracyError where none is accurate."""
    found = find_candidates(cache, problem, workspace_limit, demand, degree)
    if not len(found.rows):
        raise NoCandidateError(cache, found.reasons)
    if not found.admitted[0]:
        raise AccuracyError(
            f"none of the {len(found.rows):,} entries that serve the problem in {cache.path} is accurate enough; "
            f"the least expected error is {found.forecast.expected_ulps.min():.3g} ulps, "
            f"{int(found.forecast.deterministic.sum()):,} give equal bits in equal runs"
        )
    return int(found.rows[0])
