"""Forward kernels as code objects: they compile, keep their registers, loop leanly, and are right."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aot.families import emit
from aot.kernels.source import KernelSource
from aot.toolchain import Toolchain, find_toolchain, link, open_engine
from aot.toolchain.code_object import CodeObject, read
from aot.verification.verify import Task, verify_group
from cache_schema.cache_reader import Cache
from cache_schema.identity import Identity
from cache_schema.label import encode
from grids import geometry
from grids.catalogue import open_catalogue
from grids.targets import target
from tests.aot.samples import forward
from tests.aot.small_cache import write_small_cache

ARCHES = ("gfx950", "gfx942")


def spread(arch: str, dtype: str, count: int) -> list[Any]:
    """Identities spread over all axes of the forward grid."""
    table = open_catalogue(arch, [dtype], directions=["fwd"]).buildable(count)
    return [table.row(index) for index in range(len(table))]


def build(toolchain: Toolchain, identity: Identity) -> tuple[KernelSource, CodeObject]:
    """Source and code object of one kernel."""
    source = emit(identity, toolchain.flavor)
    engine = open_engine(toolchain, identity.arch, source.codegen_options)
    try:
        return source, read(link(toolchain, engine.compile(source.ir, source.passes)))
    finally:
        engine.close()


def check_resources(identity: Identity, source: KernelSource, code: CodeObject) -> None:
    """No spills, no scratch, and the launch facts that the source promised."""
    assert (code.vgpr_spills, code.sgpr_spills, code.scratch_bytes) == (0, 0, 0), encode(identity)
    assert code.lds_bytes == source.lds_bytes <= target(identity.arch).lds_bytes, encode(identity)
    assert code.kernarg_bytes == source.arguments.size


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_spread_sample_builds_without_spills(arch: str, dtype: str, local_toolchain: Toolchain) -> None:
    """Kernels over all axes compile and link, and keep every register; LDS and arguments are as promised."""
    for identity in spread(arch, dtype, 16):
        check_resources(identity, *build(local_toolchain, identity))


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHES)
def test_a_large_sample_builds_without_spills(arch: str, local_toolchain: Toolchain) -> None:
    """The same for two thousand kernels."""
    for identity in spread(arch, "bf16", 2000):
        check_resources(identity, *build(local_toolchain, identity))


@pytest.mark.parametrize("arch", ARCHES)
def test_every_kernel_fits_lds(arch: str) -> None:
    """A row table is only placed where LDS has room for it: no sampled kernel exceeds the target's LDS."""
    for identity in spread(arch, "bf16", 150):
        source = emit(identity, "llvm22")
        assert geometry.lds_of_identity(identity).total_bytes <= source.lds_bytes <= target(arch).lds_bytes


REFERENCE = {
    "128x128x64": forward(
        tile_m=128, tile_n=128, tile_k=64, warp_tile_m=32, warp_tile_n=32, warp_tile_k=16,
        pipeline="compv4", vector_size_a=8, vector_size_b=8,
    ),
    "256x256x64": forward(
        tile_m=256, tile_n=256, tile_k=64, warp_tile_m=32, warp_tile_n=32, warp_tile_k=16,
        pipeline="compv4", vector_size_a=8, vector_size_b=8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE)
def test_nothing_is_divided(name: str) -> None:
    """No division instruction is emitted, and no high product (of a division by multiplication) inside a K loop."""
    text = emit(REFERENCE[name], "llvm22").ir
    assert not re.search(r"= [us](div|rem) ", text)
    loops = re.findall(r"^(k\d+):\n(.*?)label %\1,", text, re.MULTILINE | re.DOTALL)
    assert len(loops) == 2
    assert all("zext" not in body and "mfma" in body for _, body in loops)


def test_loads_stand_before_stores() -> None:
    """In a K loop that stages through registers all global loads of a tile come before the first write to LDS."""
    text = emit(forward(pipeline="mem", vector_size_a=4, vector_size_b=4), "llvm22").ir
    for body in re.findall(r"^k\d+:\n(.*?)s\.barrier", text, re.MULTILINE | re.DOTALL):
        loads = [match.start() for match in re.finditer(r"raw\.ptr\.buffer\.load", body)]
        stores = [match.start() for match in re.finditer(r"store .*addrspace\(3\)", body)]
        assert loads
        assert max(loads) < min(stores)


def test_extents_are_not_in_the_text() -> None:
    """Identity and flavor are all that a builder is given; equal ones give equal text, and flavors differ."""
    identity = forward()
    assert emit(identity, "llvm22") == emit(identity, "llvm22")
    assert emit(identity, "llvm20").ir != emit(identity, "llvm22").ir


#: Every pipeline, epilogue and way to hold rows, with narrow and wide accesses, on both architectures.
PROVED = [
    forward("gfx950", tile_m=64, tile_n=32, warp_n=1, vector_size_a=2, vector_size_b=1, pipeline="compv3"),
    forward("gfx950", pipeline="compv4", epilogue="cshuffle", vector_size_c=8, vector_size_a=8, vector_size_b=8),
    forward("gfx950", pipeline="compv3", unroll_k=True, epilogue="cshuffle", vector_size_c=2),
    forward("gfx950", unroll_k=True, tile_m=32, warp_m=1, vector_size_a=1, vector_size_b=1),
    forward("gfx950", async_dma=True, async_chunk_a=2, async_chunk_b=8, tile_k=64, tile_m=32, warp_m=1),
    forward("gfx950", tile_m=128, tile_k=64, warp_m=1, vector_size_a=1, vector_size_b=8, epilogue="cshuffle"),
    forward("gfx942", async_dma=True, async_chunk_a=2, async_chunk_b=2, warp_tile_m=32, warp_tile_n=32, warp_tile_k=8),
    forward("gfx942", pipeline="compv4", warp_tile_m=32, warp_tile_n=32, warp_tile_k=8, vector_size_a=8),
    forward("gfx942", pipeline="compv3", tile_k=16, epilogue="cshuffle", vector_size_c=4),
]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ARCHES)
def test_kernels_are_right(arch: str, dtype: str, tmp_path: Path) -> None:
    """Executed instruction by instruction on problems that reach every edge, each kernel gives the float64 result."""
    identities = [
        replace(identity, dtype_a=dtype, dtype_b=dtype, dtype_d=dtype) for identity in PROVED if identity.arch == arch
    ]
    cache_path = write_small_cache(tmp_path / "proof.rocke", find_toolchain(), identities)
    task = Task(cache_path, None, "llvm", 0)
    with Cache.open(cache_path) as cache:
        assert len(cache.table) == len(identities)
        for number in range(len(cache.table)):
            verdict = verify_group(task, cache, (number,))
            assert verdict["verdict"] == "right", verdict["message"]
            assert len(verdict["cases"]) >= 6
