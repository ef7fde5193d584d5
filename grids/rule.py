"""What a rule is, and the rows that it judges.

Two levels. *Published* rules decide what is "admitted", the number that other catalogues report. *Builder* rules add
what the kernel builders need on top; a row that passes both is "buildable", and then it must build.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.table import IdentityTable, is_constant
from grids.targets import Target

Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class Rows:
    """Rows of one family, architecture and dtype as int32 columns by field name; what the family fixes is one too.

    A column with one value in all rows has length 1, so that arithmetic on it costs nothing; masks made from such
    columns alone have length 1 too and are broadcast by the caller. Families derive from this what their rules share.
    """

    def __init__(self, table: IdentityTable, target: Target, dtype: str) -> None:
        self.table, self.target, self.dtype = table, target, dtype
        self.schema = table.schemas[0]
        self._columns: dict[str, Column] = {}

    def __getattr__(self, field: str) -> Column:
        columns = self._columns
        if field not in columns:
            if field in self.schema.by_name:
                stored = self.table.columns[field]
                columns[field] = (stored[:1] if is_constant(stored) else stored).astype(np.int32)
            elif isinstance(self.schema.constants.get(field), int):
                columns[field] = np.array([self.schema.constants[field]], dtype=np.int32)
            else:
                raise AttributeError(field)
        column: Column = columns[field]
        return column

    def text(self, field: str, *words: str) -> Mask:
        """Where a text field has one of these values."""
        if field not in self.schema.by_name:
            return np.array([self.schema.constants[field] in words], dtype=np.bool_)
        vocabulary = self.table.vocab[field]
        column = getattr(self, field)
        mask: Mask = np.zeros(column.shape, dtype=np.bool_)
        for code in (vocabulary.index(word) for word in words if word in vocabulary):
            mask = mask | (column == code)
        return mask


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the rule book: a code, the sentence that explains it to people, and what a row must satisfy.

    `holds` takes the rows of the family that has the rule, as the family derives them. `builder` marks what is ours
    beyond the published rules.
    """

    code: str
    sentence: str
    holds: Callable[[Any], Mask]
    builder: bool = False


def known_values(rows: Rows) -> Mask:
    """Where every field has a value that the family's record allows."""
    mask: Mask = np.ones(1, dtype=np.bool_)
    for name, entry in rows.schema.by_name.items():
        if entry.axis is None or entry.kind == "bool":
            continue
        if entry.kind == "str":
            mask = mask & (rows.text(name, *entry.axis.words) if entry.axis.words else True)
        else:
            column = getattr(rows, name)
            mask = mask & (column >= entry.axis.least) & (column <= entry.axis.most)
    return mask


#: Judged for every family, before its own rules: arithmetic of the others relies on it.
VALUES = Rule("V_value", "a field has a value that the family does not allow", known_values, builder=True)
#: Of kernels that are no GEMM, which have one in their rule of the matrix instruction.
ONE_DTYPE = Rule(
    "V_dtype",
    "the operands and the result are of different types",
    lambda r: r.text("dtype_b", r.dtype) & r.text("dtype_d", r.dtype),
    builder=True,
)
