# mypy: ignore-errors
# ruff: noqa: N803 (Triton writes its compile-time parameters in capitals)
"""CPU seconds that Triton takes from source to code object, for implicit-GEMM convolutions with run-time extents.

    PYTHON triton_convolution.py ARCH DTYPE

Run by `bench_compile.py --triton PYTHON` in an environment that has Triton; needs no GPU. Prints {kernels, seconds}.
"""

import json
import os
import sys
import tempfile
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="triton-bench-")
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# (tile_m, tile_n, tile_k, waves): the common tiles of our grid.
TILES = [(64, 64, 32, 4), (64, 64, 64, 4), (128, 64, 64, 4), (128, 128, 32, 4), (128, 128, 64, 4), (256, 128, 64, 8)]
EXTENTS = ["h", "w", "c", "ho", "wo", "k", "y", "x", "rows", "stride", "pad"]
DTYPES = {"bf16": "*bf16", "fp16": "*fp16"}


@triton.jit
def convolution(
    image, weights, output, h, w, c, ho, wo, k, y, x, rows, stride, pad,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """NHWC x KYXC -> NHWK: rows are output pixels, columns output channels, depth is filter taps by channels."""
    row = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    column = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    batch, pixel = row // (ho * wo), row % (ho * wo)
    top, left = pixel // wo * stride - pad, pixel % wo * stride - pad
    depth = y * x * c
    accumulator = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for start in range(0, depth, TILE_K):
        at = start + tl.arange(0, TILE_K)
        tap, channel = at // c, at % c
        in_y, in_x = top[:, None] + (tap // x)[None, :], left[:, None] + (tap % x)[None, :]
        inside = (in_y >= 0) & (in_y < h) & (in_x >= 0) & (in_x < w) & (row[:, None] < rows) & (at[None, :] < depth)
        a = tl.load(image + ((batch[:, None] * h + in_y) * w + in_x) * c + channel[None, :], mask=inside, other=0.0)
        valid = (column[None, :] < k) & (at[:, None] < depth)
        b = tl.load(weights + column[None, :] * depth + at[:, None], mask=valid, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
    result = accumulator.to(output.dtype.element_ty)
    tl.store(output + row[:, None] * k + column[None, :], result, mask=(row[:, None] < rows) & (column[None, :] < k))


def cpu_seconds():
    """CPU time of this process and of the linkers it started."""
    children = getrusage(RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def build(arch, dtype, tile):
    m, n, depth, waves = tile
    signature = dict.fromkeys(("image", "weights", "output"), DTYPES[dtype]) | dict.fromkeys(EXTENTS, "i32")
    constants = {"TILE_M": m, "TILE_N": n, "TILE_K": depth}
    signature |= dict.fromkeys(constants, "constexpr")
    attributes = {(index,): [["tt.divisibility", 16]] for index in range(3)}
    source = ASTSource(convolution, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("hip", arch, 64), options={"num_warps": waves, "num_stages": 2})


def main():
    arch, dtype = sys.argv[1:]
    build(arch, dtype, TILES[0])
    start = cpu_seconds()
    for tile in TILES:
        build(arch, dtype, tile)
    print(json.dumps({"kernels": len(TILES), "seconds": cpu_seconds() - start}))


if __name__ == "__main__":
    main()
