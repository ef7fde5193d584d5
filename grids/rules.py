"""Judging tables of identities: the first failing rule of every row.

verdicts = evaluate(table)
table.take(verdicts.buildable), verdicts.reason(7)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cache_schema.problem import ELEM_BYTES
from cache_schema.table import IdentityTable
from grids.families import families, known_family
from grids.rule import VALUES, Mask, Rule
from grids.targets import target


def reason_codes() -> tuple[str, ...]:
    """Codes of the rules of all families; a verdict is a position here, and position 0 means that no rule fails."""
    codes = (rule.code for family in families().values() for rule in family.all_rules)
    return ("", *dict.fromkeys(codes))


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Per row, the position in `reasons` of the first failing published rule and of the first failing builder rule."""

    published: npt.NDArray[np.int16]
    builder: npt.NDArray[np.int16]
    reasons: tuple[str, ...]

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
        return self.reasons[int(self.published[row] or self.builder[row])]

    def counts(self) -> dict[str, int]:
        """Rejected rows by reason code, in rule order."""
        totals = np.bincount(self.codes, minlength=len(self.reasons))
        return {code: int(total) for code, total in zip(self.reasons, totals, strict=True) if code and total}


def evaluate(table: IdentityTable) -> Verdicts:
    """Judge every row of a table by the rules of its family.

    Raises `UnknownValueError` for an architecture that no target describes and for a family that is not known.
    """
    reasons = reason_codes()
    position = {code: number for number, code in enumerate(reasons)}
    verdicts = Verdicts(np.zeros(len(table), dtype=np.int16), np.zeros(len(table), dtype=np.int16), reasons)
    for schema, rows, part in table.parts():
        family = known_family(schema.family)
        for index, arch, dtype, uniform in _uniform(part):
            judged = family.rows(uniform, target(arch), dtype)
            published, builder = (np.zeros(len(uniform), dtype=np.int16) for _ in range(2))
            # Arithmetic of the other rules depends on the size of an element.
            rules = family.all_rules if dtype in ELEM_BYTES else ()
            builder[:] = 0 if rules else position[VALUES.code]
            # Last rule first, so that the first failing rule is what stays; impossible values fail quietly.
            with np.errstate(divide="ignore", invalid="ignore"):
                for rule in reversed(rules):
                    np.copyto(
                        builder if rule.builder else published,
                        np.int16(position[rule.code]),
                        where=np.logical_not(rule.holds(judged)),
                    )
            place = index if isinstance(rows, slice) else rows[index]
            verdicts.published[place], verdicts.builder[place] = published, builder
    return verdicts


def _uniform(table: IdentityTable) -> Iterator[tuple[slice | npt.NDArray[np.intp], str, str, IdentityTable]]:
    """Split the rows of one family by architecture and dtype; those that have only one of each are not copied."""
    keys = ("arch", "dtype_a")
    if all(len(table.vocab[key]) == 1 for key in keys):
        yield slice(None), table.vocab["arch"][0], table.vocab["dtype_a"][0], table
        return
    combined = table.columns["arch"].astype(np.int32) * len(table.vocab["dtype_a"]) + table.columns["dtype_a"]
    for code in np.unique(combined):
        index = np.flatnonzero(combined == code)
        arch, dtype = divmod(int(code), len(table.vocab["dtype_a"]))
        yield index, table.vocab["arch"][arch], table.vocab["dtype_a"][dtype], table.take(index)


def rule_of(code: str) -> Rule | None:
    """The rule of this code, None when there is none."""
    return next((rule for family in families().values() for rule in family.all_rules if rule.code == code), None)
