#!/usr/bin/env python3
"""The K loops of backward-data kernels: with the tap as scalar state and without, for any stride and for stride 1.

    scripts/bench/bench_dgrad_loops.py [--arch gfx950] [--dtype bf16] [--json]

One kernel per tile of a fixed list, with 16-byte accesses, compv3 and the shuffled epilogue. A kernel with
uniform_k_decode holds both loops; the lean one runs where tile_k divides the filters of a group. Nothing is timed but
emission and compilation. `divisions` counts integer-division sequences in a loop: there must be none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernel_loops import compiled, parser, show

from aot.inspection.hot_loop import kernel_statistics
from aot.toolchain import Toolchain, disassemble, find_toolchain, read_code_object
from grids.catalogue import buildable
from grids.gemm.records import Dgrad

#: Tiles (m, n, k), waves (m, n) and atom edge.
TILES = (
    (64, 64, 64, 2, 2, 32),
    (128, 64, 32, 2, 2, 32),
    (128, 128, 64, 2, 2, 32),
    (128, 128, 64, 2, 2, 16),
    (256, 128, 64, 2, 2, 32),
    (256, 256, 64, 4, 2, 32),
)
AXES = ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_tile_m")
FIGURES = ("mfma", "mfma_clk", "valu", "salu", "lds", "vmem", "mul_hi", "divisions", "scratch")


def identities(arch: str, dtype: str) -> Iterator[Any]:
    """For every tile the kernel for any stride and the one for stride 1."""
    table = buildable(arch, [dtype], ["dgrad"])
    common = table.equals("epilogue", "cshuffle") & table.equals("pipeline", "compv3")
    for width in ("vector_size_a", "vector_size_b", "vector_size_c"):
        common &= table.equals(width, 8)
    for tile in TILES:
        mask = common.copy()
        for axis, value in zip(AXES, tile, strict=True):
            mask &= table.equals(axis, value)
        rows = table.take(mask)
        for family in ("tilde", "stride1"):
            found = rows.take(rows.equals("family", family))
            if len(found):
                yield found.row(0)


def measure(toolchain: Toolchain, identity: Dgrad) -> Iterator[dict[str, Any]]:
    """One record per K loop, the lean one last."""
    made = compiled(toolchain, identity)
    kernel, described = kernel_statistics(disassemble(toolchain, made.code)), read_code_object(made.code)
    loops = sorted(kernel.loops, key=lambda loop: loop.mix.share)
    names = ("counted", "uniform") if len(loops) == 2 else ("counted",)
    for name, loop in zip(names, loops, strict=True):
        yield {
            "tile": "x".join(str(getattr(identity, axis)) for axis in AXES[:3]),
            "waves": f"{identity.warp_m}x{identity.warp_n}",
            "atom": identity.warp_tile_m,
            "strides": "one" if identity.folded else "any",
            "loop": name,
            "S": round(loop.mix.share, 3),
            **{figure: getattr(loop.mix, figure) for figure in FIGURES},
            "vgprs": described.vgprs,
            "sgprs": described.sgprs,
            "code_bytes": kernel.code_bytes,
            "emit_ms": round(made.emit_ms, 1),
            "compile_ms": round(made.compile_ms, 1),
        }


def main() -> None:
    """Print one line per loop."""
    options_of = parser(__doc__)
    options_of.add_argument("--arch", default="gfx950")
    options = options_of.parse_args()
    toolchain = find_toolchain()
    records = [
        record for identity in identities(options.arch, options.dtype) for record in measure(toolchain, identity)
    ]
    show(records, as_json=options.json)


if __name__ == "__main__":
    main()
