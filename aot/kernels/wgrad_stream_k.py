"""Backward weights in stream-K order: a fixed number of workgroups share the K tiles of all output tiles evenly.

The K tiles of all output tiles stand in a row, those of one output tile next to each other; workgroup w takes the
`share` from w * share on. Where it has all K tiles of an output tile it stores the result. Else it leaves a part, a f32
tile, in a workspace of two places per workgroup: place 1 for a part that begins an output tile, place 0 for one that
does not. A workgroup has at most one of each, because a part that does not begin its tile is the workgroup's first and
one that does is its last. `wgrad_fix_up` then adds up the parts of every output tile that has any, in order.

No place is written twice and none is read that was not written, so nothing has to be zeroed, no workgroup waits for
another, and equal inputs give equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.ir import module
from aot.ir.barriers import wait
from aot.ir.builder import Builder
from aot.ir.control import Loop, if_else
from aot.ir.intrinsics import buffer_resource, buffer_store, not_invariant, set_priority, workgroup_id, workitem_id_x
from aot.ir.types import F32, I64, vector
from aot.ir.values import Value
from aot.kernels.fragments import RUN, result_row
from aot.kernels.place import Place
from aot.kernels.results import Results
from aot.kernels.source import KernelSource
from aot.kernels.wgrad import WgradKernel
from aot.kernels.wgrad_arguments import SK_K_TILES, SK_TILES_M, SK_TILES_N, stream_k_arguments
from aot.kernels.wgrad_output import WORD_BYTES
from grids.gemm.records import Wgrad
from grids.stream_k import PARTS


def emit_stream_k(identity: Wgrad, flavor: str) -> KernelSource:
    """The kernel of one stream-K identity."""
    return _StreamK(identity, flavor, stream_k_arguments()).source()


@dataclass(frozen=True, slots=True)
class _Segment:
    """What a workgroup has of one output tile, in K tiles; all are equal in its lanes but for the place."""

    place: Place
    first_tile: Value  # of the output tile's own
    tiles: Value
    end: Value  # of all that the workgroup has, among those of all output tiles


class _StreamK(WgradKernel):
    """The loop over output tiles around the pieces of every backward-weights kernel."""

    def source(self) -> KernelSource:
        """Per output tile: index maps, K loop, result or part."""
        b, args, identity = self.b, self.args, self.identity
        first = b.mul(workgroup_id(b, "x"), args["sk_share"])
        if identity.pipeline == "compv4":
            set_priority(b, 1)
        with Loop(b, [first], "tile") as loop:
            (at,) = loop.carried
            # Every output tile begins as a kernel does: nothing of the others is worth a register in the K loop.
            thread = self._begin_anew()
            here = self._segment(at, thread)
            phase = self._multiply(thread)
            accumulators = self._pinned(self._reduced(here.place, here.first_tile, here.tiles, phase))
            # A tile that was fetched in vain must have landed before its registers are loaded again.
            wait(b, vmcnt=0)
            here = self._segment(at, self._begin_anew())

            def result() -> Sequence[Value]:
                self._store(here.place, b.const(0), accumulators)
                return []

            def part() -> Sequence[Value]:
                self._leave(here.place, here.first_tile, accumulators)
                return []

            if_else(b, b.icmp("eq", here.tiles, self.args["k_tiles"]), result, part)
            following = b.add(at, here.tiles)
            loop.repeat_if(b.icmp("slt", following, here.end), [following], [])
        return self._rendered(self._pointer_tags)

    def _begin_anew(self) -> Place:
        """Where the thread is, without its output tile; arguments are loaded from here on."""
        b = self.b
        self.args = module.KernelArguments(b, self.arguments, not_invariant(b, module.kernel_arguments(b)))
        return Place.of(
            b, self.tile, self.identity.wave_size, not_invariant(b, workitem_id_x(b, self.tile.threads), "v")
        )

    def _segment(self, at: Value, thread: Place) -> _Segment:
        """The K tiles from `at` on that the workgroup has of one output tile; those stand along n first, then m."""
        b, args = self.b, self.args
        end = b.mul(b.add(workgroup_id(b, "x"), 1), args["sk_share"])
        end = b.select(b.icmp("slt", end, args["sk_iterations"]), end, args["sk_iterations"])
        number, first_tile = SK_K_TILES.of(args).divmod(b, at)
        left, rest = b.sub(end, at), b.sub(args["k_tiles"], first_tile)
        row, n = SK_TILES_N.of(args).divmod(b, number)
        group, m = SK_TILES_M.of(args).divmod(b, row)
        place = replace(thread, first_m=b.mul(m, self.tile.m), first_n=b.mul(n, self.tile.n), group=group)
        return _Segment(place, first_tile, b.select(b.icmp("slt", left, rest), left, rest), end)

    def _leave(self, place: Place, first_tile: Value, accumulators: Sequence[Value]) -> None:
        """Write the part, row by row of the tile."""
        b, tile = self.b, self.tile
        begins = b.select(b.icmp("eq", first_tile, 0), b.const(1), 0)
        number = b.add(b.mul(workgroup_id(b, "x"), PARTS), begins)
        size = tile.m * tile.n * WORD_BYTES
        start = b.mul(b.zext(number, I64), size)
        resource = buffer_resource(b, self.flavor, b.offset_pointer(self.args["W"], start), b.const(size))
        row_bytes = tile.n * WORD_BYTES
        if self.identity.epilogue == "cshuffle":
            # Transposed: a lane has runs of columns of one row.
            row, col = b.add(place.wave_m, place.lane.outer), b.add(place.wave_n, b.mul(place.lane.inner, RUN))
        else:
            row, col = b.add(place.wave_m, b.mul(place.lane.inner, RUN)), b.add(place.wave_n, place.lane.outer)
        lane = b.add(b.mul(row, row_bytes), b.mul(col, WORD_BYTES))
        for fragment_row, fragment_col, accumulator in Results(tile, accumulators, place).fragments():
            fixed = fragment_row * row_bytes + fragment_col * WORD_BYTES
            if self.identity.epilogue == "cshuffle":
                for slot in range(0, accumulator.type.lanes, RUN):
                    value = b.slice(accumulator, slot, RUN)
                    _put(b, value, resource, lane, fixed + result_row(slot) * WORD_BYTES)
            else:
                for slot in range(accumulator.type.lanes):
                    value = b.extract(accumulator, slot)
                    _put(b, value, resource, lane, fixed + result_row(slot) * row_bytes)


def _put(b: Builder, value: Value, resource: Value, lane: Value, fixed: int) -> None:
    assert value.type in (F32, vector(RUN, F32))
    buffer_store(b, value, resource, b.add(lane, fixed, "nuw"))
