"""Where a thread is: in its workgroup, wave and matrix instruction, and the workgroup in the problem."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aot.ir.builder import Builder
from aot.ir.intrinsics import lane_id, readfirstlane, workgroup_id, workitem_id_x
from aot.ir.values import Value
from aot.kernels.fragments import Lane
from aot.kernels.tile import Tile


@dataclass(frozen=True, slots=True)
class Place:
    """Numbers of rows and columns, not bytes. Everything but `thread` and `lane` is equal in all lanes of a wave."""

    thread: Value  # in the workgroup
    wave: Value  # in the workgroup
    lane: Lane
    wave_m: Value  # first row of the wave's part of the tile
    wave_n: Value  # first column of it
    first_m: Value  # first row of the tile in the product of its group
    first_n: Value  # first column of it
    group: Value  # of the convolution

    @classmethod
    def of(cls, b: Builder, tile: Tile, wave_size: int, thread: Value | None = None) -> Place:
        """Waves are numbered along n first; group = z, m = y, n = x of the grid."""
        thread = workitem_id_x(b, tile.threads) if thread is None else thread
        wave = wave_of(b, tile, wave_size, thread)
        along_m, along_n = b.udiv_pow2(wave, tile.warp_n), b.urem_pow2(wave, tile.warp_n)
        return cls(
            thread=thread,
            wave=wave,
            lane=lane_of(b, tile, wave_size, thread),
            wave_m=b.mul(along_m, tile.m // tile.warp_m),
            wave_n=b.mul(along_n, tile.n // tile.warp_n),
            first_m=b.mul(workgroup_id(b, "y"), tile.m),
            first_n=b.mul(workgroup_id(b, "x"), tile.n),
            group=workgroup_id(b, "z"),
        )

    @classmethod
    def at(
        cls,
        b: Builder,
        tile: Tile,
        wave_size: int,
        *,
        thread: Value,
        first_m: Value,
        first_n: Value,
        group: Value,
    ) -> Place:
        """The same numbering of waves, in a workgroup whose tile and group the caller knows."""
        wave = wave_of(b, tile, wave_size, thread)
        return cls(
            thread=thread,
            wave=wave,
            lane=lane_of(b, tile, wave_size, thread),
            wave_m=b.mul(b.udiv_pow2(wave, tile.warp_n), tile.m // tile.warp_m),
            wave_n=b.mul(b.urem_pow2(wave, tile.warp_n), tile.n // tile.warp_n),
            first_m=first_m,
            first_n=first_n,
            group=group,
        )

    def found_again(self, b: Builder, tile: Tile, wave_size: int) -> Place:
        """The same place, from scalars and the number of the lane: nothing that a lane has to keep."""
        lane = lane_id(b)
        return replace(self, thread=b.add(b.mul(self.wave, wave_size), lane), lane=Lane.of(b, lane, tile.atom.edge))


def wave_of(b: Builder, tile: Tile, wave_size: int, thread: Value) -> Value:
    """Number of a thread's wave in its workgroup, as a scalar."""
    return readfirstlane(b, b.udiv_pow2(thread, wave_size)) if tile.threads > wave_size else b.const(0)


def lane_of(b: Builder, tile: Tile, wave_size: int, thread: Value) -> Lane:
    """Place of a thread in a matrix instruction of its wave."""
    return Lane.of(b, b.urem_pow2(thread, wave_size) if tile.threads > wave_size else thread, tile.atom.edge)
