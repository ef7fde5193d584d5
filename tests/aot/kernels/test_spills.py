"""No kernel keeps registers in memory: looked for where registers are shortest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aot.families import emit
from aot.toolchain import Toolchain, link, open_engine, read_code_object
from aot.verification.session import VerifyRequest, verify
from cache_schema.identity import Identity
from cache_schema.label import decode, encode
from grids.catalogue import buildable
from grids.targets import target
from tests.aot.small_cache import write_small_cache

#: What LLVM spilled once: accumulators in all accumulation registers, rounded through LDS from direct-to-LDS loops;
#: prefetched single elements beside 128 accumulators in ordinary registers; 1,024 threads that share the register file
#: out so that a K loop with narrow loads has no room to spare; waves of sixteen row fragments whose second k step is
#: read with the first one, behind a prefetched tile; and forward kernels that kept the place of their weights in front
#: of both K loops where the estimate left 4 registers or none.
CROWDED = (
    "fwd:implicit_gemm:gfx942:fp16:tile=128x128x32:warps=1x1:atom=16x16x16:epi=cshuffle:vec=8x8x4:async:chunk=2x2",
    "fwd:implicit_gemm:gfx942:fp16:tile=256x128x32:warps=2x1:atom=16x16x16:epi=cshuffle:vec=2x2x2:async:chunk=2x2",
    "fwd:implicit_gemm:gfx942:fp16:tile=64x256x32:warps=1x1:atom=16x16x16:epi=cshuffle:vec=4x4x2:async:chunk=2x2",
    "fwd:implicit_gemm:gfx942:fp16:tile=256x256x16:warps=8x1:atom=16x16x16:pipe=compv3:vec=1x1x1",
    "fwd:implicit_gemm:gfx942:bf16:tile=256x256x16:warps=8x1:atom=16x16x16:pipe=compv4:vec=1x1x1",
    "wgrad:nonsplit:gfx942:fp16:tile=256x256x32:warps=2x8:atom=16x16x16:pipe=compv4:vec=4x1x1",
    "wgrad:nonsplit:gfx942:fp16:tile=256x256x32:warps=2x8:atom=16x16x16:vec=4x1x1",
    "wgrad:nonsplit:gfx950:fp16:tile=256x256x64:warps=8x2:atom=16x16x32:pipe=compv4:vec=1x1x1:kouter",
    "wgrad:two_stage:gfx950:fp16:tile=256x256x64:warps=2x8:atom=16x16x32:vec=2x1x1:kouter",
    "fwd:implicit_gemm:gfx942:fp16:tile=256x128x64:warps=1x2:atom=16x16x16:pipe=compv4:epi=cshuffle:vec=8x8x1",
    "fwd:implicit_gemm:gfx942:bf16:tile=256x128x64:warps=1x2:atom=16x16x16:pipe=compv3:vec=8x8x1",
    "fwd:implicit_gemm:gfx942:fp16:tile=256x256x32:warps=1x8:atom=16x16x16:pipe=compv3:vec=2x2x1",
    "fwd:implicit_gemm:gfx942:fp16:tile=256x256x32:warps=2x8:atom=16x16x16:vec=8x8x1",
    "fwd:implicit_gemm:gfx942:fp16:tile=256x64x32:warps=1x1:atom=32x32x8:pipe=compv3:vec=8x8x1:unroll",
)
FULL_SHARE = 0.5


def spills(toolchain: Toolchain, identities: list[Identity]) -> list[str]:
    """The kernels that have scratch memory."""
    engines, found = {}, []
    for identity in identities:
        source = emit(identity, toolchain.flavor)
        kind = identity.arch, source.codegen_options
        if kind not in engines:
            engines[kind] = open_engine(toolchain, *kind)
        code = read_code_object(link(toolchain, engines[kind].compile(source.ir, source.passes)))
        if code.scratch_bytes or code.vgpr_spills or code.sgpr_spills:
            found.append(encode(identity))
    return found


def crowded(arch: str, dtype: str, direction: str, count: int) -> list[Identity]:
    """Kernels whose accumulators fill half of a lane's share of the register file, which is all that they may."""
    table = buildable(arch, [dtype], [direction])
    column = {name: table.wide(name) for name in ("tile_m", "tile_n", "warp_m", "warp_n")}
    # Second steps have no waves.
    threads = np.maximum(1, column["warp_m"] * column["warp_n"] * target(arch).wave_size)
    share = 512 // -(-threads // 256)  # as `aot.kernels.budget` has it
    rows = np.flatnonzero(column["tile_m"] * column["tile_n"] >= FULL_SHARE * share * threads)
    chosen = np.random.default_rng(11).choice(rows, count, replace=False)
    return [table.row(int(row)) for row in chosen]


def test_what_once_spilled_does_not(local_toolchain: Toolchain) -> None:
    """The kernels that are known to have spilled keep their registers."""
    assert spills(local_toolchain, [decode(label) for label in CROWDED]) == []


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize(("arch", "dtype"), [("gfx942", "fp16"), ("gfx950", "bf16")])
def test_crowded_kernels_do_not_spill(arch: str, dtype: str, direction: str, local_toolchain: Toolchain) -> None:
    """A few of the kernels with the most accumulators that a lane may have."""
    assert spills(local_toolchain, crowded(arch, dtype, direction, 4)) == []


@pytest.mark.full
@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_many_crowded_kernels_do_not_spill(arch: str, dtype: str, direction: str, local_toolchain: Toolchain) -> None:
    """The same for a thousand of each."""
    assert spills(local_toolchain, crowded(arch, dtype, direction, 1000)) == []


def test_crowded_kernels_are_right(tmp_path: Path, local_toolchain: Toolchain) -> None:
    """What keeps registers free, such as finding a thread's place again behind the loop, computes the same."""
    for labels in ((2, 3, 6, 11, 12), (7,)):  # one cache per GPU
        cache = write_small_cache(tmp_path / "c.rocke", local_toolchain, [decode(CROWDED[number]) for number in labels])
        summary = verify(VerifyRequest(cache, jobs=1), lambda _left, _summary: None)
        assert [failure["message"] for failure in summary.failures] == []
        assert summary.right == len(labels)
