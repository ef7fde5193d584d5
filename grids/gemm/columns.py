"""All candidates of an implicit-GEMM family as columns: the product of its axes, before any rule.

Nothing is looped per candidate. A family is a table of geometries times a table of the remaining axes; every geometry
row is repeated, every inner row is tiled, and policies and capabilities are computed on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.problem import ELEM_BYTES
from cache_schema.table import ColumnSource, IdentityTable
from grids import geometry, policies
from grids.family import AxisValue, FamilyAxes
from grids.gemm.records import Gemm
from grids.probe import PROBE_CHANNELS
from grids.targets import Target

Column = npt.NDArray[Any]

GEOMETRY_AXES = ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_tile")
#: Widest run of merged groups that one load spans, in elements.
MERGED_WIDTH = 8


class AxisRows:
    """The columns of one family's candidates: narrow as stored, or wide for arithmetic; text as codes into the axes."""

    def __init__(
        self, gpu: Target, dtype: str, columns: Mapping[str, Column], words: Mapping[str, Sequence[AxisValue]]
    ) -> None:
        self.gpu, self.dtype = gpu, dtype
        self._columns, self._words = columns, words

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def wide(self, name: str) -> Column:
        """A column for arithmetic."""
        return self._columns[name].astype(np.int32)

    def flag(self, axis: str, word: str) -> Column:
        """Where a text axis has this value; nowhere without the axis."""
        words = self._words.get(axis, ())
        if axis not in self._columns:
            return np.zeros(len(self._columns["tile_m"]), dtype=np.bool_)
        mask: Column = self._columns[axis] == (words.index(word) if word in words else -1)
        return mask

    @property
    def accumulators(self) -> Column:
        """f32 accumulators of a lane."""
        return geometry.accumulators_per_lane(
            tile_m=self.wide("tile_m"),
            tile_n=self.wide("tile_n"),
            warp_m=self.wide("warp_m"),
            warp_n=self.wide("warp_n"),
            wave_size=self.gpu.wave_size,
        )

    @property
    def threads(self) -> Column:
        """Threads of a workgroup."""
        return geometry.block_threads(
            warp_m=self.wide("warp_m"), warp_n=self.wide("warp_n"), wave_size=self.gpu.wave_size
        )


#: What a family computes beside its axes, by field name.
Derived = Callable[[AxisRows], dict[str, ColumnSource]]


def gemm_candidates(record: type[Gemm], derived: Derived) -> Callable[[Target, str, FamilyAxes], IdentityTable]:
    """The `Family.candidates` of a record: geometries in axis order, inside them the inner axes in axis order."""

    def candidates(gpu: Target, dtype: str, axes: FamilyAxes) -> IdentityTable:
        tiles = geometries(gpu, dtype, axes)
        inner = _inner_rows({name: values for name, values in axes.items() if name not in GEOMETRY_AXES})
        geometry_count, inner_count = len(tiles["tile_m"]), len(inner["epilogue"])
        rows = AxisRows(
            gpu,
            dtype,
            {name: np.repeat(column, inner_count) for name, column in tiles.items()}
            | {name: np.tile(column, geometry_count) for name, column in inner.items()},
            axes,
        )
        columns: dict[str, ColumnSource] = {
            "arch": gpu.arch,
            "dtype_a": dtype,
            "dtype_b": dtype,
            "dtype_d": dtype,
            "warp_tile_m": rows["warp_tile"],
            "warp_tile_n": rows["warp_tile"],
            "pipeline": (rows["pipeline"], [str(word) for word in axes["pipeline"]]),
            "epilogue": (rows["epilogue"], [str(word) for word in axes["epilogue"]]),
        }
        if "k_loop" in axes:
            columns |= {"unroll_k": rows.flag("k_loop", "unroll_k"), "async_dma": rows.flag("k_loop", "async_dma")}
        columns |= {name: rows[name] for name in ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_tile_k")}
        columns |= {name: rows[name] for name in ("group_merge", "ws_replicas", "max_sub_gemms") if name in axes}
        columns |= derived(rows)
        return IdentityTable.from_columns(record, geometry_count * inner_count, columns)

    return candidates


def geometries(gpu: Target, dtype: str, axes: FamilyAxes) -> dict[str, Column]:
    """The tile geometries that a target can hold: columns by axis name, and `warp_tile_k`, the atom's reduction."""
    tiles = _product([np.array(axes[name], dtype=np.int32) for name in GEOMETRY_AXES], GEOMETRY_AXES)
    atom_k = {edge: gpu.atom_k(dtype, int(edge)) for edge in axes["warp_tile"]}
    tiles["warp_tile_k"] = np.select([tiles["warp_tile"] == edge for edge in atom_k], list(atom_k.values())).astype(
        np.int32
    )
    accumulators = geometry.accumulators_per_lane(
        tile_m=tiles["tile_m"],
        tile_n=tiles["tile_n"],
        warp_m=tiles["warp_m"],
        warp_n=tiles["warp_n"],
        wave_size=gpu.wave_size,
    )
    keep = (
        (tiles["tile_m"] % (tiles["warp_m"] * tiles["warp_tile"]) == 0)
        & (tiles["tile_n"] % (tiles["warp_n"] * tiles["warp_tile"]) == 0)
        & (accumulators <= geometry.MAX_ACCUMULATORS)
        & (tiles["warp_tile_k"] > 0)
    )
    kept = {name: column[keep] for name, column in tiles.items()}
    whole_atoms = kept["tile_k"] % kept["warp_tile_k"] == 0
    return {name: column[whole_atoms].astype(np.uint16) for name, column in kept.items()}


def forward_columns(rows: AxisRows) -> dict[str, ColumnSource]:
    """Loads of B are as wide as those of A."""
    return {
        "vector_size_a": rows["vector_size_a"],
        "vector_size_b": rows["vector_size_a"],
        "vector_size_c": rows["vector_size_c"],
        **_async_chunks(rows, k_outer=False),
    }


def dgrad_columns(rows: AxisRows) -> dict[str, ColumnSource]:
    """Of both families of backward data."""
    k_outer = policies.default_lds_k_outer(
        rows.gpu, rows.dtype, "dgrad", edge_m=rows["warp_tile"], edge_n=rows["warp_tile"], vec_b=rows["vector_size_b"]
    )
    uniform = policies.default_uniform_k_decode(accumulators=rows.accumulators)
    return {**_backward_widths(rows), "lds_k_outer": k_outer, "uniform_k_decode": uniform}


def wgrad_columns(rows: AxisRows) -> dict[str, ColumnSource]:
    """Of the families of backward weights that keep the groups apart."""
    return _wgrad_columns(rows, rows["vector_size_a"], rows["vector_size_b"]) | _backward_widths(rows)


def stream_k_columns(rows: AxisRows) -> dict[str, ColumnSource]:
    """The K loop starts anew for every output tile, so that addresses of the next K tile are not carried."""
    columns = wgrad_columns(rows)
    del columns["prefetch_addr"]
    return columns


def merged_columns(rows: AxisRows) -> dict[str, ColumnSource]:
    """The channels of merged groups stand side by side, so the merge degree is the run that a load may span."""
    merged = np.minimum(rows["group_merge"], MERGED_WIDTH)
    return _wgrad_columns(rows, merged, merged)


def _wgrad_columns(rows: AxisRows, vec_a: Column, vec_b: Column) -> dict[str, ColumnSource]:
    edge = rows["warp_tile"]
    k_outer = policies.default_lds_k_outer(rows.gpu, rows.dtype, "wgrad", edge_m=edge, edge_n=edge, vec_b=vec_b)
    threads, tile_k = rows.threads, rows.wide("tile_k")
    chunks = [
        _loads_per_thread(tile_k, rows.wide(free), threads, vec.astype(np.int32))
        for free, vec in (("tile_m", vec_a), ("tile_n", vec_b))
    ]
    prefetch = policies.default_prefetch_addr(
        accumulators=rows.accumulators, threads=threads, chunks_a=chunks[0], chunks_b=chunks[1]
    )
    return {"lds_k_outer": k_outer, "prefetch_addr": prefetch, **_async_chunks(rows, k_outer=True)}


def _loads_per_thread(tile_k: Column, tile_free: Column, threads: Column, request: Column) -> Column:
    width = geometry.clamped_width(rows=tile_k, cols=tile_free, threads=threads, request=request)
    return geometry.loader_chunks(rows=tile_k, cols=tile_free, threads=threads, vec=np.maximum(width, 1))


def _backward_widths(rows: AxisRows) -> dict[str, ColumnSource]:
    """Stores are as wide as B loads (both run along cpg), one element under the default epilogue."""
    stores = np.where(rows.flag("epilogue", "cshuffle"), rows["vector_size_b"], 1)
    return {
        "vector_size_a": rows["vector_size_a"],
        "vector_size_b": rows["vector_size_b"],
        "vector_size_c": stores.astype(np.uint8),
    }


def _async_chunks(rows: AxisRows, *, k_outer: bool) -> dict[str, ColumnSource]:
    """Elements per direct-to-LDS load of A and B, 0 where loads go through registers or no chunk fits."""
    is_async = rows.flag("k_loop", "async_dma")
    if not is_async.any():
        return {}
    threads, tile_k = rows.threads, rows.wide("tile_k")
    columns: dict[str, ColumnSource] = {}
    for name, free in (("async_chunk_a", rows.wide("tile_m")), ("async_chunk_b", rows.wide("tile_n"))):
        tile = (tile_k, free) if k_outer else (free, tile_k)
        chunk = geometry.async_chunk(
            rows=tile[0],
            cols=tile[1],
            threads=threads,
            run=PROBE_CHANNELS,
            dwords=rows.gpu.async_dwords,
            elem_bytes=ELEM_BYTES[rows.dtype],
        )
        columns[name] = chunk * is_async
    return columns


def _inner_rows(axes: FamilyAxes) -> dict[str, Column]:
    """The product of the axes inside a geometry; text axes as codes into their values."""
    parts = [
        np.arange(len(values), dtype=np.int8) if isinstance(values[0], str) else np.array(values, dtype=np.uint8)
        for values in axes.values()
    ]
    inner = _product(parts, tuple(axes))
    loops, pipelines = axes.get("k_loop", ()), axes["pipeline"]
    if "async_dma" in loops:
        # The direct-to-LDS loop has its own schedule; it is listed once, under mem.
        mem = pipelines.index("mem") if "mem" in pipelines else -1
        keep = (inner["k_loop"] != loops.index("async_dma")) | (inner["pipeline"] == mem)
        inner = {name: column[keep] for name, column in inner.items()}
    return inner


def _product(parts: Sequence[Column], names: Sequence[str]) -> dict[str, Column]:
    grids = np.meshgrid(*parts, indexing="ij")
    return {name: np.ascontiguousarray(grid).reshape(-1) for name, grid in zip(names, grids, strict=True)}
