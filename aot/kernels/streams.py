"""Where the chunks of the next K tile are: the two ways to walk the reduction axis k = (y, x, c).

Both turn what is known about a row of A or B into a byte offset for one K tile, add a scalar offset for all rows, and
carry a state from tile to tile without a division. Chunks that have no element get an offset that is out of bounds.

* `UniformStream`: the channels of a tap are a whole number of tiles, so tap and channel are scalars. They go into the
  scalar offset; a chunk of A costs two instructions that put its validity bit into the sign of its offset.
* `GeneralStream`: a tile may straddle taps and end beyond the last one. All chunks of a thread share one column, whose
  (y, x, c) is carried as a mixed-radix counter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from aot.ir.builder import Builder
from aot.ir.flavor import Flavor
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_resource
from aot.ir.values import Value, constant, late
from aot.kernels.arguments import K_COUNTER, K_CPG, K_X
from aot.kernels.counter import NOWHERE, OFFSET
from aot.kernels.rows import ImageRow, Taps, missing_taps

Args = Mapping[str, Value]
#: What a stream knows of a chunk of A, of a chunk of B, and of a chunk of either: one type each per stream.
A = TypeVar("A")
B = TypeVar("B")
E = TypeVar("E")
#: What it knows of a row of A where that is words that a table can hold.
Row = TypeVar("Row", bound="tuple[Value, ...]")


@dataclass(frozen=True, slots=True)
class View(Generic[E]):
    """One operand at one K tile, in bytes: the entry of a chunk gives its lane offset; the scalar offset is added."""

    resource: Value
    scalar: Value  # bytes, equal in all lanes
    offset: Callable[[E], Value]  # bytes, of the lane; out of bounds for a chunk without an element


class TileWalk(Protocol[A, B]):
    """A walk over K tiles: all that a K loop has to know."""

    def start(self) -> list[Value]:
        """State of the first tile."""
        ...

    def views(self, state: Sequence[Value]) -> tuple[View[A], View[B]]:
        """A and B at the tile of this state."""
        ...

    def advance(self, state: Sequence[Value]) -> list[Value]:
        """State of the next tile."""
        ...


class Stream(TileWalk[Row, B], Protocol[Row, B]):
    """A walk for rows of A that are known by entries of `words` words each."""

    words: int

    def entries(self, rows: Sequence[ImageRow]) -> list[Row]:
        """What the loop has to know about rows of A, the same for every thread."""
        ...

    def localised(self, words: tuple[Value, ...]) -> Row:
        """The entry of these words, with all that this thread can add to it in advance: what views take."""
        ...


class MaskedRow(NamedTuple):
    """A row of A where taps are scalars: byte offset of tap (0, 0), localised of the thread's own column there; and a
    word with a bit per tap, set where the tap misses the image."""

    start_bytes: Value
    missing: Value


class PixelRow(NamedTuple):
    """A row of A where taps differ between lanes: byte offset and image coordinates of tap (0, 0)."""

    start_bytes: Value
    h: Value
    w: Value


@dataclass(frozen=True, slots=True)
class Walk:
    """What a stream starts from: the tile's depth, this thread's columns and this workgroup's first elements."""

    flavor: Flavor
    tile_k: int  # elements
    elem_bytes: int
    a_col: Value  # element of k in the tile where all chunks of A that the thread holds begin
    b_col: Value  # and those of B
    a_group_bytes: Value  # of the first channel of the group in a pixel
    b_start_bytes: Value  # of the first weight row of the workgroup


def filter_taps(args: Args) -> Taps:
    """The filter of a forward kernel over its input."""
    return Taps(
        image_h=late(args, "p_Hi"),
        image_w=late(args, "p_Wi"),
        count_h=late(args, "p_Y"),
        count_w=late(args, "p_X"),
        step_h=late(args, "p_dH"),
        step_w=late(args, "p_dW"),
    )


class UniformStream:
    """Tap and channel are scalars. State: scalar offsets of A and B, channel, 31 - tap.

    Entries of B are byte offsets. Channels come out even with the taps, so that nothing is carried: how far a tile
    moves is selected, by scalars.
    """

    words = 2

    def __init__(self, b: Builder, args: Args, walk: Walk) -> None:
        self.b, self.args, self.walk = b, args, walk
        # Offsets count from the pixel of tap (0, 0), so that a chunk in the image never has a negative one.
        origin = args["a_origin_bytes"]
        base = b.pure(args["A"].type, f"getelementptr i8, {args['A']}, {b.sub(0, origin)}")
        self.a_resource = buffer_resource(b, walk.flavor, base, b.add(args["A_bytes"], origin))
        self.b_resource = buffer_resource(b, walk.flavor, args["B"], args["B_bytes"])

    def entries(self, rows: Sequence[ImageRow]) -> list[MaskedRow]:
        missing = missing_taps(self.b, filter_taps(self.args), rows)
        return [MaskedRow(row.start_bytes, taps) for row, taps in zip(rows, missing, strict=True)]

    def localised(self, words: tuple[Value, ...]) -> MaskedRow:
        start, missing = words
        return MaskedRow(self.b.add(start, self.b.mul(self.walk.a_col, self.walk.elem_bytes)), missing)

    def start(self) -> list[Value]:
        return [self.walk.a_group_bytes, self.walk.b_start_bytes, constant(0), constant(31)]

    def views(self, state: Sequence[Value]) -> tuple[View[MaskedRow], View[Value]]:
        b = self.b
        a_scalar, b_scalar, _, shift = state

        def a_offset(row: MaskedRow) -> Value:
            return b.or_(b.and_(b.shl(row.missing, shift), OUT_OF_BOUNDS), row.start_bytes)

        return View(self.a_resource, a_scalar, a_offset), View(self.b_resource, b_scalar, lambda offset: offset)

    def advance(self, state: Sequence[Value]) -> list[Value]:
        b, args, tile_k = self.b, self.args, self.walk.tile_k
        a_scalar, b_scalar, channel, shift = state
        elem_bytes = self.walk.elem_bytes
        tile_bytes = tile_k * elem_bytes
        # The tile behind the last is the last again: no reading of the range check stops a scalar offset.
        last = b.add(self.walk.b_start_bytes, b.mul(b.sub(args["p_K_gemm"], tile_k), elem_bytes))
        following = b.add(channel, tile_k)
        next_tap = b.icmp("eq", following, args["p_cpg"])
        ends_row = b.icmp("ne", b.and_(b.lshr(args["u_row_ends"], shift), 1), 0)
        tap_step = b.select(ends_row, args["u_row_step_bytes"], args["u_tap_step_bytes"])
        return [
            b.add(a_scalar, b.select(next_tap, tap_step, tile_bytes)),
            b.umin(b.add(b_scalar, tile_bytes), last),
            b.select(next_tap, 0, following),
            b.select(next_tap, b.sub(shift, 1), shift),
        ]


class GeneralStream:
    """Carried counters. State: channel, dilated x and y, byte offset of the tap; scalar offset of B, k left.

    Entries of B are byte offsets.
    """

    words = 3

    def __init__(self, b: Builder, args: Args, walk: Walk) -> None:
        self.b, self.args, self.walk = b, args, walk
        self.a_resource = buffer_resource(b, walk.flavor, args["A"], args["A_bytes"])
        self.b_resource = buffer_resource(b, walk.flavor, args["B"], args["B_bytes"])

    def entries(self, rows: Sequence[ImageRow]) -> list[PixelRow]:
        return [PixelRow(row.start_bytes, row.hi, row.wi) for row in rows]

    def localised(self, words: tuple[Value, ...]) -> PixelRow:
        return PixelRow(*words)

    def start(self) -> list[Value]:
        b, args = self.b, self.args
        by_cpg, by_x = K_CPG.of(args), K_X.of(args)
        tap, channel = by_cpg.divmod(b, self.walk.a_col)
        y, x = by_x.divmod(b, tap)
        offset = b.add(b.mul(y, args["a_y_bytes"]), b.mul(x, args["a_x_bytes"]))
        offset = b.add(offset, b.mul(channel, self.walk.elem_bytes))
        return [
            channel,
            b.mul(x, args["p_dW"]),
            b.mul(y, args["p_dH"]),
            b.sub(offset, args["a_origin_bytes"]),
            self.walk.b_start_bytes,
            args["p_K_gemm"],
        ]

    def views(self, state: Sequence[Value]) -> tuple[View[PixelRow], View[Value]]:
        b, args = self.b, self.args
        _, x, y, tap_bytes, b_scalar, left = state
        # Behind the last filter row there is no tap at all.
        y = b.select(b.icmp("slt", y, args["g_y_extent"]), y, NOWHERE)
        has_k = b.icmp("slt", self.walk.b_col, left)
        last_h, last_w = b.sub(args["p_Hi"], 1), b.sub(args["p_Wi"], 1)

        def a_offset(row: PixelRow) -> Value:
            # Signs instead of comparisons: sixteen rows would need more scalar registers for conditions than there are.
            h, w = b.add(row.h, y), b.add(row.w, x)
            outside = b.or_(b.or_(b.or_(h, b.sub(last_h, h)), w), b.sub(last_w, w))
            return b.or_(b.and_(outside, OUT_OF_BOUNDS), b.add(row.start_bytes, tap_bytes))

        def b_offset(offset: Value) -> Value:
            return b.select(has_k, offset, OUT_OF_BOUNDS)

        return View(self.a_resource, self.walk.a_group_bytes, a_offset), View(self.b_resource, b_scalar, b_offset)

    def advance(self, state: Sequence[Value]) -> list[Value]:
        b, args, tile_k = self.b, self.args, self.walk.tile_k
        channel, x, y, tap_bytes, b_scalar, left = state
        at, _ = K_COUNTER.advance(b, args, {"c": channel, "x": x, "y": y, OFFSET: tap_bytes})
        return [*at.values(), b.add(b_scalar, tile_k * self.walk.elem_bytes), b.sub(left, tile_k)]
