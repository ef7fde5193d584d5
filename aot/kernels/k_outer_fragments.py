"""Matrix fragments out of a K-outer LDS tile, by transposing reads.

`ds_read_b64_tr_b16` takes, per group of 16 lanes, a block of 4 rows x 16 columns that lane i reads at row i div 4,
columns (i mod 4) * 4 onwards; lane i gets column i of it, 4 elements along k.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.intrinsics import Atom
from aot.ir.lds import Segment
from aot.ir.types import I16, LDS_PTR, element_of, vector
from aot.ir.values import Value
from aot.kernels.fragments import Lane

#: Lanes that exchange elements, the elements of one read, and what the read takes one for.
GROUP, READ, ELEMENT = 16, 4, I16
_INTRINSIC = "llvm.amdgcn.ds.read.tr16.b64.v4i16"


@dataclass(frozen=True, slots=True)
class KOuterFragments:
    """Fragments of one operand of one wave; rows of the tile lie along the free axis, one per k.

    Lane l gets n elements of column first + fragment * edge + l mod edge from row step * k + (l div edge) * n on. What
    it reads for that is what another lane of its group gets.
    """

    atom: Atom
    count: int
    row_bytes: int  # from row to row of the tile
    lane_bytes: Value  # of what the lane reads for fragment 0, k step 0

    @classmethod
    def prepare(
        cls, b: Builder, atom: Atom, lane: Lane, *, first_col: Value, count: int, row_elems: int
    ) -> KOuterFragments:
        """Fragments 0 .. count - 1 start at columns first_col + fragment * edge; rows have `row_elems` elements."""
        elem_bytes = element_of(atom.operand).bytes
        assert (elem_bytes, atom.operand.lanes % READ) == (ELEMENT.bytes, 0)
        member = b.urem_pow2(lane.outer, GROUP)
        row = b.add(b.mul(lane.inner, atom.operand.lanes), b.udiv_pow2(member, READ))
        col = b.add(first_col, b.mul(b.udiv_pow2(lane.outer, GROUP), GROUP))
        col = b.add(col, b.mul(b.urem_pow2(member, READ), READ))
        start = b.add(b.mul(row, row_elems * elem_bytes, "nuw nsw"), b.mul(col, elem_bytes, "nuw nsw"), "nuw nsw")
        return cls(atom, count, row_elems * elem_bytes, start)

    def read(self, b: Builder, segment: Segment, fragment: int, step: int) -> Value:
        """Fragment number `fragment` at k step `step` of the tile in this segment."""
        kind = vector(READ, ELEMENT)
        b.declare(_INTRINSIC, kind, f"{LDS_PTR}")
        parts = []
        for number in range(self.atom.operand.lanes // READ):
            fixed = (step * self.atom.k + number * READ) * self.row_bytes + fragment * self.atom.edge * ELEMENT.bytes
            pointer = b.offset_pointer(segment.pointer(b, self.lane_bytes), fixed)
            tags = f", {segment.tags}" if segment.tags else ""
            parts.append(b.effect(kind, f"call {kind} @{_INTRINSIC}({pointer}){tags}"))
        if len(parts) == 1:
            return b.bitcast(parts[0], self.atom.operand)
        assert len(parts) == 2
        lanes = ", ".join(f"i32 {lane}" for lane in range(2 * READ))
        joined = b.pure(vector(2 * READ, ELEMENT), f"shufflevector {parts[0]}, {parts[1]}, <8 x i32> <{lanes}>")
        return b.bitcast(joined, self.atom.operand)
