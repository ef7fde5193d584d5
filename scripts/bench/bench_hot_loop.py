#!/usr/bin/env python3
"""What the K loops of a fixed list of forward kernels are made of, beside code objects of other compilers.

    scripts/bench/bench_hot_loop.py [--dtype bf16] [--json] [--against FILE.hsaco]...

Every tile of the list is compiled with 16-byte accesses in all loops and epilogues that the grid has for it; the one
with the best statistic S (aot.inspection.hot_loop) is shown. Nothing is timed, so the figures do not depend on the
machine. `--against` adds the loops of any code object for the same GPUs, such as those in Triton's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernel_loops import compiled, parser, show

from aot.inspection.hot_loop import KernelStatistics, kernel_statistics
from aot.toolchain import Toolchain, disassemble, find_toolchain, read_code_object
from cache_schema.identity import Identity
from cache_schema.label import encode
from cache_schema.table import IdentityTable
from grids.catalogue import buildable

#: Tiles (m, n, k) and waves (m, n) that convolution libraries commonly use.
TILES = ((64, 64, 64, 2, 2), (128, 64, 64, 2, 2), (128, 128, 64, 2, 2), (256, 128, 64, 2, 2), (256, 256, 64, 4, 2))
COLUMNS = ("mfma", "mfma_clk", "valu", "salu", "lds", "vmem", "waits", "barriers", "divisions", "scratch")


def variants(table: IdentityTable, tile: tuple[int, ...]) -> Iterator[Identity]:
    """Identities of one tile with the widest accesses."""
    wanted = dict(zip(("tile_m", "tile_n", "tile_k", "warp_m", "warp_n"), tile, strict=True))
    mask = table.equals("epilogue", "cshuffle")
    for name, value in {**wanted, "vector_size_a": 8, "vector_size_b": 8, "vector_size_c": 8}.items():
        mask &= table.equals(name, value)
    rows = table.take(mask)
    return (rows.row(index) for index in range(len(rows)))


def row(name: str, toolchain: Toolchain, code: bytes) -> tuple[dict[str, Any], KernelStatistics]:
    """One line of the table."""
    statistics, kernel = kernel_statistics(disassemble(toolchain, code)), read_code_object(code)
    hot = statistics.hot_loop
    counts = {column: getattr(hot.mix, column) if hot else 0 for column in COLUMNS}
    share = hot.mix.share if hot else 0.0
    loops = " ".join(f"{loop.mix.share:.2f}" for loop in statistics.loops)
    record = {"kernel": name, "arch": kernel.arch, "S": round(share, 3), "S of all loops": loops, **counts}
    return {**record, "VALU/16": round(hot.mix.valu_per_16, 2) if hot else 0.0, "VGPRs": kernel.vgprs}, statistics


def reference_rows(toolchain: Toolchain, dtype: str) -> Iterator[dict[str, Any]]:
    """The best variant of every tile, for both architectures."""
    for arch in ("gfx950", "gfx942"):
        table = buildable(arch, [dtype], ["fwd"], None, None, None)
        for tile in TILES:
            rows = [row(encode(i), toolchain, compiled(toolchain, i).code)[0] for i in variants(table, tile)]
            if rows:
                yield max(rows, key=lambda record: (record["S"], record["kernel"]))


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--against", action="append", default=[], type=Path, metavar="FILE")
    options = options_of.parse_args()
    toolchain = find_toolchain()
    rows = list(reference_rows(toolchain, options.dtype))
    rows += [row(file.name, toolchain, file.read_bytes())[0] for file in options.against]
    if options.json:
        show(rows, as_json=True)
        return
    names = list(rows[0])[1:]
    for record in rows:
        print(record["kernel"])
        print("   " + "  ".join(f"{name} {record[name]}" for name in names))


if __name__ == "__main__":
    main()
