"""Which kernels of a table serve a problem, and why the others do not.

A kernel that is launched on a problem it does not serve computes wrong numbers without an error, so every capability
of an identity is compared by the serving rules of its family. The rules work on whole columns, in the narrow types
that the table stores, and judge a column with one value once: 300,000 rows take a few milliseconds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable, RowIndex
from grids.families import families
from grids.family import Family
from grids.served import Mask, ServedRows, ServingRule

#: What is asked of every family before its own rules.
ASKED = {
    "S_family": "the kernel is of a family that this release does not have",
    "S_direction": "the kernel computes another direction",
    "S_step": "the kernel is one step of another kernel's plan and is never run alone",
}
#: Beyond every reason's position, for a row that no rule has failed.
SERVED = np.uint8(255)


def serving_reasons() -> tuple[str, ...]:
    """Codes of all serving reasons; a verdict is a position here, and position 0 means that the kernel serves."""
    codes = (rule.code for family in families().values() for rule in family.serving)
    return ("", *ASKED, *dict.fromkeys(codes))


def serves(
    table: IdentityTable, problem: ConvProblem, workspace_limit: int | None = None
) -> tuple[Mask, npt.NDArray[np.int8]]:
    """Per row, whether the kernel may be launched on the problem, and the position of the first failing reason.

    Positions count in `serving_reasons()`, 0 where the kernel serves. `workspace_limit` in bytes excludes kernels
    that need more. A problem with an empty output is served by no kernel.
    """
    position = {code: number for number, code in enumerate(serving_reasons())}
    codes = np.zeros(len(table), dtype=np.int8)
    for schema, rows, part in table.parts():
        family = families().get(schema.family)
        asked = _asked(family, problem)
        if family is None or asked:
            codes[rows] = position[asked]
            continue
        for code, index in _by_arch(part):
            of_arch = part if isinstance(index, slice) else part.take(index)
            served = ServedRows(of_arch, part.vocab["arch"][code], problem, workspace_limit)
            verdict = _first_failing(family.serving, served, position)
            codes[_composed(rows, index)] = verdict
    return codes == 0, codes


def _asked(family: Family | None, problem: ConvProblem) -> str:
    """The reason for which no kernel of a family can serve, "" where its rules decide."""
    if family is None:
        return "S_family"
    if family.direction != problem.direction:
        return "S_direction"
    return "S_step" if family.is_step else ""


def _first_failing(rules: tuple[ServingRule, ...], rows: ServedRows, position: dict[str, int]) -> npt.NDArray[np.int8]:
    first = np.full(len(rows.table), SERVED, dtype=np.uint8)
    for number, rule in enumerate(rules, start=1):
        mask = rule.fails(rows)
        if mask.size == 1 and not mask[0]:
            continue
        # Number where a row fails, 255 elsewhere: without branches, since random masks defeat branch prediction.
        np.minimum(first, (mask.view(np.uint8) - np.uint8(1)) | np.uint8(number), out=first)
    place = np.zeros(256, dtype=np.int8)
    place[1 : len(rules) + 1] = [position[rule.code] for rule in rules]
    verdict: npt.NDArray[np.int8] = place[first]
    return verdict


def _by_arch(table: IdentityTable) -> list[tuple[int, RowIndex]]:
    """Where the rows of each architecture stand; a cache has one."""
    if len(table.vocab["arch"]) == 1:
        return [(0, slice(None))]
    column = table.columns["arch"]
    return [(int(code), np.flatnonzero(column == code)) for code in np.unique(column)]


def _composed(rows: RowIndex, index: RowIndex) -> RowIndex:
    if isinstance(index, slice):
        return rows
    return index if isinstance(rows, slice) else rows[index]
