"""What a rule is, and the rows that it judges.

Two levels. *Published* rules decide what is "admitted", the number that other catalogues report. *Builder* rules add
what the kernel builders need on top; a row that passes both is "buildable", and then it must build.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.problem import ELEM_BYTES
from cache_schema.table import IdentityTable, is_constant
from grids import geometry
from grids.targets import Target

Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

#: Waves that only load, beside the computing ones, in the wavelet pipeline.
WAVELET_LOAD_WAVES = 4


class Rows:
    """Rows of one architecture, direction and dtype as int32 columns by field name, with what rules derive from them.

    A column with one value in all rows has length 1, so that arithmetic on it costs nothing; masks made from such
    columns alone have length 1 too and are broadcast by the caller.
    """

    def __init__(self, table: IdentityTable, target: Target, direction: str, dtype: str) -> None:
        self.table, self.target, self.direction, self.dtype = table, target, direction, dtype
        self._columns: dict[str, Column] = {}

    def __getattr__(self, field: str) -> Column:
        columns = self._columns
        if field not in columns:
            if field not in self.table.columns:
                raise AttributeError(field)
            stored = self.table.columns[field]
            columns[field] = (stored[:1] if is_constant(stored) else stored).astype(np.int32)
        column: Column = columns[field]
        return column

    def text(self, field: str, *words: str) -> Mask:
        """Where a text field has one of these values."""
        codes = [self.table.vocab[field].index(word) for word in words if word in self.table.vocab[field]]
        column = getattr(self, field)
        mask: Mask = np.zeros(column.shape, dtype=np.bool_)
        for code in codes:
            mask = mask | (column == code)
        return mask

    @cached_property
    def cshuffle(self) -> Mask:
        return self.text("epilogue", "cshuffle")

    @cached_property
    def wavelet(self) -> Mask:
        return self.text("pipeline", "wavelet")

    @cached_property
    def is_async(self) -> Mask:
        mask: Mask = self.async_dma == 1
        return mask

    @cached_property
    def atomic(self) -> Mask:
        """Split-K slices added straight into the result."""
        mask: Mask = (self.split_k > 1) & (self.two_stage == 0)
        return mask

    @cached_property
    def threads(self) -> Column:
        """Threads that compute."""
        return geometry.block_threads(warp_m=self.warp_m, warp_n=self.warp_n, wave_size=self.target.wave_size)

    @cached_property
    def launch_threads(self) -> Column:
        """Threads of the launch block: the wavelet pipeline adds loading waves."""
        column: Column = self.threads + WAVELET_LOAD_WAVES * self.target.wave_size * self.wavelet
        return column

    @cached_property
    def accumulators(self) -> Column:
        return geometry.accumulators_per_lane(
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            warp_m=self.warp_m,
            warp_n=self.warp_n,
            wave_size=self.target.wave_size,
        )

    @cached_property
    def tiles_divide(self) -> Mask:
        """Whole matrix instructions fill the share of every wave, and the K tile."""
        mask: Mask = (
            (self.tile_m % (self.warp_m * self.warp_tile_m) == 0)
            & (self.tile_n % (self.warp_n * self.warp_tile_n) == 0)
            & (self.tile_k % self.warp_tile_k == 0)
        )
        return mask

    @cached_property
    def atom_exists(self) -> Mask:
        """The target has this wave size and this matrix instruction for one dtype throughout."""
        exists: Mask = np.zeros((1,), dtype=np.bool_)
        for edge, lengths in self.target.atoms.get(self.dtype, {}).items():
            for length in lengths:
                exists = exists | ((self.warp_tile_m == edge) & (self.warp_tile_k == length))
        one_dtype = self.text("dtype_b", self.dtype) & self.text("dtype_d", self.dtype)
        square = self.warp_tile_m == self.warp_tile_n
        mask: Mask = exists & square & one_dtype & (self.wave_size == self.target.wave_size)
        return mask

    @cached_property
    def tile_exists(self) -> Mask:
        """The tile divides, the workgroup is not too large, and the target has the matrix instruction."""
        mask: Mask = self.tiles_divide & (self.launch_threads <= self.target.max_threads) & self.atom_exists
        return mask

    @cached_property
    def wave32_shape(self) -> Mask:
        """What holds of every kernel on a wave32 target: a small atom and a plain K loop."""
        plain = ~self.is_async & (self.unroll_k == 0) & (self.chiplet_swizzle == 0)
        mask: Mask = (self.warp_tile_m == 16) & plain
        return mask

    @cached_property
    def lds(self) -> geometry.LdsLayout[Column]:
        return geometry.lds_layout(
            self.direction,
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            tile_k=self.tile_k,
            cshuffle=self.cshuffle,
            async_dma=self.async_dma,
            unroll_k=self.unroll_k,
            lds_k_outer=self.lds_k_outer,
            no_alias=(self.cshuffle_no_alias == 1) | self.wavelet,
            elem_bytes=ELEM_BYTES[self.dtype],
            store_bytes=ELEM_BYTES[self.dtype],
        )

    def loads_evenly(self, tile_free: Column, vec: Column) -> Mask:
        """Vectors of this width share a tile of tile_free x tile_k out to the threads without a rest."""
        mask: Mask = geometry.loads_evenly(rows=tile_free, cols=self.tile_k, threads=self.threads, vec=vec)
        return mask

    def stores_evenly(self, vec: Column) -> Mask:
        """Vectors of this width share the output tile out to the threads without a rest."""
        mask: Mask = geometry.stores_evenly(tile_m=self.tile_m, tile_n=self.tile_n, threads=self.threads, vec=vec)
        return mask


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the rule book: a code, the sentence that explains it to people, and what a row must satisfy.

    `builder` marks what is ours beyond the published rules.
    """

    code: str
    sentence: str
    holds: Callable[[Rows], Mask]
    builder: bool = False
