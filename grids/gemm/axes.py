"""The axes that implicit-GEMM families share, and the values of each that the builders know.

Loaders divide by tile extents with shifts: powers of two only. Widths are in elements.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cache_schema.table import IdentityTable
from grids.family import AxisCodes, Choice
from grids.gemm.records import EPILOGUES, PIPELINES

_TILES = (16, 32, 64, 128, 256, 512)
_ALLOWED_WAVES = (1, 2, 4, 8, 16)
WIDTHS = Choice((1, 2, 4, 8), (1, 2, 4, 8))
_ALLOWED_LOOPS = ("plain", "unroll_k", "async_dma")

GEMM_AXES: Mapping[str, Choice] = {
    "tile_m": Choice((16, 32, 64, 128, 256), _TILES),
    "tile_n": Choice((16, 32, 64, 128, 256), _TILES),
    "tile_k": Choice((16, 32, 64), (16, 32, 64, 128)),
    "warp_m": Choice((1, 2, 4, 8), _ALLOWED_WAVES),
    "warp_n": Choice((1, 2, 4, 8), _ALLOWED_WAVES),
    "warp_tile": Choice((16, 32), (16, 32)),
    "epilogue": Choice(EPILOGUES, EPILOGUES),
    "pipeline": Choice(PIPELINES, PIPELINES),
}
#: Every K loop: plain, two-fold and double-buffered, or direct to LDS (listed under the mem pipeline).
EVERY_LOOP = Choice(_ALLOWED_LOOPS, _ALLOWED_LOOPS)
#: One K loop, and others for those who ask.
PLAIN_LOOP = Choice(("plain",), _ALLOWED_LOOPS)
REPLICAS = Choice((8,), (1, 2, 4, 8, 16))


def k_loop_codes(table: IdentityTable) -> tuple[AxisCodes, ...]:
    """The K loop, which two flags say together, as an axis of a breakdown."""
    codes = table.columns["unroll_k"] + 2 * table.columns["async_dma"].astype(np.int8)
    return (("k_loop", codes, ("plain", "unroll_k", "async_dma", "async_dma unroll_k")),)
