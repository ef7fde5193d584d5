#!/usr/bin/env python3
"""A second run with nothing changed, over the whole catalogue of an architecture (about 300,000 identities).

The cache is synthetic: real identities, rejections and provenance, random bytes in place of code, as many as real
kernels take in compressed form. Writing it is not timed. The second run is the real one, in a fresh process.

    scripts/bench/bench_warm.py
"""

from __future__ import annotations

import argparse
import hashlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aot.farm.build import BuildRequest, provenance_of
from aot.farm.collector import Collector
from aot.farm.packing import pack
from aot.farm.results import Compiled, Emission, Facts, UnitResult
from aot.farm.selection import GridScope, select
from aot.farm.store import Recovery, Store
from aot.toolchain import find_toolchain
from aot.workers.interrupt import StopFlag
from cache_schema.arguments import Argument, ArgumentList

_BAR_SECONDS = 5.0
_DIRECTIONS = ("fwd", "dgrad", "wgrad")
# What a kernel takes in a cache file.
_CODE_BYTES = 600
_SECOND_RUN = """
import sys
from pathlib import Path
from aot.farm.build import BuildRequest, build, provenance_of
from aot.farm.previous import Previous
from aot.farm.selection import GridScope
from aot.toolchain import find_toolchain
arch, dtype, out = sys.argv[1:]
# The unit is never called.
scope = GridScope(arch, ("fwd", "dgrad", "wgrad"))
request = BuildRequest(scope, (dtype,), find_toolchain(), Path(out), unit=print)
previous = Previous(Path(out) / f"{arch}-{dtype}.rocke")
families = previous.provenance["sources"]
assert previous.provenance == provenance_of(request, families), "the sources were changed meanwhile"
(summary,) = build(request)
assert not summary.changed, summary
"""


def _write_cache(arch: str, dtype: str, out: Path) -> int:
    """A complete cache of the catalogue; the number of identities."""
    request = BuildRequest(GridScope(arch, _DIRECTIONS), (dtype,), find_toolchain(), out)
    selection = select(request.scope, dtype)
    collector = Collector(selection.digests, lambda _: None)
    store = Store(out / "store", {}, Recovery(*[lambda *_: None] * 4))
    collector.write_to(store)
    arguments, facts = ArgumentList((Argument("x", "ptr"),)), Facts(0, 64, 0, 32, 0, 0, 0)
    noise = random.Random(1)  # noqa: S311 - stands for code
    for row, digest in enumerate(selection.digests):
        emission = Emission(hashlib.sha256(digest.tobytes()).digest(), arguments, 256)
        assert collector.on_claim(row, emission)
        collector.on_result(row, UnitResult(emission, Compiled(facts, noise.randbytes(_CODE_BYTES)), {}))
    path = out / f"{arch}-{dtype}.rocke"
    provenance = provenance_of(request, selection.table.family_sizes())
    pack(path, (arch, dtype), selection, collector, (store, None), provenance, 2, StopFlag())
    store.remove()
    return len(selection.table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocke-bench-") as folder:
        started = time.perf_counter()
        identities = _write_cache(options.arch, options.dtype, Path(folder))
        print(f"{identities} identities written in {time.perf_counter() - started:.1f} s")
        file = next(Path(folder).glob("*.rocke"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"peak memory of the writing process: {peak} MiB; code never stays in it")
        print(f"cache of {file.stat().st_size >> 20} MiB")
        seconds = []
        for _ in range(options.runs):
            started = time.perf_counter()
            command = [sys.executable, "-c", _SECOND_RUN, options.arch, options.dtype, folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    print(f"second run: {', '.join(f'{s:.2f}' for s in seconds)} s, process start included")
    print(f"bar: {median:.2f} s, wanted {_BAR_SECONDS:g} s for 300,000 identities")


if __name__ == "__main__":
    main()
