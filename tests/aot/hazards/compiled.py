"""Kernels of ours, compiled now: some of those that the replay lists name."""

from __future__ import annotations

from collections.abc import Iterator

from aot.farm.results import Chunk, Compiled
from aot.farm.units import build_chunk
from aot.toolchain import Toolchain
from cache_schema.label import encode
from cache_schema.table import IdentityTable
from grids.families import families
from tests.aot.kernels import replay_lists


def compiled(arch: str, toolchain: Toolchain, every: int) -> Iterator[tuple[str, bytes, int]]:
    """(label, code object, threads of a workgroup) of every Nth kernel of each family's list."""
    for family in families().values():
        identities = replay_lists.sample(family, arch)[::every]
        table = IdentityTable.from_identities(identities)
        for row, result in build_chunk(Chunk(tuple(range(len(table))), table, toolchain)):
            assert result.emission is not None, result.made
            if result.made is not None:
                assert isinstance(result.made, Compiled), result.made
                yield encode(identities[row]), result.made.code, result.emission.block_size
