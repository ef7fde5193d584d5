#!/usr/bin/env python3
"""What prefetched addresses and K-outer LDS tiles make of the K loops of backward-weights kernels.

    scripts/bench/bench_wgrad_loop.py [--dtype bf16] [--json]

One line per tile, pipeline and architecture, with and without each option; nothing is timed. S is the share of matrix
instructions in the issue time of the loop (aot.inspection.hot_loop), "before loads" the vector instructions in front of
its last global load: what stands between a barrier and the loads of the next tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from kernel_loops import compiled, parser, show

from aot.inspection.hot_loop import kernel_statistics
from aot.toolchain import Toolchain, disassemble, find_toolchain, read_code_object
from grids.families.nonsplit import Nonsplit
from grids.geometry import lds_of_identity
from grids.targets import target

#: Tiles (m, n, k) and waves (m, n).
TILES = ((64, 64, 64, 2, 2), (128, 128, 32, 2, 2), (128, 128, 64, 2, 2), (256, 128, 32, 2, 2))


def identities(arch: str, dtype: str) -> Iterator[Nonsplit]:
    """Kernels with the widest accesses that fit in LDS."""
    turned = (False, True) if target(arch).transpose_read else (False,)
    for tile, pipeline, k_outer, ahead in product(TILES, ("mem", "compv3"), turned, (False, True)):
        identity = Nonsplit(
            arch, dtype, dtype, dtype,
            tile_m=tile[0], tile_n=tile[1], tile_k=tile[2], warp_m=tile[3], warp_n=tile[4],
            warp_tile_m=16, warp_tile_n=16, warp_tile_k=target(arch).atom_k(dtype, 16), pipeline=pipeline,
            epilogue="cshuffle", vector_size_a=8, vector_size_b=8, vector_size_c=8, lds_k_outer=k_outer,
            prefetch_addr=ahead,
        )  # fmt: skip
        if lds_of_identity(identity).total_bytes <= target(arch).lds_bytes:
            yield identity


def record(toolchain: Toolchain, identity: Nonsplit) -> dict[str, Any]:
    """The loop of one kernel in figures."""
    code = compiled(toolchain, identity).code
    instructions = disassemble(toolchain, code)
    hot = kernel_statistics(instructions).hot_loop
    assert hot is not None
    body = [i.mnemonic for i in instructions if any(start <= i.address < end for start, end in hot.spans)]
    last_load = max(at for at, name in enumerate(body) if name.startswith("buffer_load"))
    return {
        "arch": identity.arch,
        "tile": f"{identity.tile_m}x{identity.tile_n}x{identity.tile_k}",
        "pipeline": identity.pipeline,
        "K-outer": identity.lds_k_outer,
        "prefetch_addr": identity.prefetch_addr,
        "S": round(hot.mix.share, 3),
        "mfma": hot.mix.mfma,
        "valu": hot.mix.valu,
        "before loads": sum(name.startswith("v_") for name in body[:last_load]),
        "lds": hot.mix.lds,
        "waits": hot.mix.waits,
        "VGPRs": read_code_object(code).vgprs,
    }


def main() -> None:
    options = parser(__doc__).parse_args()
    toolchain = find_toolchain()
    rows = [record(toolchain, i) for arch in ("gfx950", "gfx942") for i in identities(arch, options.dtype)]
    show(rows, as_json=options.json)


if __name__ == "__main__":
    main()
