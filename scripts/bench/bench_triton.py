"""Compile throughput of Triton, source to hsaco, for a GEMM and an implicit-GEMM convolution at given tiles.

    .venv/bin/python scripts/bench/bench_triton.py [--arch gfx950] [--tile 128x128x64]... [--repeat 3] [--jobs 1]

Makes its own environment with Triton on first use, compiles every kernel afresh each time (no cache), saves the code
objects in the output folder for hot-loop statistics, and prints one JSON object: seconds per kernel with its stages
(wall clock), and kernels per second over all jobs by wall clock and by processor time. Start-up is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "aot" / "emulator" / "triton"
TILES = ("64x64x64", "128x128x64", "256x256x64")


def compile_all(arch: str, tiles: list[str], repeat: int, out: Path) -> dict[str, Any]:
    """Runs inside the Triton environment: compiles and times every kernel, and writes the code objects."""
    sys.path.insert(0, str(SOURCES))
    import triton  # type: ignore[import-not-found,unused-ignore]
    from compile_kernels import source  # type: ignore[import-not-found,unused-ignore]
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found,unused-ignore]
    from variants import Variant  # type: ignore[import-not-found,unused-ignore]

    stages: list[dict[str, float]] = []

    def listen(*, times: Any, **_: Any) -> None:
        stages.append({"front": times.ir_initialization / 1e6, **{n: t / 1e6 for n, t in times.lowering_stages}})

    triton.knobs.compilation.always_compile = True
    triton.knobs.compilation.listener = listen
    target = GPUTarget("hip", arch, 64)
    aligned = {"gemm": ("a_stride", "b_stride", "c_stride"), "conv": ("c_extent", "k_extent")}
    results = []
    # The first compilation loads libraries and is not counted.
    small = {"TILE_M": 32, "TILE_N": 32, "TILE_K": 32}
    triton.compile(source(Variant("warm", "gemm", ("bf16",) * 3, small)), target=target, options={"num_warps": 4})
    begin, cpu_begin = time.perf_counter(), time.process_time()
    for kernel in ("gemm", "conv"):
        for tile in tiles:
            m, n, k = (int(edge) for edge in tile.split("x"))
            constants = {"TILE_M": m, "TILE_N": n, "TILE_K": k}
            warps = 8 if m * n > 128 * 128 else 4
            variant = Variant(f"{kernel}_{tile}", kernel, ("bf16",) * 3, constants, aligned=aligned[kernel])
            seconds, kept = [], []
            for _ in range(repeat):
                start = time.perf_counter()
                compiled = triton.compile(source(variant), target=target, options={"num_warps": warps, "num_stages": 2})
                seconds.append(time.perf_counter() - start)
                kept.append(stages[-1])
            file = out / f"{arch}-{variant.name}.hsaco"
            file.write_bytes(compiled.asm["hsaco"])
            results.append(
                {
                    "name": variant.name,
                    "warps": warps,
                    "seconds": statistics.median(seconds),
                    "stages": {name: statistics.median(s[name] for s in kept) for name in kept[0]},
                    "dynamic_lds": compiled.metadata.shared,
                    "symbol": compiled.metadata.name,
                    "code_object": str(file),
                    "bytes": len(compiled.asm["hsaco"]),
                }
            )
    return {
        "triton": triton.__version__,
        "compiled": len(results) * repeat,
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - cpu_begin,
        "kernels": results,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx950", choices=("gfx942", "gfx950"))
    parser.add_argument("--tile", action="append", help="M x N x K, such as 128x128x64; may be repeated")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile at the same time")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "triton-bench")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    tiles = options.tile or list(TILES)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.inside:
        print(json.dumps(compile_all(options.arch, tiles, options.repeat, options.out)))
        return
    sys.path.insert(0, str(ROOT))
    from tests.aot.emulator.triton import environment

    command = [str(environment.python()), __file__, "--inside", "--arch", options.arch, "--repeat", str(options.repeat)]
    command += [word for tile in tiles for word in ("--tile", tile)]
    children = []
    for job in range(options.jobs):
        folder = options.out / f"job{job}" if job else options.out
        settings = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
        children.append(
            subprocess.Popen([*command, "--out", str(folder)], stdout=subprocess.PIPE, text=True, env=settings)
        )
    reports = [json.loads(child.communicate()[0]) for child in children]
    result = reports[0] | {
        "arch": options.arch,
        "jobs": options.jobs,
        "repeat": options.repeat,
        "kernels_per_second": sum(report["compiled"] / report["seconds"] for report in reports),
        "kernels_per_cpu_second": sum(r["compiled"] for r in reports) / sum(r["cpu_seconds"] for r in reports),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
