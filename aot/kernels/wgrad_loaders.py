"""Loads of the X tile of a backward-weights kernel: rows are pixels, columns taps and channels.

LDS holds the tile as `k_rows` does: K-outer, or turned on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aot.ir.builder import Builder
from aot.ir.control import Loop
from aot.ir.lds import Segment
from aot.ir.values import Value, constant
from aot.kernels.counter import OFFSET
from aot.kernels.k_rows import KRowStaging
from aot.kernels.loaders import HeldLoader, MovingLoader, chunk_type, load_chunks
from aot.kernels.streams import View
from aot.kernels.wgrad_arguments import N_COUNTER
from aot.kernels.wgrad_streams import Column, PixelChunk

#: What stepping from column to column reads of the arguments: fetched in front of the loop.
_STEP_ARGUMENTS = (
    "p_cpg", "p_dH", "p_dW", "n_c_step", "n_x_step", "n_y_step", "n_x_extent", "n_y_extent", "n_step_bytes",
    "n_c_carry_bytes", "n_x_carry_bytes",
)  # fmt: skip


class PixelLoader(HeldLoader[PixelChunk]):
    """All chunks of a thread pass through registers; the stream knows their columns."""

    def __init__(self, staging: KRowStaging) -> None:
        self.staging = staging

    def load(self, b: Builder, view: View[PixelChunk]) -> list[Value]:
        """Issue all loads of the tile, row by row within a pass."""
        chunks = self.staging.chunks
        entries = (PixelChunk(row, number) for number in range(chunks.passes) for row in range(chunks.run))
        return load_chunks(b, chunk_type(chunks.chunk_bytes), view, entries)

    def store(self, b: Builder, values: Sequence[Value], segment: Segment) -> None:
        """Write the loaded tile to LDS."""
        self.staging.store(b, values, segment, self.staging.lane_bytes)


class SteppingPixelLoader(MovingLoader[PixelChunk]):
    """A loop over batches of passes, each loaded and then written.

    The column of a pass is carried as a mixed-radix counter (y, x, c) from pass to pass.
    """

    def __init__(
        self, args: Mapping[str, Value], staging: KRowStaging, first: Column, channel: Value, limit: int
    ) -> None:
        self.staging, self.batch = staging, max(1, limit // staging.chunks.run)
        self.first, self.channel = first, channel
        self.args = {name: args[name] for name in _STEP_ARGUMENTS}
        assert staging.chunks.passes % self.batch == 0

    def move(self, b: Builder, view: View[PixelChunk], segment: Segment) -> None:
        """Load and write all batches."""
        staging, chunks = self.staging, self.staging.chunks
        rounds = constant(chunks.passes // self.batch)
        start = [rounds, staging.lane_bytes, self.channel, self.first.y, self.first.x, self.first.start_bytes]
        with Loop(b, start, "batch") as loop:
            left, place, channel, y, x, start_bytes = loop.carried
            at, loaded = {"c": channel, "y": y, "x": x, OFFSET: start_bytes}, []
            for _ in range(self.batch):
                column = Column(at["y"], at["x"], at[OFFSET])
                entries = [PixelChunk(row, column) for row in range(chunks.run)]
                loaded += load_chunks(b, chunk_type(chunks.chunk_bytes), view, entries)
                at, _ = N_COUNTER.advance(b, self.args, at)
            staging.store(b, loaded, segment, place)
            left = b.sub(left, 1)
            place = b.add(place, self.batch * staging.pass_bytes)
            loop.repeat_if(b.icmp("ne", left, 0), [left, place, *at.values()], [])
