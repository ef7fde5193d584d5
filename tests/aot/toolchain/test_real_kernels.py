"""The kernels that we ship, through every engine and both linkers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aot.families import emit
from aot.toolchain import Toolchain, disassemble, find_toolchain, link, open_engine, read_code_object
from aot.toolchain.link import link_with_lld
from aot.toolchain.linker import link_object
from cache_schema.identity import Identity
from grids.catalogue import buildable

#: What chooses other code paths of the builder; extents of tiles only repeat them.
VARIANT_FIELDS = ("dtype_a", "pipeline", "epilogue", "async_dma", "unroll_k")
WIDTH_FIELDS = ("vector_size_a", "vector_size_b", "vector_size_c")


def spread(arch: str, limit: int) -> list[Identity]:
    table = buildable(arch, ["bf16"], ["fwd"], limit=limit)
    return [table.row(index) for index in range(len(table))]


def one_of_each(arch: str, fields: tuple[str, ...]) -> Iterator[Identity]:
    """The first of the smaller kernels with each combination of `fields`, in the order of the catalogue."""
    seen = set()
    table = buildable(arch, directions=["fwd"], limit=4000)
    for index in range(len(table)):
        identity: Any = table.row(index)
        variant = tuple(getattr(identity, name) for name in fields)
        if identity.tile_m * identity.tile_n <= 64 * 64 and variant not in seen:
            seen.add(variant)
            yield identity


def check(arch: str, identities: list[Identity], system: Toolchain, python_only: Toolchain) -> None:
    """Every engine gives one object per kernel, and both linkers one code object that reads and disassembles whole."""
    for identity in identities:
        source = emit(identity, system.flavor)
        options = source.codegen_options
        engines = [open_engine(system, arch, options, "libllvm"), open_engine(system, arch, options, "clang")]
        engines.append(open_engine(python_only, arch, options))
        objects = {engine.compile(source.ir, source.passes) for engine in engines}
        assert len(objects) == 1, identity
        obj = objects.pop()
        code = link(system, obj)
        assert code == link_object(obj, system.linker_version) == link_with_lld(system, obj), identity
        kernel = read_code_object(code)
        assert {argument.name: argument.offset for argument in kernel.arguments} == source.arguments.offsets
        assert kernel.max_flat_workgroup_size == source.block_size
        assert sum(instruction.size for instruction in disassemble(system, code)) == kernel.code_bytes


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_sample(arch: str, llvm22: Toolchain, llvmlite22: Toolchain) -> None:
    """A few forward kernels spread over the grid."""
    identities = spread(arch, 5)
    assert identities
    check(arch, identities, llvm22, llvmlite22)


@pytest.mark.full
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_every_variant(arch: str, llvm22: Toolchain, llvmlite22: Toolchain) -> None:
    """One kernel of every variant, and of every combination of access widths."""
    identities = [*one_of_each(arch, VARIANT_FIELDS), *one_of_each(arch, WIDTH_FIELDS)]
    assert len(identities) > 40
    check(arch, identities, llvm22, llvmlite22)


def test_default_toolchain_links_all_of_them_itself() -> None:
    """No kernel of ours needs the linker process."""
    toolchain = find_toolchain()
    for identity in spread("gfx950", 5):
        source = emit(identity, toolchain.flavor)
        obj = open_engine(toolchain, "gfx950", source.codegen_options).compile(source.ir, source.passes)
        assert link_object(obj, toolchain.linker_version) == link(toolchain, obj)
