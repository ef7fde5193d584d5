"""Where the chunks of the next K tile are in a backward-data kernel, k = (ydot, xdot, k_out) with k_out fastest.

The rows of A are pixels of dY as tap (0, 0) of the sub-GEMM sees them; further taps lie at lower coordinates. The rows
of B are k themselves, and an entry of B is the number of a row among those of the thread.

* `UniformTaps`: K tiles lie inside one tap. Tap and filter are scalars; validity is one bit per tap and row of A.
* `CountedTaps`: a tile may straddle taps and end beyond the last. The column of A and each row of B that a thread has
  carry (k_out, xdot, offset) as mixed-radix counters.

Both address the same elements in the same order, so their results are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.flavor import Flavor
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_resource
from aot.ir.values import Value, at_once, constant
from aot.kernels.counter import NOWHERE, OFFSET, Counter, Digit
from aot.kernels.dgrad_record import SubGemmRecord
from aot.kernels.rows import ImageRow, Taps, missing_taps
from aot.kernels.streams import MaskedRow, PixelRow, View

Args = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class GradientWalk:
    """What a stream starts from: the tile's depth, this thread's places in it, this workgroup's first elements."""

    flavor: Flavor
    record: SubGemmRecord
    tile_k: int  # elements
    elem_bytes: int
    a_col: Value  # element of k in the tile where all chunks of A that the thread holds begin
    a_group_bytes: Value  # of the first channel of the group in a pixel of dY
    b_rows: tuple[Value, ...]  # rows of the weight tile, elements of k, that this thread has
    b_col_bytes: Value  # of the thread's first column of the tile
    b_start_bytes: Value  # of the first filter of the group, the first tap of the record, the first column

    def a_step_bytes(self, b: Builder, args: Args) -> tuple[Value, Value]:
        """Byte distances in dY of a tap row and a tap column; not positive."""
        return (
            b.mul(self.record["a_embed_h_coeff"], args["a_ho_bytes"]),
            b.mul(self.record["a_embed_w_coeff"], args["a_wo_bytes"]),
        )

    def b_step_bytes(self, b: Builder, args: Args) -> tuple[Value, Value]:
        """Byte distances in the weights of a tap row and a tap column."""
        return (
            b.mul(self.record["b_y_stride"], args["b_y_bytes"]),
            b.mul(self.record["b_x_stride"], args["b_x_bytes"]),
        )


class UniformTaps:
    """State: scalar offset of A, scalar part of B's offsets, k_out, xdot, 31 - tap.

    The lanes add the scalar part to the offsets of B: columns behind the last channel of the last filter are behind the
    tensor too, and have to be so by every reading of the range check.
    """

    words = 2

    def __init__(self, b: Builder, args: Args, walk: GradientWalk) -> None:
        self.b, self.args, self.walk = b, args, walk
        record = walk.record
        self.taps_w = record["x_dot_slice"]
        a_row, a_tap = walk.a_step_bytes(b, args)
        b_row, b_tap = walk.b_step_bytes(b, args)
        last_tap_w = b.sub(self.taps_w, 1)
        # Offsets count from the pixel of the last tap, so that a chunk in dY never has a negative one.
        to_last = b.add(b.mul(a_row, b.sub(record["y_dot_slice"], 1)), b.mul(a_tap, last_tap_w))
        self.origin = b.sub(0, to_last)
        base = b.pure(args["A"].type, f"getelementptr i8, {args['A']}, {to_last}")
        self.a_resource = buffer_resource(b, walk.flavor, base, b.add(args["A_bytes"], self.origin))
        self.b_resource = buffer_resource(b, walk.flavor, args["B"], args["B_bytes"])
        filters_back = b.sub(args["p_kpg"], walk.tile_k)
        a_back, b_back = b.mul(filters_back, walk.elem_bytes), b.mul(filters_back, args["b_k_bytes"])
        self.b_tile = b.mul(args["b_k_bytes"], walk.tile_k)
        self.a_tap_step, self.b_tap_step = b.sub(a_tap, a_back), b.sub(b_tap, b_back)
        self.a_row_step = b.sub(b.sub(a_row, b.mul(a_tap, last_tap_w)), a_back)
        self.b_row_step = b.sub(b.sub(b_row, b.mul(b_tap, last_tap_w)), b_back)
        self.b_offsets = [b.add(b.mul(row, args["b_k_bytes"]), walk.b_col_bytes) for row in walk.b_rows]
        self.end = b.sub(31, b.mul(record["y_dot_slice"], self.taps_w))

    def entries(self, rows: Sequence[ImageRow]) -> list[MaskedRow]:
        record = self.walk.record
        taps = Taps(
            image_h=at_once(self.args["p_Ho"]),
            image_w=at_once(self.args["p_Wo"]),
            count_h=at_once(record["y_dot_slice"]),
            count_w=at_once(record["x_dot_slice"]),
            step_h=at_once(record["a_embed_h_coeff"]),
            step_w=at_once(record["a_embed_w_coeff"]),
        )
        missing = missing_taps(self.b, taps, rows)
        return [MaskedRow(row.start_bytes, bits) for row, bits in zip(rows, missing, strict=True)]

    def localised(self, words: tuple[Value, ...]) -> MaskedRow:
        start, missing = words
        return MaskedRow(self.b.add(start, self.b.mul(self.walk.a_col, self.walk.elem_bytes)), missing)

    def start(self) -> list[Value]:
        a_scalar = self.b.add(self.walk.a_group_bytes, self.origin)
        return [a_scalar, self.walk.b_start_bytes, constant(0), constant(0), constant(31)]

    def views(self, state: Sequence[Value]) -> tuple[View[MaskedRow], View[int]]:
        b = self.b
        a_scalar, b_scalar, _, _, shift = state

        def a_offset(row: MaskedRow) -> Value:
            return b.or_(b.and_(b.shl(row.missing, shift), OUT_OF_BOUNDS), row.start_bytes)

        def b_offset(row: int) -> Value:
            return b.add(self.b_offsets[row], b_scalar)

        return View(self.a_resource, a_scalar, a_offset), View(self.b_resource, constant(0), b_offset)

    def advance(self, state: Sequence[Value]) -> list[Value]:
        b, walk = self.b, self.walk
        a_scalar, b_scalar, k_out, x, shift = state
        k_out = b.add(k_out, walk.tile_k)
        next_tap = b.icmp("eq", k_out, self.args["p_kpg"])
        next_x = b.add(x, 1)
        next_row = b.icmp("eq", next_x, self.taps_w)
        a_step = b.select(next_row, self.a_row_step, self.a_tap_step)
        b_step = b.select(next_row, self.b_row_step, self.b_tap_step)
        a_scalar = b.add(a_scalar, b.select(next_tap, a_step, constant(walk.tile_k * walk.elem_bytes)))
        b_scalar = b.add(b_scalar, b.select(next_tap, b_step, self.b_tile))
        # A select stays scalar; a condition as a number may become a lane value, and the scalar offset of A with it.
        shift = b.select(next_tap, b.sub(shift, 1), shift)
        # Behind the last tap every bit says missing; the scalar stays inside its buffer.
        done = b.icmp("eq", shift, self.end)
        return [
            b.select(done, constant(0), a_scalar),
            b_scalar,
            b.select(next_tap, constant(0), k_out),
            b.select(next_tap, b.select(next_row, constant(0), next_x), x),
            shift,
        ]


#: An element of the reduction, (k_out, xdot), from K tile to K tile. What leaves xdot moves ydot, which A has alone.
TAP_COUNTER = Counter(
    steps={"k": "k_step", "x": "x_step", OFFSET: "step_bytes"},
    digits=(
        Digit("k", "k_extent", ((OFFSET, "k_carry_bytes"), ("x", "one"))),
        Digit("x", "x_extent", ((OFFSET, "x_carry_bytes"),)),
    ),
)


def tap_steps(
    b: Builder,
    steps: tuple[Value, Value, Value],
    units: tuple[Value, Value, Value],
    extents: tuple[Value, Value],
) -> dict[str, Value]:
    """What `TAP_COUNTER` reads, as `Counter.values` has it on the host: the radices are those of the record.

    From the digits (y, x, k) of a tile, the byte distances of their units, and the extents of x and k.
    """
    step_y, step_x, step_k = steps
    row, tap, filter_ = units
    return {
        "k_step": step_k,
        "x_step": step_x,
        "step_bytes": b.add(b.add(b.mul(step_y, row), b.mul(step_x, tap)), b.mul(step_k, filter_)),
        "k_extent": extents[1],
        "x_extent": extents[0],
        "k_carry_bytes": b.sub(tap, b.mul(filter_, extents[1])),
        "x_carry_bytes": b.sub(row, b.mul(tap, extents[0])),
        "one": constant(1),
    }


class CountedTaps:
    """State: k left; of A k_out, xdot, ydot, offset; of each row of B k_out, xdot, offset."""

    words = 3

    def __init__(self, b: Builder, args: Args, walk: GradientWalk) -> None:
        self.b, self.args, self.walk = b, args, walk
        record = walk.record
        self.taps_w = record["x_dot_slice"]
        self.a_resource = buffer_resource(b, walk.flavor, args["A"], args["A_bytes"])
        self.b_resource = buffer_resource(b, walk.flavor, args["B"], args["B_bytes"])
        self.a_units = (*walk.a_step_bytes(b, args), constant(walk.elem_bytes))
        self.b_units = (*walk.b_step_bytes(b, args), args["b_k_bytes"])
        taps, k_step = record.by_kpg.divmod(b, constant(walk.tile_k))
        self.y_step, x_step = record.by_x_dot.divmod(b, taps)
        steps, extents = (self.y_step, x_step, k_step), (self.taps_w, args["p_kpg"])
        self.a_counted = tap_steps(b, steps, self.a_units, extents)
        self.b_counted = tap_steps(b, steps, self.b_units, extents)

    def entries(self, rows: Sequence[ImageRow]) -> list[PixelRow]:
        return [PixelRow(row.start_bytes, row.hi, row.wi) for row in rows]

    def localised(self, words: tuple[Value, ...]) -> PixelRow:
        return PixelRow(*words)

    def start(self) -> list[Value]:
        b, record = self.b, self.walk.record
        y, x, k_out = self._digits(self.walk.a_col)
        row, tap, filter_ = self.a_units
        offset = b.add(b.add(b.mul(y, row), b.mul(x, tap)), b.mul(k_out, filter_))
        state = [
            record["gemm_k"],
            k_out,
            x,
            b.mul(y, record["a_embed_h_coeff"]),
            offset,
        ]
        row, tap, filter_ = self.b_units
        for number in self.walk.b_rows:
            y, x, k_out = self._digits(number)
            offset = b.add(b.add(b.mul(y, row), b.mul(x, tap)), b.mul(k_out, filter_))
            state += [k_out, x, b.add(offset, b.add(self.walk.b_col_bytes, self.walk.b_start_bytes))]
        return state

    def _digits(self, k: Value) -> tuple[Value, Value, Value]:
        taps, k_out = self.walk.record.by_kpg.divmod(self.b, k)
        y, x = self.walk.record.by_x_dot.divmod(self.b, taps)
        return y, x, k_out

    def views(self, state: Sequence[Value]) -> tuple[View[PixelRow], View[int]]:
        b, args, walk = self.b, self.args, self.walk
        left, _, x, y, tap_bytes, *rows = state
        # Beyond the reduction there is no tap at all.
        y = b.select(b.icmp("slt", walk.a_col, left), y, NOWHERE)
        x = b.mul(x, walk.record["a_embed_w_coeff"])

        last_h, last_w = b.sub(args["p_Ho"], 1), b.sub(args["p_Wo"], 1)

        def a_offset(row: PixelRow) -> Value:
            # A coordinate below zero or beyond the last sets a sign bit, which replaces that of the offset: the group's
            # scalar cannot wrap it. Conditions would take two scalar registers a chunk, more than there are.
            h, w = b.add(row.h, y), b.add(row.w, x)
            outside = b.or_(b.or_(h, b.sub(last_h, h)), b.or_(w, b.sub(last_w, w)))
            return b.or_(b.and_(outside, OUT_OF_BOUNDS), b.and_(b.add(row.start_bytes, tap_bytes), OUT_OF_BOUNDS - 1))

        def b_offset(row: int) -> Value:
            return b.select(b.icmp("slt", walk.b_rows[row], left), rows[3 * row + 2], OUT_OF_BOUNDS)

        return View(self.a_resource, walk.a_group_bytes, a_offset), View(self.b_resource, constant(0), b_offset)

    def advance(self, state: Sequence[Value]) -> list[Value]:
        b, coefficient = self.b, self.walk.record["a_embed_h_coeff"]
        left, k_out, x, y, offset, *rows = state
        at, carry = TAP_COUNTER.advance(b, self.a_counted, {"k": k_out, "x": x, OFFSET: offset})
        y = carry.move(b, b.add(y, b.mul(self.y_step, coefficient)), coefficient)
        following = [b.sub(left, self.walk.tile_k), at["k"], at["x"], y, at[OFFSET]]
        for first in range(0, len(rows), 3):
            k_out, x, offset = rows[first : first + 3]
            at, _ = TAP_COUNTER.advance(b, self.b_counted, {"k": k_out, "x": x, OFFSET: offset})
            following += at.values()
        return following
