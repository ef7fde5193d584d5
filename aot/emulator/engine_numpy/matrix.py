"""Matrix products in numpy: sequential f32 fused multiply-adds, straight from the lane maps."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from aot.emulator.engine_numpy.ops import fma_f32, fma_f64
from aot.emulator.isa.mfma import MatrixSpec
from aot.emulator.isa.values import LANES, default_nan

Words = npt.NDArray[np.uint32]


@lru_cache(maxsize=64)
def lane_maps(spec: MatrixSpec) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """(block, row, k) of A elements [lane, j] and (block, row, column) of accumulators [lane, i], stacked first."""
    a = np.array([[spec.a_place(lane, j) for j in range(spec.per_lane)] for lane in range(LANES)])
    d = np.array([[spec.d_place(lane, i) for i in range(spec.accumulators)] for lane in range(LANES)])
    return np.moveaxis(a, 2, 0), np.moveaxis(d, 2, 0)


def elements(spec: MatrixSpec, words: Words) -> npt.NDArray[np.generic]:
    """Register words [dword, lane] to elements [lane, j] in the precision of the product."""
    rows = np.ascontiguousarray(words.T)
    if spec.element == "bf16":
        return (rows.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if spec.element == "f16":
        return rows.view(np.float16).astype(np.float32)
    if spec.element == "i8":
        return rows.view(np.int8).astype(np.int32)
    return rows.view(np.float64 if spec.element == "f64" else np.float32)


def multiply(spec: MatrixSpec, a_words: Words, b_words: Words, c_words: Words) -> Words:
    """D as register words, of A, B and C as register words."""
    a_map, d_map = lane_maps(spec)
    a_values, b_values = elements(spec, a_words), elements(spec, b_words)
    a = np.zeros((spec.blocks, spec.m, spec.k), a_values.dtype)
    b = np.zeros((spec.blocks, spec.n, spec.k), b_values.dtype)
    a[a_map[0], a_map[1], a_map[2]] = a_values
    b[a_map[0], a_map[1], a_map[2]] = b_values
    kind = {"f64": np.float64, "i32": np.int32}.get(spec.accumulator, np.float32)
    total = np.ascontiguousarray(c_words.T).view(kind)
    block, row, column = d_map
    for k in spec.k_order:
        left, right = a[block, row, k], b[block, column, k]
        if spec.accumulator == "i32":
            total = total + left * right
        elif spec.accumulator == "f64":
            total = fma_f64(left.ravel(), right.ravel(), total.ravel()).reshape(total.shape)
        else:
            total = fma_f32(left, right, total)
    if spec.accumulator != "i32":
        words = total.view(np.uint64 if spec.accumulator == "f64" else np.uint32)
        total = np.where(np.isnan(total), words.dtype.type(default_nan(spec.accumulator)), words)
    return np.ascontiguousarray(total).view(np.uint32).T.copy()
