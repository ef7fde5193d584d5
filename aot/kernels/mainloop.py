"""The K loops. Each runs a stream of K tiles through LDS into accumulators.

| schedule | LDS tiles | order of one tile |
|---|---|---|
| mem | 1 | load, store, barrier, multiply, barrier |
| compv3, compv4 | 1 | store, barrier, load the next tile into registers, multiply, barrier |
| unroll_k of mem | 2 | load and store the next tile, multiply, barrier |
| unroll_k of compv3, compv4 | 2 | load the next tile into registers, multiply, store it, barrier |
| async_dma | 2 | wait for the tile, barrier, start the next tile, multiply at raised priority |

compv3 has the scheduler group the LDS reads and matrix instructions of a step; compv4 has it read a step ahead and runs
at raised priority. Tiles fetched beyond the last one are out of bounds, or the last one again, and never multiplied.
Where registers cannot hold a tile (see `budget`), compv3 and compv4 load and store it before the matrix phase, as mem
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from aot.ir.barriers import lds_barrier
from aot.ir.builder import Builder
from aot.ir.control import Loop
from aot.ir.intrinsics import SCHED_DS_READ, SCHED_MFMA, mfma, sched_group_barrier, set_priority
from aot.ir.lds import Segment
from aot.ir.values import Value, zero
from aot.kernels.fragments import Fragments
from aot.kernels.loaders import DirectLoader, TileLoader
from aot.kernels.streams import A, B, TileWalk, View
from aot.kernels.tile import Tile

Values = list[Value]


@dataclass(frozen=True, slots=True)
class Buffers:
    """LDS segments of one K tile in flight, shared by all waves of the workgroup."""

    a: Segment
    b: Segment


@dataclass(frozen=True, slots=True)
class Multiply:
    """The matrix phase of one K tile, by which a wave adds a.count x b.count fragments to its accumulators, m-major.

    `transposed` results have rows along n and columns along m: a lane then holds runs of columns of one row of D.

    `hints` groups the LDS reads of a step, for the scheduler, in front of its matrix instructions; with `reads_ahead`,
    in front of those of the step before, so that reads are under way while matrix instructions run.
    """

    tile: Tile
    a: Fragments
    b: Fragments
    transposed: bool
    hints: bool
    reads_ahead: bool = False

    def start(self) -> Values:
        """Zero accumulators, m-major."""
        return [zero(self.tile.atom.accumulator)] * (self.a.count * self.b.count)

    def run(self, b: Builder, accumulators: Sequence[Value], buffers: Buffers) -> Values:
        """Accumulators after this tile."""
        result = list(accumulators)
        for step in range(self.tile.steps):
            left = [self.a.read(b, buffers.a, fragment, step) for fragment in range(self.a.count)]
            right = [self.b.read(b, buffers.b, fragment, step) for fragment in range(self.b.count)]
            for index in range(len(result)):
                row, col = divmod(index, self.b.count)
                operands = (right[col], left[row]) if self.transposed else (left[row], right[col])
                result[index] = mfma(b, self.tile.atom, *operands, result[index])
        if self.hints:
            self._hint(b, self.a.count + self.b.count, len(result))
        return result

    def _hint(self, b: Builder, reads: int, products: int) -> None:
        """The order of this phase's instructions."""
        ahead = min(int(self.reads_ahead), self.tile.steps - 1)
        for step in range(-ahead, self.tile.steps):
            if step + ahead < self.tile.steps:
                sched_group_barrier(b, SCHED_DS_READ, reads)
            if step >= 0:
                sched_group_barrier(b, SCHED_MFMA, products)


@dataclass(frozen=True, slots=True)
class Loads(Generic[A, B]):
    """Register-staged loads of both operands."""

    a: TileLoader[A]
    b: TileLoader[B]

    @property
    def batched(self) -> bool:
        """Whether an operand is too large to be held in registers."""
        return self.a.batched or self.b.batched

    def load(self, b: Builder, views: tuple[View[A], View[B]]) -> tuple[Values, Values]:
        """Issue the loads of a tile, as far as registers hold it."""
        return self.a.load(b, views[0]), self.b.load(b, views[1])

    def store(self, b: Builder, staged: tuple[Values, Values], buffers: Buffers) -> None:
        """Write the loaded tile to LDS."""
        self.a.store(b, staged[0], buffers.a)
        self.b.store(b, staged[1], buffers.b)

    def move(self, b: Builder, views: tuple[View[A], View[B]], buffers: Buffers) -> None:
        """Load a tile and write it to LDS."""
        staged = self.load(b, views)
        self.a.move(b, views[0], buffers.a)
        self.b.move(b, views[1], buffers.b)
        self.store(b, staged, buffers)


def single_buffer(
    b: Builder, stream: TileWalk[A, B], tiles: Value, loads: Loads[A, B], buffers: Buffers, phase: Multiply
) -> Values:
    """mem: nothing is in flight while the matrix phase runs, so it needs the fewest registers."""
    state = stream.start()
    with Loop(b, [tiles, *state, *phase.start()], "k") as loop:
        [left], state, accumulators = split(loop.carried, 1, len(state))
        loads.move(b, stream.views(state), buffers)
        lds_barrier(b)
        accumulators = phase.run(b, accumulators, buffers)
        state = stream.advance(state)
        left = b.sub(left, 1)
        lds_barrier(b)
        loop.repeat_if(b.icmp("sgt", left, 0), [left, *state, *accumulators], accumulators)
    return loop.results


def prefetched(
    b: Builder, stream: TileWalk[A, B], tiles: Value, loads: Loads[A, B], buffers: Buffers, phase: Multiply
) -> Values:
    """compv3 and compv4: the next tile travels to registers while this one is multiplied."""
    assert not loads.batched
    state = stream.start()
    a, w = loads.load(b, stream.views(state))
    state = stream.advance(state)
    with Loop(b, [tiles, *state, *a, *w, *phase.start()], "k") as loop:
        [left], state, a, w, accumulators = split(loop.carried, 1, len(state), len(a), len(w))
        loads.store(b, (a, w), buffers)
        lds_barrier(b)
        a, w = loads.load(b, stream.views(state))
        state = stream.advance(state)
        accumulators = phase.run(b, accumulators, buffers)
        left = b.sub(left, 1)
        lds_barrier(b)
        loop.repeat_if(b.icmp("sgt", left, 0), [left, *state, *a, *w, *accumulators], accumulators)
    return loop.results


def double_buffer(
    b: Builder,
    stream: TileWalk[A, B],
    tiles: Value,
    loads: Loads[A, B],
    buffers: Sequence[Buffers],
    phase: Multiply,
    *,
    store_late: bool,
) -> Values:
    """unroll_k: two tiles per round, one barrier per tile; an odd count leaves in the middle of a round."""
    state = stream.start()
    loads.move(b, stream.views(state), buffers[0])
    state = stream.advance(state)
    lds_barrier(b)
    with Loop(b, [tiles, *state, *phase.start()], "k") as loop:
        [left], state, accumulators = split(loop.carried, 1, len(state))
        for half in (0, 1):
            into, views = buffers[1 - half], stream.views(state)
            staged: tuple[Values, Values] = ([], [])
            if store_late:
                staged = loads.load(b, views)
            else:
                loads.move(b, views, into)
            state = stream.advance(state)
            accumulators = phase.run(b, accumulators, buffers[half])
            left = b.sub(left, 1)
            if half == 0:
                loop.leave_if(b.icmp("slt", left, 1), accumulators)
            if store_late:
                loads.store(b, staged, into)
            lds_barrier(b)
        loop.repeat_if(b.icmp("sgt", left, 0), [left, *state, *accumulators], accumulators)
    return loop.results


def direct(
    b: Builder,
    stream: TileWalk[A, B],
    tiles: Value,
    loaders: tuple[DirectLoader[A], DirectLoader[B]],
    buffers: Sequence[Buffers],
    phase: Multiply,
) -> Values:
    """async_dma: the next tile travels to the other LDS tile while this one is multiplied."""

    def issue(state: Sequence[Value], into: Buffers) -> None:
        a_view, b_view = stream.views(state)
        loaders[0].issue(b, a_view, into.a)
        loaders[1].issue(b, b_view, into.b)

    state = stream.start()
    issue(state, buffers[0])
    state = stream.advance(state)
    with Loop(b, [tiles, *state, *phase.start()], "k") as loop:
        [left], state, accumulators = split(loop.carried, 1, len(state))
        for half in (0, 1):
            lds_barrier(b, vmcnt=0)
            issue(state, buffers[1 - half])
            state = stream.advance(state)
            set_priority(b, 1)
            accumulators = phase.run(b, accumulators, buffers[half])
            set_priority(b, 0)
            left = b.sub(left, 1)
            if half == 0:
                loop.leave_if(b.icmp("slt", left, 1), accumulators)
        loop.repeat_if(b.icmp("sgt", left, 0), [left, *state, *accumulators], accumulators)
    # The tile that was fetched in vain must have landed before its place is used for anything else.
    lds_barrier(b, vmcnt=0)
    return loop.results


def split(values: Sequence[Value], *counts: int) -> list[Values]:
    """Consecutive parts of these lengths, and the rest."""
    parts, start = [], 0
    for count in counts:
        parts.append(list(values[start : start + count]))
        start += count
    return [*parts, list(values[start:])]
