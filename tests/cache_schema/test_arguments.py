"""Argument lists lay out and pack as C does."""

from __future__ import annotations

import ctypes
from itertools import product

import pytest

from cache_schema.arguments import KINDS, Argument, ArgumentError, ArgumentList

C_TYPES = {"ptr": ctypes.c_uint64, "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64}
EXTREMES = {"ptr": 2**64 - 1, "i32": -(2**31), "u32": 2**32 - 1, "i64": -(2**63)}


@pytest.mark.parametrize("kinds", list(product(KINDS, repeat=3)), ids="-".join)
def test_layout_and_bytes_are_those_of_c(kinds: tuple[str, ...]) -> None:
    """ctypes structures, an oracle of another origin, have the same offsets, size and bytes."""
    names = [f"a{position}" for position in range(len(kinds))]
    arguments = ArgumentList(tuple(map(Argument, names, kinds)))
    structure = type(
        "S", (ctypes.Structure,), {"_fields_": [(n, C_TYPES[k]) for n, k in zip(names, kinds, strict=True)]}
    )
    assert arguments.offsets == {name: getattr(structure, name).offset for name in names}
    values = {name: EXTREMES[kind] for name, kind in zip(names, kinds, strict=True)}
    packed = arguments.pack(values)
    assert len(packed) == arguments.size
    # C rounds the size of a structure up to its alignment; a kernel argument segment ends with its last argument.
    assert bytes(structure(*values.values()))[: arguments.size] == packed


def test_json_round_trip() -> None:
    """A list survives JSON, and the empty list is one."""
    arguments = ArgumentList((Argument("x", "ptr"), Argument("n", "i32")))
    assert ArgumentList.from_json(arguments.to_json()) == arguments
    assert ArgumentList.from_json([]).size == 0
    assert ArgumentList(()).pack({}) == b""


@pytest.mark.parametrize(
    "values", [{}, {"n": 1}, {"n": 1, "x": 2, "z": 3}, {"n": 2**31, "x": 0}, {"n": True, "x": 0}, {"n": 1, "x": -1}]
)
def test_wrong_values_are_refused(values: dict[str, int]) -> None:
    """Missing, surplus and unfitting values raise instead of shifting the others."""
    with pytest.raises(ArgumentError):
        ArgumentList((Argument("x", "ptr"), Argument("n", "i32"))).pack(values)


def test_wrong_lists_are_refused() -> None:
    """Unknown kinds, repeated names and malformed JSON raise."""
    with pytest.raises(ArgumentError, match="kind"):
        Argument("x", "f32")
    with pytest.raises(ArgumentError, match="repeat"):
        ArgumentList((Argument("x", "ptr"), Argument("x", "i32")))
    for data in ([["x"]], [1], [["x", "ptr", 3]]):
        with pytest.raises(ArgumentError):
            ArgumentList.from_json(data)
