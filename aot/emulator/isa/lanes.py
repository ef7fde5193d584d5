"""Instructions that move data between lanes, or between lanes and scalar registers."""

from __future__ import annotations

from aot.emulator.isa.spec import ONLY_950, Table

LANES_TABLE = Table("lane")
add = LANES_TABLE.add


def _lowered_by_unit() -> None:
    """These have no per-lane function: `lower.lanes` states them whole."""


add("v_readfirstlane_b32", "s32 = u32", _lowered_by_unit)
add("v_readlane_b32", "s32 = u32 u32", _lowered_by_unit)
add("v_writelane_b32", "u32 = u32 u32 @u32", _lowered_by_unit)
add("v_swap_b32", "u32 = u32", _lowered_by_unit, unit="swap_lanes")
add("v_permlane32_swap_b32", "u32 = u32", _lowered_by_unit, unit="swap_lanes", targets=ONLY_950)
add("v_permlane16_swap_b32", "u32 = u32", _lowered_by_unit, unit="swap_lanes", targets=ONLY_950)
