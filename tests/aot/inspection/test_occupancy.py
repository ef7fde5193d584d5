"""Occupancy of register and LDS budgets, against values worked out by hand from the hardware's limits."""

from __future__ import annotations

import pytest

from aot.inspection.occupancy import Occupancy, occupancy


@pytest.mark.parametrize(
    ("arch", "vgprs", "sgprs", "lds_bytes", "block", "expected"),
    [
        ("gfx950", 64, 40, 0, 256, Occupancy(8, 8, "waves")),
        ("gfx950", 65, 40, 0, 256, Occupancy(7, 7, "vector registers")),
        ("gfx950", 128, 40, 0, 256, Occupancy(4, 4, "vector registers")),
        ("gfx950", 254, 40, 0, 256, Occupancy(2, 2, "vector registers")),
        ("gfx950", 512, 40, 0, 512, Occupancy(0, 0, "vector registers")),
        ("gfx950", 512, 40, 0, 256, Occupancy(1, 1, "vector registers")),
        ("gfx950", 32, 112, 0, 64, Occupancy(7, 28, "scalar registers")),
        ("gfx950", 32, 40, 40 * 1024, 256, Occupancy(4, 4, "lds")),
        ("gfx950", 32, 40, 160 * 1024, 1024, Occupancy(4, 1, "lds")),
        ("gfx942", 32, 40, 36864, 256, Occupancy(1, 1, "lds")),
        ("gfx942", 32, 40, 16 * 1024, 64, Occupancy(1, 4, "lds")),
        ("gfx942", 16, 40, 0, 128, Occupancy(8, 16, "waves")),
        ("gfx942", 32, 40, 70000, 256, Occupancy(0, 0, "lds")),
    ],
)
def test_by_hand(arch: str, vgprs: int, sgprs: int, lds_bytes: int, block: int, expected: Occupancy) -> None:
    """Each resource in turn is the one that limits."""
    assert occupancy(arch, vgprs=vgprs, sgprs=sgprs, lds_bytes=lds_bytes, block_size=block) == expected
