#!/usr/bin/env python3
"""How fast a cache file opens and answers, and how dense it is.

scripts/bench/bench_cache.py [--rows 300000] [CACHE]

Without CACHE: times on a file of made-up rows, whose code objects are too small to say anything about density. With
CACHE: the same times on that file, its density, and the decoding of single kernels. Cold means a new process and a
file that was dropped from the page cache before.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cache_schema.arguments import Argument, ArgumentList
from cache_schema.cache_reader import Cache
from cache_schema.cache_writer import write_cache
from cache_schema.digest import table_digests
from cache_schema.facts import RESOURCES, EntryFacts, KernelTable
from cache_schema.ledger import Ledger
from cache_schema.table import IdentityTable
from grids.families.implicit_gemm import ImplicitGemm

#: The bars of the design, in the unit printed.
BARS = {
    "open, cold (ms)": 5.0,
    "find by digest, first in the process (us)": 50.0,
    "find by digest (us)": 50.0,
    "scan of 12 columns, cold (ms)": 5.0,
    "scan of 12 columns (ms)": 5.0,
    "decode one kernel, no block in memory (us)": 1000.0,
}
DENSITY_BAR = 10.0
#: What serving rules look at: widths, chunks, capability and the grid limits.
SCANNED = (
    "direction", "vector_size_a", "vector_size_b", "vector_size_c", "tile_m", "tile_n", "tile_k", "async_dma",
    "async_chunk_a", "async_chunk_b", "split_k", "grouped",
)  # fmt: skip
LOOKUPS = 5000


def main() -> None:
    """Print one line per figure, and its ratio to the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--keep", type=Path, help="leave the file of made-up rows here")
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cold:
        print(json.dumps(cold_times(options.cold)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.cache or options.keep or Path(folder) / "synthetic.rocke"
        if not options.cache:
            write_synthetic(path, options.rows)
        figures = in_new_process(path)
        with Cache.open(path) as cache:
            figures |= warm_times(cache)
            print(f"{path}: {len(cache)} identities, {cache.kernels.rows} kernels, {cache.header.file_bytes} bytes")
            for name, figure in figures.items():
                bar = BARS.get(name)
                print(f"  {name:45} {figure:12.3f}" + (f"   {figure / bar:6.2f} of the bar {bar:g}" if bar else ""))
            if options.cache:
                print_density(cache)


def in_new_process(path: Path) -> dict[str, float]:
    """Best of three runs of `cold_times`, each in its own process after dropping the file from memory."""
    runs = []
    for _ in range(3):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        command = [sys.executable, __file__, "--cold", str(path)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return {name: min(run[name] for run in runs) for name in runs[0]}


def cold_times(path: Path) -> dict[str, float]:
    """First open, first look-up, first code object and first scan of a process."""
    with stopwatch() as opening:
        cache = Cache.open(path)
    with stopwatch() as again:
        Cache.open(path).close()
    middle = len(cache) // 3
    wanted = bytes(cache.index.view(cache.digests_offset + 20 * middle, 20))
    first = bytes([wanted[0] ^ 0x55]) + wanted[1:]
    with stopwatch() as finding:
        cache.find(first)
    with stopwatch() as reading:
        cache.entry(middle)
    with stopwatch() as decoding:
        cache.code_object(middle)
    with stopwatch() as scanning:
        scan(cache)
    return {
        "open, cold (ms)": opening() * 1e3,
        "open, file in memory (ms)": again() * 1e3,
        "find by digest, first in the process (us)": finding() * 1e6,
        "entry, first in the process (us)": reading() * 1e6,
        "code object, first in the process (us)": decoding() * 1e6,
        "scan of 12 columns, cold (ms)": scanning() * 1e3,
    }


def warm_times(cache: Cache) -> dict[str, float]:
    """Look-ups, entries, scans and decoding in a process that has the file in memory."""
    random = np.random.default_rng(1)
    rows = random.integers(0, len(cache), LOOKUPS).tolist()
    digests = [bytes(cache.digests[row]) for row in rows]
    kernels = random.permutation(cache.kernels.rows)[:200].tolist()
    figures = {
        "find by digest (us)": per_call(cache.find, digests) * 1e6,
        "entry (us)": per_call(cache.entry, rows[:500]) * 1e6,
        "decode one kernel, no block in memory (us)": per_call(lambda kernel: decode_fresh(cache, kernel), kernels)
        * 1e6,
        "decode kernels in order (us)": per_call(cache.kernel_code, list(range(min(500, cache.kernels.rows)))) * 1e6,
    }
    figures["scan of 12 columns (ms)"] = min(per_call(lambda _: scan(cache), [0]) for _ in range(5)) * 1e3
    with stopwatch() as hashing:
        table_digests(cache.table)
    figures["digests of all identities (s)"] = hashing()
    return figures


def decode_fresh(cache: Cache, kernel: int) -> bytes:
    """One kernel with nothing decoded before."""
    cache.forget_blocks()
    return cache.kernel_code(kernel)


def scan(cache: Cache) -> int:
    """A mask over all identities from the columns that serving rules read."""
    mask = np.ones(len(cache), dtype=np.bool_)
    for name in SCANNED:
        column = cache.table.columns[name]
        mask &= column != 3 if column.dtype != np.bool_ else column | True
    return int(mask.sum())


def print_density(cache: Cache) -> None:
    """Bytes on disk against the code objects, over all entries and over distinct kernels."""
    blobs = [cache.kernel_code(kernel) for kernel in range(cache.kernels.rows)]
    raw = sum(map(len, blobs))
    entries_raw = int(cache.facts["code_bytes"].sum())
    frames = int(cache.blocks["bytes"].sum())
    index = cache.header.file_bytes - frames
    compressor = zstandard.ZstdCompressor(level=3)
    single = sum(len(compressor.compress(blob)) for blob in blobs)
    print(
        f"  code objects {raw} bytes, mean {raw / max(len(blobs), 1):.0f}; index {index} bytes, frames {frames} bytes"
    )
    ratios = {
        "distinct code objects / frames": raw / frames,
        "distinct code objects / file": raw / cache.header.file_bytes,
        "code objects of all identities / file": entries_raw / cache.header.file_bytes,
        "for comparison, each blob alone at zstd-3": raw / single,
    }
    for name, ratio in ratios.items():
        print(f"  {name:45} {ratio:12.2f}   {ratio / DENSITY_BAR:6.2f} of the bar {DENSITY_BAR:g}")


def write_synthetic(path: Path, rows: int) -> None:
    """Distinct identities over the forward axes, each with a kernel of its own and a code object of 64 bytes."""
    number = np.arange(rows)
    axes: dict[str, list[int]] = {
        "vector_size_a": [1, 2, 4, 8], "vector_size_c": [1, 2, 4, 8], "unroll_k": [0, 1],
        "tile_m": [16, 32, 64, 128, 256], "tile_n": [16, 32, 64, 128, 256], "tile_k": [16, 32, 64],
        "warp_m": [1, 2, 4, 8], "warp_n": [1, 2, 4, 8], "warp_tile_m": [16, 32],
        "async_chunk_a": [0, 2, 6, 8], "async_chunk_b": [0, 2, 6, 8], "async_dma": [0, 1],
    }  # fmt: skip
    values: dict[str, Any] = {
        "arch": "gfx950", "dtype_a": "bf16", "dtype_b": "bf16", "dtype_d": "bf16", "pipeline": "mem",
    }  # fmt: skip
    for name, choices in axes.items():
        values[name] = np.array(choices)[number % len(choices)].astype(
            np.bool_ if name in ("unroll_k", "async_dma") else np.int64
        )
        number = number // len(choices)
    values["vector_size_b"] = values["vector_size_a"]
    table = IdentityTable.from_columns(ImplicitGemm, rows, values)
    random = np.random.default_rng(2)
    code = random.integers(0, 256, (rows, 64), dtype=np.uint8)
    digests = np.frombuffer(b"".join(hashlib.sha256(row).digest() for row in code), dtype=np.uint8).reshape(-1, 32)
    position = {bytes(digest): row for row, digest in enumerate(digests)}
    keys = random.integers(0, 256, (rows, 32), dtype=np.uint8)
    kernels = KernelTable(
        content_keys=keys,
        blob_digests=digests,
        symbols=np.array([b"rocke_" + bytes(key).hex()[:24].encode() for key in keys]),
        resources={name: np.full(rows, 64, dtype=np.uint32) for name in RESOURCES},
        layout=np.zeros(rows, dtype=np.uint16),
        layouts=(ArgumentList((Argument("x", "ptr"),)),),
    )
    write_cache(
        path,
        arch="gfx950",
        dtype="bf16",
        table=table,
        facts=EntryFacts(kernels, np.arange(rows)),
        blobs=lambda digest: code[position[digest]].tobytes(),
        ledger=Ledger.empty(),
        provenance={},
    )


def per_call(function: Callable[[Any], Any], arguments: list[Any]) -> float:
    """Seconds per call: the median, so that other work on the machine does not count."""
    seconds = []
    for argument in arguments:
        with stopwatch() as elapsed:
            function(argument)
        seconds.append(elapsed())
    return statistics.median(seconds)


@contextlib.contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Yields a function that gives the seconds from enter to exit."""
    start = time.perf_counter()
    end = start
    yield lambda: end - start
    end = time.perf_counter()


if __name__ == "__main__":
    main()
