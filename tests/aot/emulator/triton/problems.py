"""Problems for the Triton kernels: inputs, a float64 reference of another origin, and a bound from the arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.aot.emulator.triton.variants import Variant

F64 = npt.NDArray[np.float64]
Stored = npt.NDArray[Any]

#: Half a unit in the last place, relative, of one rounding to the format; and its smallest denormal.
HALF_ULP = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
TINY = {"fp32": 2.0**-149, "fp16": 2.0**-24, "bf16": 2.0**-133}


@dataclass(frozen=True)
class Problem:
    """One launch: what to bind, and what must be in `output` afterwards within `bound`."""

    name: str
    buffers: dict[str, Stored]
    scalars: Mapping[str, float]
    grid: tuple[int, int]
    output: str
    want: F64
    bound: F64


def stored(values: F64, dtype: str) -> Stored:
    """Values rounded to a storage type; bf16 is kept as its upper 16 bits."""
    if dtype == "bf16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
        return rounded.astype(np.uint16)
    return values.astype({"fp32": np.float32, "fp16": np.float16, "i32": np.int32}[dtype])


def numbers(array: Stored) -> F64:
    """The values of stored elements; uint16 is bf16."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def nans(shape: tuple[int, ...], dtype: str) -> Stored:
    return stored(np.full(shape, np.nan), dtype) if dtype != "bf16" else np.full(shape, 0x7FC0, np.uint16)


def rounding(want: F64, dtype: str) -> F64:
    return abs(want) * HALF_ULP[dtype] + TINY[dtype]


def _blocks(extent: int, tile: int) -> int:
    return -(-extent // tile)


def problems(variant: Variant, *, full: bool = False) -> Iterator[Problem]:
    """The problems of a variant: ragged in every extent; more sizes in the exhaustive run."""
    maker = {
        "gemm": _gemm, "softmax": _softmax, "attention": _attention, "scatter_add": _scatter, "row_add": _rows,
        "conv": _conv,
    }[variant.kernel]  # fmt: skip
    yield from maker(variant, full)


def _gemm(variant: Variant, full: bool) -> Iterator[Problem]:
    tile_m, tile_n, tile_k = (variant.constants[f"TILE_{axis}"] for axis in "MNK")
    rng = np.random.default_rng(21)
    # Partial tiles in every extent, less than one K tile, whole tiles, and no K at all.
    sizes = [(tile_m + 5, tile_n + 3, 2 * tile_k + 7), (tile_m - 1, tile_n - 2, 7), (tile_m, tile_n, 3 * tile_k)]
    sizes.append((tile_m + 5, tile_n + 3, 0))
    if full:
        sizes += [
            (2 * tile_m - 1, tile_n - 1, tile_k),
            (tile_m + 1, 2 * tile_n + 1, 5 * tile_k - 1),
            (17, 33, 65),
            (1, 1, 1),
        ]
    if "k_extent" in variant.aligned:
        sizes = [(m, _blocks(n, 16) * 16, _blocks(k, 16) * 16) for m, n, k in sizes]
    for m, n, k in sizes:
        pad = 16 if variant.aligned else 1
        a_stride, b_stride, c_stride = (max(_blocks(extent, pad), 1) * pad for extent in (k, n, n))
        a_type, b_type, c_type = variant.pointers
        a = stored(rng.standard_normal((m, a_stride)), a_type)
        b = stored(rng.standard_normal((max(k, 1), b_stride)), b_type)
        x, y = numbers(a)[:, :k], numbers(b)[:k, :n]
        want, size = x @ y, abs(x) @ abs(y)
        full_want, full_bound = np.full((m, c_stride), np.nan), np.full((m, c_stride), np.inf)
        full_want[:, :n] = want
        full_bound[:, :n] = (k + 2) * 2.0**-23 * size + rounding(want, c_type)
        scalars = {
            "m_extent": m, "n_extent": n, "k_extent": k,
            "a_stride": a_stride, "b_stride": b_stride, "c_stride": c_stride,
        }  # fmt: skip
        yield Problem(
            f"{m}x{n}x{k}", {"a": a, "b": b, "c": nans((m, c_stride), c_type)}, scalars,
            (_blocks(m, tile_m), _blocks(n, tile_n)), "c", full_want, full_bound,
        )  # fmt: skip


def _softmax(variant: Variant, full: bool) -> Iterator[Problem]:
    tile = variant.constants["TILE"]
    rng = np.random.default_rng(22)
    x_type, y_type = variant.pointers
    for rows, cols in [(5, tile - 3), (2, 1), *([(9, tile), (3, tile // 2 + 1)] if full else [])]:
        x = stored(4 * rng.standard_normal((rows, cols)), x_type)
        exact = numbers(x)
        weights = np.exp(exact - exact.max(axis=1, keepdims=True))
        want = weights / weights.sum(axis=1, keepdims=True)
        # exp is exp2 of a rounded product: 2 ulp plus the rounding of an argument of up to |x - max| log2(e).
        argument = abs(exact - exact.max(axis=1, keepdims=True)) * 1.5
        relative = (cols + 8) * 2.0**-23 + argument * 2.0**-22
        yield Problem(
            f"{rows}x{cols}", {"x": x, "y": nans((rows, cols), y_type)},
            {"n_cols": cols, "x_stride": cols, "y_stride": cols}, (rows, 1), "y", want,
            want * 2 * relative + rounding(want, y_type) + 2.0**-126,
        )  # fmt: skip


def _attention(variant: Variant, full: bool) -> Iterator[Problem]:
    head = variant.constants["HEAD"]
    tile_m = variant.constants["TILE_M"]
    rng = np.random.default_rng(23)
    dtype = variant.pointers[0]
    scale_log2 = float(np.float32(math.log2(math.e) / math.sqrt(head)))
    for heads, length in [(2, tile_m + 31), *([(1, 2 * tile_m), (1, 3)] if full else [])]:
        q, k, v = (stored(rng.standard_normal((heads, length, head)), dtype) for _ in range(3))
        x, y, z = numbers(q), numbers(k), numbers(v)
        scores = np.einsum("hid,hjd->hij", x, y) * scale_log2
        weights = np.exp2(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        want = np.einsum("hij,hjd->hid", weights, z)
        # A score is off by (head + 2) f32 roundings, a weight by that in its exponent and by one 16-bit rounding.
        score_error = (head + 4) * 2.0**-23 * np.einsum("hid,hjd->hij", abs(x), abs(y)).max() * scale_log2
        relative = 2 * score_error + 2 * HALF_ULP[dtype] + (length + 16) * 2.0**-22
        size = np.einsum("hij,hjd->hid", weights, abs(z))
        yield Problem(
            f"{heads}x{length}", {"q": q, "k": k, "v": v, "o": nans((heads, length, head), dtype)},
            {"length": length, "scale_log2": scale_log2}, (_blocks(length, tile_m), heads), "o", want,
            relative * size + rounding(want, dtype),
        )  # fmt: skip


def _scatter(variant: Variant, full: bool) -> Iterator[Problem]:
    x_type, _, y_type = variant.pointers
    rng = np.random.default_rng(24)
    for count, slots in [(700, 40), *([(3000, 6), (1, 2)] if full else [])]:
        # Integers that stay exact in every format and order: at most 8 bits of sum.
        x = stored(rng.integers(-1, 2, count).astype(np.float64), x_type)
        index = rng.integers(0, slots, count).astype(np.int32)
        start = rng.integers(-4, 5, slots).astype(np.float64)
        want = start.copy()
        np.add.at(want, index, numbers(x))
        yield Problem(
            f"{count}to{slots}", {"x": x, "index": index, "y": stored(start, y_type)}, {"count": count},
            (_blocks(count, variant.constants["TILE"]), 1), "y", want, np.zeros(slots),
        )  # fmt: skip


def _rows(variant: Variant, full: bool) -> Iterator[Problem]:
    x_type, y_type = variant.pointers
    rng = np.random.default_rng(25)
    tile = variant.constants["TILE"]
    for rows, cols in [(6, tile + 11), *([(20, 2 * tile), (3, 1)] if full else [])]:
        x = stored(rng.integers(-3, 4, (rows, cols)).astype(np.float64), x_type)
        # A 16-bit atomic works on the dword around it: the buffer ends with one.
        start = rng.integers(-4, 5, cols + cols % 2).astype(np.float64)
        want = start.copy()
        want[:cols] += numbers(x).sum(axis=0)
        yield Problem(
            f"{rows}x{cols}", {"x": x, "y": stored(start, y_type)}, {"n_rows": rows, "n_cols": cols},
            (rows, _blocks(cols, tile)), "y", want, np.zeros(len(want)),
        )  # fmt: skip


def _conv(variant: Variant, full: bool) -> Iterator[Problem]:
    dtype = variant.pointers[0]
    rng = np.random.default_rng(26)
    pad_to = 16 if variant.aligned else 1
    shapes = [(2, 7, 6, 7, 70, 3, 3, 1, 1, 1), (2, 5, 5, 16, 16, 1, 1, 1, 0, 1)]
    if full:
        shapes += [(1, 9, 9, 3, 70, 3, 2, 2, 1, 1), (1, 11, 8, 17, 5, 3, 3, 1, 2, 2)]
    for n, h, w, channels, filters, r, s, stride, pad, dilation in shapes:
        c, k = (_blocks(extent, pad_to) * pad_to for extent in (channels, filters))
        p, q = ((e + 2 * pad - dilation * (f - 1) - 1) // stride + 1 for e, f in ((h, r), (w, s)))
        x = stored(rng.standard_normal((n, h, w, c)), dtype)
        weight = stored(rng.standard_normal((k, r, s, c)), dtype)
        padded = np.pad(numbers(x), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        want, size = np.zeros((n, p, q, k)), np.zeros((n, p, q, k))
        for i in range(r):
            for j in range(s):
                rows = slice(i * dilation, i * dilation + stride * (p - 1) + 1, stride)
                cols = slice(j * dilation, j * dilation + stride * (q - 1) + 1, stride)
                taps = numbers(weight)[:, i, j]
                want += np.einsum("npqc,kc->npqk", padded[:, rows, cols], taps)
                size += np.einsum("npqc,kc->npqk", abs(padded[:, rows, cols]), abs(taps))
        scalars = {
            f"{name}_extent": value for name, value in zip("nhwckrspq", (n, h, w, c, k, r, s, p, q), strict=True)
        }
        scalars |= {
            "stride_h": stride, "stride_w": stride, "pad_h": pad, "pad_w": pad, "dil_h": dilation, "dil_w": dilation,
        }  # fmt: skip
        yield Problem(
            f"{n}x{h}x{w}x{c}to{k}", {"x": x, "w": weight, "y": nans((n, p, q, k), dtype)}, scalars,
            (_blocks(n * p * q, variant.constants["TILE_M"]), _blocks(k, variant.constants["TILE_N"])), "y", want,
            (r * s * c + 2) * 2.0**-23 * size + rounding(want, dtype),
        )  # fmt: skip


def worst(problem: Problem, buffers: Mapping[str, Stored]) -> float:
    """The largest error in units of the bound; a NaN where a number should be counts as infinite."""
    got = numbers(buffers[problem.output]).reshape(problem.want.shape)
    with np.errstate(invalid="ignore"):
        error = abs(got - problem.want)
    checked = np.isfinite(problem.want)
    ratio = np.where(error == 0, 0.0, error / np.where(problem.bound > 0, problem.bound, 1e-300))
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return float(ratio[checked].max(initial=0.0))
