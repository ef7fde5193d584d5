"""Targets are data that can be relied on."""

from __future__ import annotations

import pytest

from cache_schema.errors import UnknownValueError
from grids.targets import target, targets


def test_known_targets() -> None:
    """The two buildable GPUs differ in LDS, in the depth of their atoms, and in what LDS can do."""
    old, new = target("gfx942"), target("gfx950")
    assert (old.lds_bytes, new.lds_bytes) == (64 * 1024, 160 * 1024)
    assert [(old.atom_k("bf16", edge), new.atom_k("bf16", edge)) for edge in (16, 32)] == [(16, 32), (8, 16)]
    assert (old.transpose_read, new.transpose_read) == (False, True)
    assert (old.async_dwords, new.async_dwords) == ((1,), (4, 3, 1))
    assert (old.cus, new.cus) == (304, 256)


def test_atom_k_is_zero_without_an_atom() -> None:
    """An edge or dtype without a matrix instruction has depth 0 and does not raise: the enumeration drops it."""
    assert target("gfx950").atom_k("bf16", 64) == 0
    assert target("gfx950").atom_k("int4", 16) == 0


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1151", "sm_90", "", "GFX950"])
def test_unknown_architecture(arch: str) -> None:
    """Any other name is an error that lists the known ones."""
    with pytest.raises(UnknownValueError, match="gfx942, gfx950"):
        target(arch)


def test_targets_are_read_only() -> None:
    """Targets are shared by everyone, so nobody can change them."""
    with pytest.raises(TypeError):
        target("gfx950").atoms["bf16"][16] = (1,)  # type: ignore[index]
    with pytest.raises(TypeError):
        targets()["gfx950"] = target("gfx942")  # type: ignore[index]
