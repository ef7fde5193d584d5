"""What a serving rule is, and the rows that it judges beside a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable, is_constant
from grids.geometry import GemmExtents, gemm_extents

Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

NOWHERE: Mask = np.zeros(1, dtype=np.bool_)
EVERYWHERE: Mask = np.ones(1, dtype=np.bool_)


class ServedRows:
    """The rows of one family beside a problem. Columns are as stored, of length 1 where all rows agree; so are masks.

    `workspace_limit` in bytes, None for no limit. `arch` is that of all rows.
    """

    def __init__(self, table: IdentityTable, arch: str, problem: ConvProblem, workspace_limit: int | None) -> None:
        self.table, self.arch, self.problem, self.workspace_limit = table, arch, problem, workspace_limit
        self.gemm: GemmExtents = gemm_extents(problem)
        self.schema = table.schemas[0]

    def __getitem__(self, field: str) -> Column:
        if field not in self.schema.by_name:
            return np.array([self.schema.constants[field]])
        column = self.table.columns[field]
        return column[:1] if is_constant(column) else column

    def text(self, field: str, *words: str) -> Mask:
        """Where a text field has one of these values."""
        vocabulary = self.table.vocab[field]
        if len(vocabulary) == 1:
            return all_or_nothing(vocabulary[0] in words)
        return _is_any(self[field], (vocabulary.index(word) for word in words if word in vocabulary))

    def does_not_divide(self, field: str, run: int) -> Mask:
        """Where a recorded width (0: none) does not divide this run of elements."""
        column = self[field]
        widths = range(1, int(column.max()) + 1)
        widest = max((width for width in widths if run % width == 0), default=0)
        wider: Mask = column > widest
        for width in widths[:widest]:
            if run % width:
                wider |= column == width
        return wider

    def differs(self, field: str, value: int) -> Mask:
        """Where a field is recorded (0: not) and is another value."""
        column = self[field]
        return (column != 0) & (column != value) if column.any() else NOWHERE


@dataclass(frozen=True, slots=True)
class ServingRule:
    """One reason for which a kernel is no answer to a problem: a code, a sentence for people, and where a row fails.

    `fields` are the fields of an identity that decide, for people who ask what was refused.
    """

    code: str
    sentence: str
    fails: Callable[[ServedRows], Mask]
    fields: tuple[str, ...] = ()


def _is_any(column: Column, values: Iterable[int]) -> Mask:
    masks = [column == value for value in values]
    mask: Mask = masks[0] if masks else NOWHERE
    for other in masks[1:]:
        mask |= other
    return mask


def both(left: Mask, right: Mask) -> Mask:
    """Conjunction that skips the work where one side is nowhere."""
    if any(side.size == 1 and not side[0] for side in (left, right)):
        return NOWHERE
    return left & right


def all_or_nothing(flag: bool) -> Mask:
    """The same answer for every row."""
    return EVERYWHERE if flag else NOWHERE


#: Of every family.
DTYPE = ServingRule(
    "S_dtype",
    "the kernel is for another data type",
    lambda r: ~(r.text("dtype_a", r.problem.dtype) & r.text("dtype_b", r.problem.dtype)),
)
