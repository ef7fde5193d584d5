"""All candidates of a family as columns: the product of its axes, before any rule.

Nothing is looped per candidate. A family is a table of geometries times a table of the remaining axes; every geometry
row is repeated, every inner row is tiled, and policies and capabilities are computed on the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.errors import UnknownValueError
from cache_schema.identity import IMPLICIT_GEMM, REDUCE, Identity
from cache_schema.problem import DTYPES, ELEM_BYTES
from cache_schema.table import ColumnSource, IdentityTable, concat
from grids import geometry, policies
from grids.axes import AxisValue, FamilyAxes, load_axes
from grids.families import FAMILIES, Family, select
from grids.probe import PROBE_CHANNELS
from grids.targets import Target, target

Column = npt.NDArray[Any]

GEOMETRY_AXES = ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_tile")
#: What a split kernel records: any degree above one, chosen at launch.
RUNTIME_SPLIT = 2


def candidates(arch: str, dtype: str, direction: str, axes: Mapping[str, FamilyAxes] | None = None) -> IdentityTable:
    """Every candidate of one direction, families in order. `UnknownValueError` for an unknown name."""
    values = load_axes() if axes is None else axes
    return concat([family_candidates(arch, dtype, family, values[family.name]) for family in select([direction])])


def family_candidates(arch: str, dtype: str, family: Family, axes: FamilyAxes) -> IdentityTable:
    """Every candidate of one family: geometries in axis order, inside them the inner axes in axis order."""
    gpu = target(arch)
    if dtype not in DTYPES:
        raise UnknownValueError("dtype", dtype, DTYPES)
    if family.name == "reduce":
        replicas = [reduce_identity(arch, dtype, int(count)) for count in axes["ws_replicas"]]
        return IdentityTable.from_identities([*replicas, fix_up_identity(arch, dtype)])
    tiles = geometries(gpu, dtype, axes)
    inner = _inner_rows({name: values for name, values in axes.items() if name not in GEOMETRY_AXES})
    geometry_count, inner_count = len(tiles["tile_m"]), len(inner["epilogue"])
    rows = _Rows(
        {name: np.repeat(column, inner_count) for name, column in tiles.items()}
        | {name: np.tile(column, geometry_count) for name, column in inner.items()},
        {name: axes[name] for name in ("pipeline", "epilogue", "k_loop")},
    )
    columns: dict[str, ColumnSource] = {
        "arch": arch,
        "direction": family.direction,
        "algorithm": IMPLICIT_GEMM,
        "dtype_a": dtype,
        "dtype_b": dtype,
        "dtype_d": dtype,
        "wave_size": gpu.wave_size,
        "grouped": True,
        "warp_tile_m": rows["warp_tile"],
        "warp_tile_n": rows["warp_tile"],
        "pipeline": (rows["pipeline"], [str(word) for word in axes["pipeline"]]),
        "epilogue": (rows["epilogue"], [str(word) for word in axes["epilogue"]]),
        "unroll_k": rows.flag("k_loop", "unroll_k"),
        "async_dma": rows.flag("k_loop", "async_dma"),
    }
    columns |= {name: rows[name] for name in ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_tile_k")}
    columns |= {name: rows[name] for name in ("group_merge", "ws_replicas", "max_sub_gemms") if name in axes}
    columns |= _FAMILY_COLUMNS[family.name](gpu, dtype, rows)
    return IdentityTable.from_columns(geometry_count * inner_count, columns)


def reduce_identity(arch: str, dtype: str, replicas: int) -> Identity:
    """The second stage of every two-stage kernel with this dW and this many replicas."""
    return Identity(arch, "wgrad", REDUCE, dtype, dtype, dtype, wave_size=target(arch).wave_size, ws_replicas=replicas)


def fix_up_identity(arch: str, dtype: str) -> Identity:
    """The second step of every stream-K kernel with this dW."""
    return Identity(arch, "wgrad", REDUCE, dtype, dtype, dtype, wave_size=target(arch).wave_size, stream_k=True)


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


class _Rows:
    """The columns of one family's candidates: narrow as stored, or wide for arithmetic; text as codes into the axes."""

    def __init__(self, columns: Mapping[str, Column], words: Mapping[str, Sequence[AxisValue]]) -> None:
        self._columns, self._words = columns, words

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def wide(self, name: str) -> Column:
        return self._columns[name].astype(np.int32)

    def flag(self, axis: str, word: str) -> Column:
        """Where a text axis has this value."""
        words = self._words[axis]
        mask: Column = self._columns[axis] == (words.index(word) if word in words else -1)
        return mask

    def accumulators(self, gpu: Target) -> Column:
        return geometry.accumulators_per_lane(
            tile_m=self.wide("tile_m"),
            tile_n=self.wide("tile_n"),
            warp_m=self.wide("warp_m"),
            warp_n=self.wide("warp_n"),
            wave_size=gpu.wave_size,
        )

    def threads(self, gpu: Target) -> Column:
        return geometry.block_threads(warp_m=self.wide("warp_m"), warp_n=self.wide("warp_n"), wave_size=gpu.wave_size)


def _forward_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    chunks = _async_chunks(gpu, dtype, rows, k_outer=False)
    return {
        "vector_size_a": rows["vector_size_a"],
        "vector_size_b": rows["vector_size_a"],
        "vector_size_c": rows["vector_size_c"],
        **chunks,
    }


def _tilde_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    k_outer = policies.default_lds_k_outer(
        gpu,
        dtype,
        "dgrad",
        edge_m=rows["warp_tile"],
        edge_n=rows["warp_tile"],
        vec_b=rows["vector_size_b"],
        wavelet=rows.flag("pipeline", "wavelet"),
    )
    uniform = policies.default_uniform_k_decode(accumulators=rows.accumulators(gpu))
    return {**_backward_widths(rows), "lds_k_outer": k_outer, "uniform_k_decode": uniform}


def _stride1_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    ones: dict[str, ColumnSource] = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
    return _tilde_columns(gpu, dtype, rows) | ones


def _nonsplit_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    return _wgrad_columns(gpu, dtype, rows, rows["vector_size_a"], rows["vector_size_b"]) | _backward_widths(rows)


def _atomic_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    return _nonsplit_columns(gpu, dtype, rows) | {"split_k": RUNTIME_SPLIT}


def _two_stage_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    return _atomic_columns(gpu, dtype, rows) | {"two_stage": True}


def _stream_k_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    return _nonsplit_columns(gpu, dtype, rows) | {"stream_k": True, "prefetch_addr": False}


def _merged_columns(gpu: Target, dtype: str, rows: _Rows) -> dict[str, ColumnSource]:
    # The channels of merged groups stand side by side, so the merge degree is the run that a load may span.
    merged = np.minimum(rows["group_merge"], 8)
    return _wgrad_columns(gpu, dtype, rows, merged, merged) | {"split_k": RUNTIME_SPLIT, "two_stage": True}


def _wgrad_columns(gpu: Target, dtype: str, rows: _Rows, vec_a: Column, vec_b: Column) -> dict[str, ColumnSource]:
    edge = rows["warp_tile"]
    k_outer = policies.default_lds_k_outer(
        gpu, dtype, "wgrad", edge_m=edge, edge_n=edge, vec_b=vec_b, wavelet=rows.flag("pipeline", "wavelet")
    )
    threads, tile_k = rows.threads(gpu), rows.wide("tile_k")
    chunks = [
        _loads_per_thread(tile_k, rows.wide(free), threads, vec.astype(np.int32))
        for free, vec in (("tile_m", vec_a), ("tile_n", vec_b))
    ]
    prefetch = policies.default_prefetch_addr(
        accumulators=rows.accumulators(gpu), threads=threads, chunks_a=chunks[0], chunks_b=chunks[1]
    )
    return {
        "lds_k_outer": k_outer,
        "prefetch_addr": prefetch,
        **_async_chunks(gpu, dtype, rows, k_outer=True),
    }


def _loads_per_thread(tile_k: Column, tile_free: Column, threads: Column, request: Column) -> Column:
    width = geometry.clamped_width(rows=tile_k, cols=tile_free, threads=threads, request=request)
    return geometry.loader_chunks(rows=tile_k, cols=tile_free, threads=threads, vec=np.maximum(width, 1))


def _backward_widths(rows: _Rows) -> dict[str, ColumnSource]:
    """Stores are as wide as B loads (both run along cpg), one element under the default epilogue."""
    stores = np.where(rows.flag("epilogue", "cshuffle"), rows["vector_size_b"], 1)
    return {
        "vector_size_a": rows["vector_size_a"],
        "vector_size_b": rows["vector_size_b"],
        "vector_size_c": stores.astype(np.uint8),
    }


def _async_chunks(gpu: Target, dtype: str, rows: _Rows, *, k_outer: bool) -> dict[str, ColumnSource]:
    """Elements per direct-to-LDS load of A and B, 0 where loads go through registers or no chunk fits."""
    is_async = rows.flag("k_loop", "async_dma")
    if not is_async.any():
        return {}
    threads, tile_k = rows.threads(gpu), rows.wide("tile_k")
    columns: dict[str, ColumnSource] = {}
    for name, free in (("async_chunk_a", rows.wide("tile_m")), ("async_chunk_b", rows.wide("tile_n"))):
        tile = (tile_k, free) if k_outer else (free, tile_k)
        chunk = geometry.async_chunk(
            rows=tile[0],
            cols=tile[1],
            threads=threads,
            run=PROBE_CHANNELS,
            dwords=gpu.async_dwords,
            elem_bytes=ELEM_BYTES[dtype],
        )
        columns[name] = chunk * is_async
    return columns


_FAMILY_COLUMNS = {
    "implicit_gemm": _forward_columns,
    "tilde": _tilde_columns,
    "stride1": _stride1_columns,
    "nonsplit": _nonsplit_columns,
    "atomic": _atomic_columns,
    "two_stage": _two_stage_columns,
    "merged": _merged_columns,
    "stream_k": _stream_k_columns,
}
assert {*_FAMILY_COLUMNS, "reduce"} == set(FAMILIES)


def _inner_rows(axes: FamilyAxes) -> dict[str, Column]:
    """The product of the axes inside a geometry; text axes as codes into their values."""
    parts = [
        np.arange(len(values), dtype=np.int8) if isinstance(values[0], str) else np.array(values, dtype=np.uint8)
        for values in axes.values()
    ]
    inner = _product(parts, tuple(axes))
    loops, pipelines = axes["k_loop"], axes["pipeline"]
    if "async_dma" in loops:
        # The direct-to-LDS loop has its own schedule; it is listed once, under mem.
        mem = pipelines.index("mem") if "mem" in pipelines else -1
        keep = (inner["k_loop"] != loops.index("async_dma")) | (inner["pipeline"] == mem)
        inner = {name: column[keep] for name, column in inner.items()}
    return inner


def _product(parts: Sequence[Column], names: Sequence[str]) -> dict[str, Column]:
    grids = np.meshgrid(*parts, indexing="ij")
    return {name: np.ascontiguousarray(grid).reshape(-1) for name, grid in zip(names, grids, strict=True)}
