"""Where the offsets of buffer instructions are: readings of the range check differ on whether scalar ones count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from aot.families import emit
from aot.toolchain import disassemble, find_toolchain, link, open_engine
from cache_schema.identity import Identity
from grids.catalogue import buildable
from grids.families import families
from tests.aot.samples import fix_up_identity, reduce_identity

_SCALAR_OFFSET = re.compile(r"s\[\d+:\d+\], (?P<offset>\S+)")


def epilogues(arch: str, dtype: str) -> Iterator[Identity]:
    """Every way to write results, as the smallest tile of a spread over each family has it; tiles repeat them."""
    seen = set()
    for family in families().values():
        if family.is_step:
            continue
        table = buildable(arch, [dtype], [family.direction], [family.name], limit=150)
        identities: list[Any] = [
            table.row(index) for index in range(len(table)) if table.row(index).family == family.name
        ]
        for identity in sorted(identities, key=lambda one: one.tile_m * one.tile_n):
            kind = family.name, identity.epilogue, identity.vector_size_c, identity.warp_tile_m
            if kind not in seen:
                seen.add(kind)
                yield identity
    yield from (reduce_identity(arch, dtype, 8), fix_up_identity(arch, dtype))


@pytest.mark.parametrize(
    ("arch", "dtype"),
    [
        ("gfx950", "bf16"),
        ("gfx942", "fp16"),
        pytest.param("gfx950", "fp16", marks=pytest.mark.full),
        pytest.param("gfx942", "bf16", marks=pytest.mark.full),
    ],
)
def test_stores_and_atomics_have_no_scalar_offset(arch: str, dtype: str) -> None:
    """The scalar offset of everything that writes is a literal.

    So what is written does not depend on whether scalar offsets are range checked, and no wide store is of the kind
    whose wait state LLVM 22 misses.
    """
    toolchain, engines, found = find_toolchain(), {}, 0
    for identity in epilogues(arch, dtype):
        source = emit(identity, toolchain.flavor)
        if source.codegen_options not in engines:
            engines[source.codegen_options] = open_engine(toolchain, arch, source.codegen_options)
        code = link(toolchain, engines[source.codegen_options].compile(source.ir, source.passes))
        for instruction in disassemble(toolchain, code):
            if instruction.mnemonic.startswith(("buffer_store", "buffer_atomic")):
                place = _SCALAR_OFFSET.search(instruction.operands)
                assert place is not None, instruction
                assert place["offset"].isdecimal(), (identity, instruction)
                found += 1
    assert found > 500
