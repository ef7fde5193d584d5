"""Where the chunks of the next K tile are in a backward-weights kernel, k = (n, ho, wo).

A is dY, dense: the row of k starts at k * K, so a thread's lane offsets walk in even steps. They walk themselves, not a
scalar offset beside them: rows behind the last pixel and columns behind the last channel have to be out of bounds by
what every reading of the range check counts, since a number that is no zero would meet the zeros of X. B is X: its
rows are output pixels, carried per row of a thread as mixed-radix counters (image row, image column, byte offset of
what tap (0, 0) meets), its columns are n = (y, x, c), decoded once. A chunk of B is in the image or out of bounds by
two comparisons; nothing is divided in the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aot.ir.builder import Builder
from aot.ir.flavor import Flavor
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_resource
from aot.ir.values import Value, constant
from aot.kernels.counter import NOWHERE, OFFSET
from aot.kernels.streams import View
from aot.kernels.wgrad_arguments import K_COUNTER, K_HO, K_WO, N_CPG, N_X

Args = Mapping[str, Value]

#: What the loop reads of the arguments: fetched in front of it.
_LOOP_ARGUMENTS = (
    "p_sH", "p_Hi", "p_Wi", "k_h_step", "k_w_step", "k_h_end", "k_w_end", "k_h_extent", "k_w_extent", "k_step_bytes",
    "k_h_carry_bytes", "k_w_carry_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A chunk's place in the filter: dilated row and column of its tap, and their byte offset with the channel's.

    The row is NOWHERE behind the last column of the product.
    """

    y: Value  # image rows from tap (0, 0)
    x: Value  # image columns from it
    start_bytes: Value


def decoded_column(b: Builder, args: Args, n: Value, elem_bytes: int) -> Column:
    """Column n of the product -> (y, x, c)."""
    tap, c = N_CPG.of(args).divmod(b, n)
    y, x = N_X.of(args).divmod(b, tap)
    start = b.add(b.mul(y, args["b_y_bytes"]), b.mul(x, args["b_x_bytes"]))
    inside = b.icmp("slt", n, args["p_wg_N"])
    return Column(
        b.select(inside, b.mul(y, args["p_dH"]), NOWHERE),
        b.mul(x, args["p_dW"]),
        b.add(start, b.mul(c, elem_bytes)),
    )


class PixelChunk(NamedTuple):
    """A chunk of B: the number of its row among those of the thread, and that of its column or what is known of it."""

    row: int
    column: int | Column


@dataclass(frozen=True, slots=True)
class PixelWalk:
    """What a stream starts from: this thread's rows and columns, and this workgroup's first elements."""

    flavor: Flavor
    tile_k: int  # pixels
    elem_bytes: int
    a_places: tuple[tuple[Value, Value], ...]  # row and column of this thread's chunks of A that are carried
    b_rows: tuple[Value, ...]  # numbers of this thread's rows in the tile of B
    a_start_bytes: Value  # of the first row of the product in a pixel of dY
    b_group_bytes: Value  # of the first channel of the group in a pixel of X
    columns: tuple[Column, ...]  # of this thread's chunks of one row of B; none where they are stepped through
    first_k: Value  # pixel where the workgroup's slice begins
    prefetches_addresses: bool


class PixelStream:
    """State: k left, offsets of A, (image row, image column, offset) per row of B, offsets per chunk of B if addresses
    are prefetched. An entry of A is the number of a place; places behind the last that is carried follow it row by row.
    """

    def __init__(self, b: Builder, args: Args, walk: PixelWalk) -> None:
        self.b, self.walk = b, walk
        self.args = {name: args[name] for name in _LOOP_ARGUMENTS}
        self.a_resource = buffer_resource(b, walk.flavor, args["A"], args["A_bytes"])
        self.b_resource = buffer_resource(b, walk.flavor, args["B"], args["B_bytes"])
        pixel_bytes = b.mul(args["p_K"], walk.elem_bytes)
        self.pixel_bytes, self.a_step_bytes = pixel_bytes, b.mul(pixel_bytes, walk.tile_k)
        start = b.add(b.mul(walk.first_k, pixel_bytes), walk.a_start_bytes)
        self._start = [
            b.sub(args["p_wg_K"], walk.first_k),
            *(b.add(b.add(b.mul(row, pixel_bytes), b.mul(col, walk.elem_bytes)), start) for row, col in walk.a_places),
            *(word for row in walk.b_rows for word in self._pixel(args, b.add(walk.first_k, row))),
        ]

    def _pixel(self, args: Args, k: Value) -> list[Value]:
        """What tap (0, 0) meets at output pixel k: image coordinates, and a byte offset that may be negative."""
        b = self.b
        line, wo = K_WO.of(args).divmod(b, k)
        image, ho = K_HO.of(args).divmod(b, line)
        start = b.add(b.mul(image, args["b_n_bytes"]), b.mul(ho, args["b_ho_bytes"]))
        start = b.sub(b.add(start, b.mul(wo, args["b_wo_bytes"])), args["b_origin_bytes"])
        hi = b.sub(b.mul(ho, args["p_sH"]), args["p_pH"])
        return [hi, b.sub(b.mul(wo, args["p_sW"]), args["p_pW"]), start]

    def start(self) -> list[Value]:
        """State of the first tile."""
        return [*self._start, *self._prefetched(self._start)]

    def views(self, state: Sequence[Value]) -> tuple[View[int], View[PixelChunk]]:
        """A and B at the tile of this state."""

        a_offsets, after = state[1 : self._b_start], self._b_start + 3 * len(self.walk.b_rows)
        pixels = [] if self.walk.prefetches_addresses else self._pixels(state)

        def a_offset(number: int) -> Value:
            last = len(a_offsets) - 1
            behind = self.b.mul(self.pixel_bytes, max(0, number - last))
            return self.b.add(a_offsets[min(number, last)], behind)

        def offset(chunk: PixelChunk) -> Value:
            row, column = chunk
            if isinstance(column, Column):
                return self._offset(pixels[row], column)
            if self.walk.prefetches_addresses:
                return state[after + column * len(self.walk.b_rows) + row]
            return self._offset(pixels[row], self.walk.columns[column])

        return (
            View(self.a_resource, constant(0), a_offset),
            View(self.b_resource, self.walk.b_group_bytes, offset),
        )

    def advance(self, state: Sequence[Value]) -> list[Value]:
        """State of the next tile."""
        following = [self.b.sub(state[0], self.walk.tile_k)]
        following += [self.b.add(offset, self.a_step_bytes) for offset in state[1 : self._b_start]]
        for row in range(len(self.walk.b_rows)):
            following += self._next_pixel(*self._row(state, row))
        return [*following, *self._prefetched(following)]

    @property
    def _b_start(self) -> int:
        """Words of the state in front of the rows of B."""
        return 1 + len(self.walk.a_places)

    def _row(self, state: Sequence[Value], number: int) -> tuple[Value, Value, Value]:
        """Image row, image column and offset of a row of B."""
        hi, wi, start = state[self._b_start + 3 * number : self._b_start + 3 * number + 3]
        return hi, wi, start

    def _next_pixel(self, hi: Value, wi: Value, start: Value) -> list[Value]:
        """tile_k pixels on. Images are not counted: behind the last one, k left says so."""
        at, _ = K_COUNTER.advance(self.b, self.args, {"h": hi, "w": wi, OFFSET: start})
        return list(at.values())

    def _pixels(self, state: Sequence[Value]) -> list[tuple[Value, Value, Value]]:
        """The pixels of this thread's rows; behind the last pixel they are nowhere."""
        b, pixels = self.b, []
        for number, row in enumerate(self.walk.b_rows):
            hi, wi, start = self._row(state, number)
            pixels.append((b.select(b.icmp("slt", row, state[0]), hi, NOWHERE), wi, start))
        return pixels

    def _prefetched(self, state: Sequence[Value]) -> list[Value]:
        if not self.walk.prefetches_addresses:
            return []
        pixels = self._pixels(state)
        return [self._offset(pixel, column) for column in self.walk.columns for pixel in pixels]

    def _offset(self, pixel: tuple[Value, Value, Value], column: Column) -> Value:
        """Lane offset of a chunk; out of bounds off the image."""
        b, args, (hi, wi, start) = self.b, self.args, pixel
        inside = b.both(
            b.icmp("ult", b.add(hi, column.y), args["p_Hi"]), b.icmp("ult", b.add(wi, column.x), args["p_Wi"])
        )
        return b.select(inside, b.add(start, column.start_bytes), OUT_OF_BOUNDS)
