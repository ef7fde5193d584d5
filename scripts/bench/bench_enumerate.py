"""Time to enumerate and judge a catalogue, against a per-candidate Python loop in the same run.

    python scripts/bench/bench_enumerate.py [--arch gfx950] [--dtype bf16] [--repeat 5]

The loop is the least that any per-candidate system does: make one record per candidate and compute its threads and its
LDS bytes, the two cheapest rules. Also prints the time to match a problem with the whole table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

from cache_schema.identity import values_of
from cache_schema.problem import ConvProblem
from grids.catalogue import open_catalogue
from grids.families.implicit_gemm import ImplicitGemm
from grids.geometry import lds_of_identity
from grids.serving import serves
from grids.targets import target

LOOP_ROWS = 5000


def best_seconds(action: Callable[[], object], repeat: int) -> float:
    """The least of several timings: what the work costs when nothing else runs."""
    timings = []
    for _ in range(repeat):
        start = perf_counter()
        action()
        timings.append(perf_counter() - start)
    return min(timings)


def loop(candidates: list[dict[str, Any]], arch: str) -> int:
    """Admit candidates one at a time by two rules."""
    gpu, admitted = target(arch), 0
    for fields in candidates:
        identity = ImplicitGemm(**fields)
        admitted += identity.threads <= gpu.max_threads and lds_of_identity(identity).total_bytes <= gpu.lds_bytes
    return admitted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()

    columns_s = best_seconds(lambda: open_catalogue(options.arch, [options.dtype]), options.repeat)
    catalogue = open_catalogue(options.arch, [options.dtype])
    candidates = sum(len(part.table) for part in catalogue.parts)
    table = catalogue.buildable()
    fwd = catalogue.parts[0].table
    sample = [values_of(fwd.row(row)) for row in range(0, len(fwd), len(fwd) // LOOP_ROWS)]
    loop_us = best_seconds(lambda: loop(sample, options.arch), options.repeat) / len(sample) * 1e6
    columns_us = columns_s / candidates * 1e6
    print(f"{options.arch} {options.dtype}: {candidates} candidates, {len(table)} buildable")
    print(f"enumerate and judge on columns   {columns_s:8.3f} s   {columns_us:8.3f} us per candidate   bar 1 s")
    print(f"Python loop, two rules only      {loop_us * candidates / 1e6:8.3f} s   {loop_us:8.3f} us per candidate")
    print(f"ratio                            {loop_us / columns_us:8.0f} x")
    for direction in ("fwd", "dgrad", "wgrad"):
        layer = ConvProblem(direction, options.dtype, n=32, c=64, h=56, w=56, k=64, y=3, x=3, pad_h=1, pad_w=1)
        serve_s = best_seconds(lambda problem=layer: serves(table, problem), options.repeat)  # type: ignore[misc]
        print(f"kernels for one {direction:5} problem     {serve_s * 1e3:8.2f} ms over {len(table)} rows   bar 5 ms")


if __name__ == "__main__":
    main()
