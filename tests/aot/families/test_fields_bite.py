"""No field of an identity is an ornament: it changes the code, or bounds what the code may be launched on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aot.families import emit
from cache_schema.identity import CAPABILITY, Field, Identity, schema_of, with_fields
from cache_schema.table import IdentityTable
from grids.catalogue import buildable
from grids.families import families
from grids.rules import evaluate
from grids.selection import spread

SAMPLE = 12
CODE = [
    (name, field)
    for name, family in families().items()
    for field in family.schema.fields
    if field.axis and field.role != CAPABILITY
]
PROMISES = [
    (name, field) for name, family in families().items() for field in family.schema.fields if field.role == CAPABILITY
]


def sample(name: str) -> IdentityTable:
    """Kernels of a family spread over all its axes."""
    table = buildable("gfx950", ["bf16"], [families()[name].direction], [name])
    return spread(table.take(table.of_families([name])), SAMPLE)


def others(table: IdentityTable, field: Field) -> Iterator[tuple[Identity, Identity]]:
    """Kernels of the table, and the same with another value of a field as the rules let it pass."""
    values: list[Any] = [False, True]
    if field.kind != "bool":
        usual = {1, 2, 4, 8, *np.unique(table.wide(field.name)).tolist()} if field.kind == "int" else set()
        values = sorted(usual) or sorted(set(table.strings(field.name)) | set(field.axis.words if field.axis else ()))
    for row in range(len(table)):
        identity = table.row(row)
        for value in values:
            if value != getattr(identity, field.name):
                changed = with_fields(identity, **{field.name: value})
                if evaluate(IdentityTable.from_identities([changed])).buildable[0]:
                    yield identity, changed


@pytest.mark.parametrize(("name", "field"), CODE, ids=lambda value: getattr(value, "name", value))
def test_configuration_changes_the_code(name: str, field: Field) -> None:
    """For some kernel another value is another kernel; where no other value may be, the family has it fixed."""
    pairs = list(others(sample(name), field))
    if not pairs:  # given by the rest, such as single stores from registers
        assert schema_of(sample(name).row(0)).by_name[field.name] == field
        assert field.name in (
            "warp_tile_m",
            "warp_tile_n",
            "epilogue",
            "vector_size_c",
            "async_chunk_a",
            "async_chunk_b",
            "async_dma",
        )
        return
    assert any(emit(left, "llvm22").ir != emit(right, "llvm22").ir for left, right in pairs[: 4 * SAMPLE])


@pytest.mark.parametrize(("name", "field"), PROMISES, ids=lambda value: getattr(value, "name", value))
def test_capabilities_do_not(name: str, field: Field) -> None:
    """What only bounds the problems shares its code."""
    pairs = list(others(sample(name), field))
    assert pairs
    assert all(emit(left, "llvm22").ir == emit(right, "llvm22").ir for left, right in pairs[:SAMPLE])


def test_there_are_both_roles() -> None:
    """Neither test above is empty."""
    assert len(CODE) > 100
    assert PROMISES
