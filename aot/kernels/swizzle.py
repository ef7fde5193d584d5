"""LDS tiles without a pad: 16-byte (or 8-byte) granules of a row change places so that a column of granules does not
fall into one bank.

Granule g of row r stands at g xor f(r), where f takes consecutive values on consecutive bank lines (128 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.values import Value

LINE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Swizzle:
    """f(r) = (r >> row_shift) & mask, in granules of `granule` elements; mask 0 leaves the tile as it is."""

    granule: int
    row_shift: int
    mask: int

    @property
    def period(self) -> int:
        """Rows after which f repeats."""
        return (self.mask + 1) << self.row_shift

    def bits_of_row(self, b: Builder, row: Value) -> Value:
        """f(row), for a row of the tile."""
        return b.and_(b.lshr(row, self.row_shift), self.mask)

    def column(self, b: Builder, col: Value, row_bits: Value) -> Value:
        """The column where element `col` of a row with these bits stands, in elements. It is its own inverse."""
        return b.xor(col, b.mul(row_bits, self.granule))


def swizzle(*, cols: int, granule: int, row_period: int, elem_bytes: int) -> Swizzle:
    """The swizzle of rows of `cols` elements whose period divides `row_period` (a power of two)."""
    rows_per_line = max(1, LINE_BYTES // (cols * elem_bytes))
    granules = max(1, min(cols // granule, row_period // rows_per_line))
    return Swizzle(granule, rows_per_line.bit_length() - 1, granules - 1)
