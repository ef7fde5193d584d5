"""Wave-instructions per second of the emulator's engines on GEMM loops, on one core.

    python scripts/bench/bench_emulator.py [--arch gfx950] [--dtype bf16] [--channels 256]

Each kernel is a forward convolution with a long reduction, compiled here; its reduction loop is nearly all of what
runs. Charged is the CPU time of this process for running alone (handlers compiled, code decoded), so that a busy
machine does not matter. The numpy engine runs the same kernel on the smallest problem of the same tiles.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from aot.emulator import Memory, Report, run
from aot.families import emit
from aot.kernels.arguments import forward_arguments
from aot.kernels.forward_values import forward_values
from aot.toolchain import find_toolchain, link, open_engine, with_symbol
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from grids.families.implicit_gemm import ImplicitGemm

SYMBOL = "rocke_bench"
#: tile_m, tile_n, tile_k, warp_m, warp_n, atom edge, pipeline.
SHAPES = [
    (128, 128, 64, 2, 2, 32, "compv3"),
    (128, 64, 64, 2, 2, 32, "mem"),
    (64, 64, 64, 2, 2, 32, "mem"),
    (128, 128, 32, 2, 2, 16, "compv3"),
    (64, 64, 32, 2, 2, 16, "mem"),
]


def identity(arch: str, dtype: str, shape: tuple[int, int, int, int, int, int, str]) -> Identity:
    tile_m, tile_n, tile_k, warp_m, warp_n, edge, pipeline = shape
    depth = {16: 32, 32: 16}[edge] // (1 if arch == "gfx950" else 2)
    return ImplicitGemm(
        arch, dtype, dtype, dtype, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, warp_m=warp_m,
        warp_n=warp_n, warp_tile_m=edge, warp_tile_n=edge, warp_tile_k=depth, pipeline=pipeline, vector_size_a=8,
        vector_size_b=8, vector_size_c=1,
    )  # fmt: skip


def build(kernel: Identity) -> tuple[bytes, int]:
    """Code object and block size."""
    toolchain = find_toolchain()
    source = emit(kernel, toolchain.flavor)
    engine = open_engine(toolchain, kernel.arch, source.codegen_options)
    return link(toolchain, engine.compile(with_symbol(source.ir, SYMBOL), source.passes)), source.block_size


def measure(kernel: Identity, code: bytes, block: int, problem: ConvProblem, engine: str) -> tuple[Report, float]:
    """A run and its CPU seconds, without what comes before it."""
    rng = np.random.default_rng(0)
    shapes = {
        "a": (problem.n, problem.h, problem.w, problem.c),
        "b": (problem.k, problem.y, problem.x, problem.c),
        "d": (problem.n, problem.h, problem.w, problem.k),
    }
    memory = Memory()
    # Bit patterns of ordinary numbers of either sign in both 16-bit formats.
    addresses = [
        memory.add(name, (rng.integers(0x3000, 0x3C00, shape) | rng.integers(0, 2, shape) << 15).astype(np.uint16))
        for name, shape in shapes.items()
    ]
    values = forward_values(kernel, problem)
    arguments = forward_arguments()
    pointers = [argument.name for argument in arguments.arguments if argument.name not in values]
    kernarg = arguments.pack({**values, **dict(zip(pointers, addresses, strict=True))})
    rows = problem.n * problem.h * problem.w
    grid = (-(-problem.k // kernel.tile_n), -(-rows // kernel.tile_m), 1)
    seconds = []
    for _ in range(4 if engine == "llvm" else 1):
        start = time.process_time()
        report = run(
            code, SYMBOL, grid=grid, block=(block, 1, 1), kernarg=kernarg, memory=memory, engine=engine
        ).check()
        seconds.append(time.process_time() - start)
    return report, min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx950", choices=("gfx942", "gfx950"))
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16"))
    parser.add_argument("--channels", type=int, default=256)
    options = parser.parse_args()
    titles = "M/s llvm", "ns each", "mfma", "valu", "lds", "k/s numpy", "ratio"
    print(f"{'kernel':34}", *(f"{title:>9}" for title in titles))
    for shape in SHAPES:
        kernel = identity(options.arch, options.dtype, shape)
        code, block = build(kernel)
        name = "{}x{}x{} {}x{} of {} {}".format(*shape)
        long = ConvProblem("fwd", options.dtype, n=2, c=options.channels, h=14, w=14, k=256, y=3, x=3, pad_h=1, pad_w=1)
        short = ConvProblem("fwd", options.dtype, n=1, c=16, h=4, w=4, k=16, y=1, x=1)
        fast, fast_seconds = measure(kernel, code, block, long, "llvm")
        slow, slow_seconds = measure(kernel, code, block, short, "numpy")
        rate, slow_rate = fast.total / fast_seconds, slow.total / slow_seconds
        shares = [f"{fast.instructions.get(part, 0) / fast.total:9.3f}" for part in ("mfma", "valu", "lds")]
        ours, theirs = f"{rate / 1e6:9.2f} {1e9 / rate:9.1f}", f"{slow_rate / 1e3:9.2f} {rate / slow_rate:9.0f}"
        print(f"{name:34}", ours, *shares, theirs)


if __name__ == "__main__":
    main()
