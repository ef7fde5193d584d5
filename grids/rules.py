"""Judging tables of identities: the first failing rule of every row.

verdicts = evaluate(table)
table.take(verdicts.buildable), verdicts.reason(7)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cache_schema.identity import REDUCE
from cache_schema.table import IdentityTable, is_constant
from grids.dgrad_rules import DGRAD_RULES
from grids.forward_rules import FORWARD_RULES
from grids.rule import Mask, Rows, Rule
from grids.targets import target
from grids.wgrad_rules import REDUCE_RULES, WGRAD_RULES

#: By direction, and for kernels that are no GEMM by algorithm.
RULES: dict[str, tuple[Rule, ...]] = {
    "fwd": FORWARD_RULES,
    "dgrad": DGRAD_RULES,
    "wgrad": WGRAD_RULES,
    REDUCE: REDUCE_RULES,
}
#: Reason codes; a verdict is a position in this tuple, and position 0 means that no rule fails.
REASONS: tuple[str, ...] = ("", *(rule.code for rules in RULES.values() for rule in rules))
_POSITION = {code: position for position, code in enumerate(REASONS)}


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Per row, the position in `REASONS` of the first failing published rule and of the first failing builder rule."""

    published: npt.NDArray[np.int16]
    builder: npt.NDArray[np.int16]

    @property
    def admitted(self) -> Mask:
        """Rows that satisfy the published rules."""
        mask: Mask = self.published == 0
        return mask

    @property
    def buildable(self) -> Mask:
        """Rows that satisfy the published rules and our builders' needs."""
        mask: Mask = (self.published | self.builder) == 0
        return mask

    @property
    def codes(self) -> npt.NDArray[np.int16]:
        """Per row the position of the reason for its rejection, published rules first; 0 where it is buildable."""
        return np.where(self.published, self.published, self.builder)

    def reason(self, row: int) -> str:
        """The reason code of one row, "" where it is buildable."""
        return REASONS[int(self.published[row] or self.builder[row])]

    def counts(self) -> dict[str, int]:
        """Rejected rows by reason code, in rule order."""
        totals = np.bincount(self.codes, minlength=len(REASONS))
        return {code: int(total) for code, total in zip(REASONS, totals, strict=True) if code and total}


def evaluate(table: IdentityTable) -> Verdicts:
    """Judge every row of a table of implicit-GEMM identities.

    Raises `UnknownValueError` for an architecture that no target describes.
    """
    verdicts = Verdicts(np.zeros(len(table), dtype=np.int16), np.zeros(len(table), dtype=np.int16))
    for index, rows, rules in _uniform_parts(table):
        for rule in reversed(rules):
            fails = np.logical_not(rule.holds(rows))
            codes = verdicts.builder if rule.builder else verdicts.published
            # Last rule first, so that the first failing rule is what stays.
            if isinstance(index, slice):
                np.copyto(codes, np.int16(_POSITION[rule.code]), where=fails)
            else:
                codes[index[np.broadcast_to(fails, index.shape)]] = _POSITION[rule.code]
    return verdicts


def _uniform_parts(table: IdentityTable) -> Iterator[tuple[slice | npt.NDArray[np.intp], Rows, tuple[Rule, ...]]]:
    """Split a table by architecture, direction, algorithm and dtype; one that has only one of each is not copied."""
    keys = ("arch", "direction", "dtype_a", "algorithm")
    if not len(table):
        return
    if all(len(table.vocab[key]) == 1 or is_constant(table.columns[key]) for key in keys):
        arch, direction, dtype, algorithm = (table.vocab[key][table.columns[key][0]] for key in keys)
        yield slice(None), Rows(table, target(arch), direction, dtype), _rules(direction, algorithm)
        return
    combined = np.zeros(len(table), dtype=np.int32)
    for key in keys:
        combined = combined * len(table.vocab[key]) + table.columns[key]
    for code in np.unique(combined):
        index = np.flatnonzero(combined == code)
        part = table.take(index)
        arch, direction, dtype, algorithm = (table.vocab[key][part.columns[key][0]] for key in keys)
        yield index, Rows(part, target(arch), direction, dtype), _rules(direction, algorithm)


def _rules(direction: str, algorithm: str) -> tuple[Rule, ...]:
    return RULES.get(algorithm, RULES[direction])
