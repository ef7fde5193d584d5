"""Matrix fragments: which elements of an LDS tile a lane feeds to a matrix instruction, and which results it gets.

Lane l of an edge x edge x k instruction holds, of its A operand, row l mod edge and elements (l div edge) * n + j of k
(j < n = edge * k / 64 elements); B likewise with columns for rows. Result slot i of a lane is row
8 * (i div 4) + 4 * (l div edge) + i mod 4, column l mod edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aot.ir.builder import Builder
from aot.ir.intrinsics import Atom
from aot.ir.lds import Segment
from aot.ir.types import element_of
from aot.ir.values import Value
from aot.kernels.swizzle import Swizzle

#: Results of a lane that stand in consecutive rows of a matrix instruction.
RUN = 4


def result_row(slot: int) -> int:
    """Row of a result slot, without the lane's part."""
    return 2 * RUN * (slot // RUN) + slot % RUN


@dataclass(frozen=True, slots=True)
class Lane:
    """The place of lane l in a matrix instruction: its row of A or column of B, and which run along k it holds."""

    outer: Value  # l mod edge: row of A, column of B, column of a plain result
    inner: Value  # l div edge: elements inner * n to inner * n + n - 1 of k; rows of a result from 4 * inner

    @classmethod
    def of(cls, b: Builder, lane: Value, edge: int) -> Lane:
        """The place of lane 0..63."""
        return cls(b.urem_pow2(lane, edge), b.udiv_pow2(lane, edge))


class Fragments(Protocol):
    """The fragments of one operand of one wave: `count` along the free axis, read from a tile in LDS."""

    @property
    def count(self) -> int: ...

    def read(self, b: Builder, segment: Segment, fragment: int, step: int) -> Value:
        """The operand of this lane: fragment number `fragment` at k step `step` of the tile in this segment."""
        ...


@dataclass(frozen=True, slots=True)
class FragmentReader:
    """Reads the fragments of one operand of one wave; the lane's addresses are computed once, in front of the loop.

    The tile has a row per row of A (column of B), along k. Lane l reads n elements of row first + fragment * edge +
    l mod edge from column step * k + (l div edge) * n on, in one access.
    """

    atom: Atom
    count: int
    row_bytes: int  # from row to row of the tile
    lane_bytes: tuple[Value, ...]  # of fragment 0 in the tile; one per k step when the tile is swizzled, else one
    step_bytes: int  # from one k step to the next when there is one lane address

    @classmethod
    def prepare(
        cls,
        b: Builder,
        atom: Atom,
        lane: Lane,
        *,
        first_row: Value,
        count: int,
        row_elems: int,
        tile_k: int,
        swizzle: Swizzle | None,
    ) -> FragmentReader:
        """Addresses of fragments 0 .. count - 1, from rows first_row + fragment * edge on, in rows of `row_elems`."""
        elem_bytes, width = element_of(atom.operand).bytes, atom.operand.lanes
        row = b.add(first_row, lane.outer, "nuw nsw")
        row_start = b.mul(row, row_elems * elem_bytes, "nuw nsw")
        if swizzle is None:
            start = b.add(row_start, b.mul(lane.inner, width * elem_bytes), "nuw nsw")
            return cls(atom, count, row_elems * elem_bytes, (start,), atom.k * elem_bytes)
        assert atom.edge % swizzle.period == 0
        row_bits = swizzle.bits_of_row(b, lane.outer)
        starts = []
        for step in range(tile_k // atom.k):
            col = b.add(b.mul(lane.inner, width), step * atom.k, "nuw nsw")
            starts.append(b.add(row_start, b.mul(swizzle.column(b, col, row_bits), elem_bytes), "nuw nsw"))
        return cls(atom, count, row_elems * elem_bytes, tuple(starts), 0)

    def read(self, b: Builder, segment: Segment, fragment: int, step: int) -> Value:
        """Fragment number `fragment` at k step `step` of the tile in this segment."""
        lane_bytes = self.lane_bytes[step if len(self.lane_bytes) > 1 else 0]
        fixed = fragment * self.atom.edge * self.row_bytes + step * self.step_bytes
        pointer = b.offset_pointer(segment.pointer(b, lane_bytes), fixed)
        return b.load(self.atom.operand, pointer, self.atom.operand.bytes, segment.tags)
