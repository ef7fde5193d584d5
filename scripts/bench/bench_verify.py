#!/usr/bin/env python3
"""Time to verify kernels against the time to compile them, over a sample spread over all axes.

    OPENBLAS_NUM_THREADS=1 scripts/bench/bench_verify.py [--arch A] [--dtype T] [--direction D] [--sample N]

Both are CPU seconds of this process and of what it starts, so other work on the machine does not matter. Compiling is
emission, code generation and link in a warm engine; verifying is all cases of a kernel's edges, planning, operands,
reference and comparison included. Prints the ratio, and what the worst accumulation error took up of the derived bound.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from time import process_time

from aot.families import emit
from aot.farm.build import BuildRequest, build
from aot.farm.selection import GridScope
from aot.toolchain import content_key, find_toolchain, link, open_engine, symbol_of, with_symbol
from aot.verification.verify import Task, verify_group
from cache_schema.cache_reader import Cache
from cache_schema.identity import Identity

#: Every so many kernels one is compiled and verified before the clock starts.
WARM_STEP = 4


def compile_seconds(identities: list[Identity]) -> list[float]:
    """CPU seconds per kernel, from identity to code object."""
    toolchain = find_toolchain()
    engines = {}
    seconds = []
    for identity in identities:
        start = process_time()
        source = emit(identity, toolchain.flavor)
        symbol = symbol_of(content_key(source, toolchain, identity.arch))
        if source.codegen_options not in engines:
            engines[source.codegen_options] = open_engine(toolchain, identity.arch, source.codegen_options)
        link(toolchain, engines[source.codegen_options].compile(with_symbol(source.ir, symbol), source.passes))
        seconds.append(process_time() - start)
    for engine in engines.values():
        engine.close()
    return seconds


def main() -> None:

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--direction", default="fwd")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--engine", default="llvm")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocke-bench-") as folder:
        scope = GridScope(options.arch, (options.direction,), limit=options.sample)
        build(BuildRequest(scope, (options.dtype,), find_toolchain(), Path(folder)))
        path = Path(folder) / f"{options.arch}-{options.dtype}.rocke"
        with Cache.open(path) as cache:
            task = Task(path, None, options.engine, 1)
            warm, measured = range(0, len(cache), WARM_STEP), [n for n in range(len(cache)) if n % WARM_STEP]
            for number in warm:  # what a process compiles, loads and imports once
                verify_group(task, cache, (number,))
            compile_seconds([cache.identity(number) for number in warm])
            compiling = compile_seconds([cache.identity(number) for number in measured])
            verifying, verdicts = [], []
            for number in sorted(measured, key=cache.kernel_of):
                start = process_time()
                verdicts.append(verify_group(task, cache, (number,)))
                verifying.append(process_time() - start)
    runs = [case for verdict in verdicts for case in verdict["cases"]]
    instructions = sum(verdict["instructions"] for verdict in verdicts)
    right = sum(verdict["verdict"] == "right" for verdict in verdicts)
    print(f"{len(verdicts)} kernels, {right} right, {len(runs)} runs, {instructions:,} wave instructions")
    for name, seconds in (("compile", compiling), ("verify", verifying)):
        mean, median = 1000 * sum(seconds) / len(seconds), 1000 * statistics.median(seconds)
        print(f"{name}: {mean:.1f} ms a kernel, median {median:.1f}")
    print(f"verify / compile: {sum(verifying) / sum(compiling):.2f}")
    print(f"wave instructions per second of verification: {instructions / sum(verifying):,.0f}")
    print(f"worst share of the accumulation bound that was used: {max(verdict['use'] for verdict in verdicts):.3f}")


if __name__ == "__main__":
    main()
