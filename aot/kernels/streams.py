"""Where the chunks of the next K tile are: the two ways to walk the reduction axis k = (y, x, c).

Both give, per K tile, a byte offset per chunk of A and B and a scalar offset for all of them, and both carry a state
from tile to tile without a division. Chunks that have no element get an offset that is out of bounds.

* `UniformStream`: the channels of a tap are a whole number of tiles, so tap and channel are scalars. They go into the
  scalar offset; a chunk of A costs two instructions that put its validity bit into the sign of its offset.
* `GeneralStream`: a tile may straddle taps and end beyond the last one. All chunks of a thread share one column, whose
  (y, x, c) is carried as a mixed-radix counter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aot.ir.builder import Builder
from aot.ir.flavor import Flavor
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_resource
from aot.ir.types import I32
from aot.ir.values import Value, constant
from aot.kernels.fragments import ELEM_BYTES
from aot.kernels.magic import Divisor
from aot.kernels.rows import NOWHERE, ImageRow, missing_taps

Args = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Byte offsets of one operand's chunks for one K tile."""

    resource: Value
    chunks: list[Value]
    scalar: Value


class Stream(Protocol):
    """A walk over K tiles."""

    def start(self) -> list[Value]:
        """State of the first tile."""
        ...

    def addresses(self, state: Sequence[Value]) -> tuple[Addresses, Addresses]:
        """Where A and B of the tile of this state are."""
        ...

    def advance(self, state: Sequence[Value]) -> list[Value]:
        """State of the next tile."""
        ...


@dataclass(frozen=True, slots=True)
class Operands:
    """What a workgroup and a thread load, before the first K tile."""

    flavor: Flavor
    tile_k: int
    rows: list[ImageRow]
    a_col: Value  # column of all A chunks of this thread, in elements
    a_group_bytes: Value  # of the first channel of the group
    b_chunks: list[Value]  # byte offset of the thread's weight rows and column, out of bounds from kpg on
    b_col: Value
    b_start_bytes: Value  # of the first weight row of this workgroup


class UniformStream:
    """Tap and channel are scalars. State: scalar offsets of A and B, channel, 31 - tap."""

    def __init__(self, b: Builder, args: Args, operands: Operands) -> None:
        self.b, self.args, self.operands = b, args, operands
        column = b.mul(operands.a_col, ELEM_BYTES)
        self.a_chunks = [b.add(row.start_bytes, column) for row in operands.rows]
        self.missing = missing_taps(b, args, operands.rows)
        # Offsets count from the pixel of tap (0, 0), so that a chunk in the image never has a negative one.
        origin = args["a_origin_bytes"]
        base = b.pure(args["A"].type, f"getelementptr i8, {args['A']}, {b.sub(0, origin)}")
        self.a_resource = buffer_resource(b, operands.flavor, base, b.add(args["A_bytes"], origin))
        self.b_resource = buffer_resource(b, operands.flavor, args["B"], args["B_bytes"])

    def start(self) -> list[Value]:
        return [self.operands.a_group_bytes, self.operands.b_start_bytes, constant(0), constant(31)]

    def addresses(self, state: Sequence[Value]) -> tuple[Addresses, Addresses]:
        b = self.b
        a_scalar, b_scalar, _, shift = state
        chunks = [
            b.or_(chunk, b.and_(b.shl(missing, shift), OUT_OF_BOUNDS))
            for chunk, missing in zip(self.a_chunks, self.missing, strict=True)
        ]
        return Addresses(self.a_resource, chunks, a_scalar), Addresses(
            self.b_resource, self.operands.b_chunks, b_scalar
        )

    def advance(self, state: Sequence[Value]) -> list[Value]:
        b, args, tile_k = self.b, self.args, self.operands.tile_k
        a_scalar, b_scalar, channel, shift = state
        tile_bytes = tile_k * ELEM_BYTES
        following = b.add(channel, tile_k)
        next_tap = b.icmp("eq", following, args["p_cpg"])
        ends_row = b.icmp("ne", b.and_(b.lshr(args["u_row_ends"], shift), 1), 0)
        tap_step = b.select(ends_row, args["u_row_step_bytes"], args["u_tap_step_bytes"])
        return [
            b.add(a_scalar, b.select(next_tap, tap_step, tile_bytes)),
            b.add(b_scalar, tile_bytes),
            b.select(next_tap, 0, following),
            b.sub(shift, b.zext(next_tap, I32)),
        ]


class GeneralStream:
    """Carried counters. State: channel, dilated x, dilated y, byte offset of the tap; scalar offset of B, k left."""

    def __init__(self, b: Builder, args: Args, operands: Operands) -> None:
        self.b, self.args, self.operands = b, args, operands
        self.a_resource = buffer_resource(b, operands.flavor, args["A"], args["A_bytes"])
        self.b_resource = buffer_resource(b, operands.flavor, args["B"], args["B_bytes"])

    def start(self) -> list[Value]:
        b, args = self.b, self.args
        by_cpg = Divisor(args["p_cpg"], args["k_cpg_mult"], args["k_cpg_shift"])
        by_x = Divisor(args["p_X"], args["k_X_mult"], args["k_X_shift"])
        tap, channel = by_cpg.divmod(b, self.operands.a_col)
        y, x = by_x.divmod(b, tap)
        offset = b.add(
            b.add(b.mul(y, args["a_y_bytes"]), b.mul(x, args["a_x_bytes"])), b.mul(channel, ELEM_BYTES)
        )
        return [
            channel,
            b.mul(x, args["p_dW"]),
            b.mul(y, args["p_dH"]),
            b.sub(offset, args["a_origin_bytes"]),
            self.operands.b_start_bytes,
            args["p_K_gemm"],
        ]

    def addresses(self, state: Sequence[Value]) -> tuple[Addresses, Addresses]:
        b, args = self.b, self.args
        _, x, y, offset, b_scalar, left = state
        y = b.select(b.icmp("slt", y, args["g_y_extent"]), y, NOWHERE)
        a_chunks = []
        for row in self.operands.rows:
            inside_h = b.icmp("ult", b.add(row.hi, y), args["p_Hi"])
            inside_w = b.icmp("ult", b.add(row.wi, x), args["p_Wi"])
            inside = b.pure(inside_h.type, f"and {inside_h}, {inside_w.text}")
            a_chunks.append(b.select(inside, b.add(row.start_bytes, offset), OUT_OF_BOUNDS))
        has_k = b.icmp("slt", self.operands.b_col, left)
        b_chunks = [b.select(has_k, chunk, OUT_OF_BOUNDS) for chunk in self.operands.b_chunks]
        return Addresses(self.a_resource, a_chunks, self.operands.a_group_bytes), Addresses(
            self.b_resource, b_chunks, b_scalar
        )

    def advance(self, state: Sequence[Value]) -> list[Value]:
        b, args, tile_k = self.b, self.args, self.operands.tile_k
        channel, x, y, offset, b_scalar, left = state
        channel = b.add(channel, args["g_c_step"])
        carry = b.icmp("sge", channel, args["p_cpg"])
        channel = b.select(carry, b.sub(channel, args["p_cpg"]), channel)
        offset = b.add(offset, args["g_step_bytes"])
        offset = b.add(offset, b.select(carry, args["g_c_carry_bytes"], constant(0)))
        x = b.add(b.add(x, args["g_x_step"]), b.select(carry, args["p_dW"], constant(0)))
        carry = b.icmp("sge", x, args["g_x_extent"])
        x = b.select(carry, b.sub(x, args["g_x_extent"]), x)
        y = b.add(b.add(y, args["g_y_step"]), b.select(carry, args["p_dH"], constant(0)))
        offset = b.add(offset, b.select(carry, args["g_x_carry_bytes"], constant(0)))
        return [channel, x, y, offset, b.add(b_scalar, tile_k * ELEM_BYTES), b.sub(left, tile_k)]
