"""Kernels of all families for tests: usual ones by name, random ones, and spoilt ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from cache_schema.identity import Identity, Value, schema_of
from cache_schema.table import IdentityTable, concat
from grids.axes import load_axes
from grids.families import families, known_family, select
from grids.rules import evaluate
from grids.targets import target

#: A square tile of 2 x 2 waves with 32 x 32 atoms and widest loads; what a family cannot have of it is left out.
USUAL: dict[str, Value] = {
    "tile_m": 128, "tile_n": 128, "tile_k": 64, "warp_m": 2, "warp_n": 2, "warp_tile_m": 32, "warp_tile_n": 32,
    "vector_size_a": 8, "vector_size_b": 8, "vector_size_c": 8, "epilogue": "cshuffle",
    "group_merge": 2,
}  # fmt: skip
#: Kernels that add into a workspace store from registers.
FROM_REGISTERS: dict[str, Value] = {"epilogue": "default", "vector_size_c": 1}
#: Reduction of the deepest 32 x 32 matrix instruction.
ATOM_DEPTH = {"gfx950": 16, "gfx942": 8}


def kernel(family: str, **fields: Value) -> Identity:
    """A usual kernel of a family for gfx950 and bf16, with some fields changed. An atom is as deep as `arch` has it."""
    schema = known_family(family).schema
    values = USUAL | {"arch": "gfx950", "dtype_a": "bf16", "dtype_b": "bf16", "dtype_d": "bf16"}
    values["warp_tile_k"] = ATOM_DEPTH[str(fields.get("arch", "gfx950"))]
    if family in ("two_stage", "merged"):
        values |= FROM_REGISTERS
    usual: dict[str, Any] = {name: value for name, value in values.items() if name in schema.by_name}
    return schema.record(**(usual | fields))


@cache
def candidates(arch: str, dtype: str, family: str) -> IdentityTable:
    """Every candidate of a family with the axes of the catalogue."""
    return known_family(family).candidates(target(arch), dtype, load_axes()[family])


def candidates_of(arch: str, dtype: str, direction: str) -> IdentityTable:
    """Every candidate of a direction, families in order."""
    return concat([candidates(arch, dtype, family.name) for family in select([direction])])


def sample(rng: random.Random, per_family: int, arches: Sequence[str] = ("gfx950", "gfx942")) -> list[Identity]:
    """Random candidates of every family, architecture and dtype, buildable or not, in random order."""
    found = []
    for family in families():
        for arch in arches:
            table = candidates(arch, rng.choice(("bf16", "fp16")), family)
            found += [table.row(rng.randrange(len(table))) for _ in range(per_family)]
    rng.shuffle(found)
    return found


def buildable(family: str, arch: str, rng: random.Random, count: int) -> list[Identity]:
    """Random kernels of a family that no rule refuses."""
    table = candidates(arch, "bf16", family)
    rows = evaluate(table).buildable.nonzero()[0].tolist()
    return [table.row(rng.choice(rows)) for _ in range(count)]


def spoilt(identity: Identity, rng: random.Random, changes: int) -> Identity:
    """A copy with random values, each within the bounds that the record states, in random fields behind the keys."""
    schema = schema_of(identity)
    values: dict[str, Any] = {}
    axes = [entry for entry in schema.fields if entry.axis]
    for entry in rng.sample(axes, min(changes, len(axes))):
        assert entry.axis
        if entry.kind == "bool":
            values[entry.name] = rng.random() < 0.5
        elif entry.kind == "str":
            values[entry.name] = rng.choice(entry.axis.words)
        else:
            wanted = rng.choice((0, 1, 2, 3, 4, 6, 8, 16, 32, 48, 64, 256, 512))
            values[entry.name] = min(max(wanted, entry.axis.least), entry.axis.most)
    return schema.record(**{name: values.get(name, getattr(identity, name)) for name in schema.names})
