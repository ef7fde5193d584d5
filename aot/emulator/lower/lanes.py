"""Data between lanes: readlane, writelane, swaps and the LDS crossbar (permute, bpermute, swizzle)."""

from __future__ import annotations

from aot.emulator import faults
from aot.emulator.decode.form import Form
from aot.emulator.errors import UnknownInstructionError
from aot.emulator.isa.values import LANES, Value, select
from aot.emulator.lower.machine import Machine
from aot.emulator.state import layout


def lower_lane(m: Machine, form: Form) -> None:
    def source(slot: int) -> Value:
        return m.vector(slot) if form.kinds[slot] == "v" else m.scalar(slot)

    if form.modifiers:
        raise UnknownInstructionError("unknown modifier", form.name)
    if form.name == "v_readfirstlane_b32":
        # With no lane active the first lane is lane 0.
        active = m.cell64(layout.EXEC)
        first = active.ctz().to("u32") & (LANES - 1)
        m.set_scalar(0, 0, _lane(m, source(1), first))
    elif form.name == "v_readlane_b32":
        m.set_scalar(0, 0, _lane(m, source(1), m.scalar(2) & (LANES - 1)))
    else:
        assert form.name == "v_writelane_b32", form.name
        lane = m.ops.lane_ids().eq(m.scalar(2) & (LANES - 1))
        m.set_vector(0, 0, source(1), lane)


def _lane(m: Machine, value: Value, lane: Value) -> Value:
    return value if value.lanes == 1 else m.ops.read_lane(value, lane)


def lower_swap(m: Machine, form: Form) -> None:
    """v_swap, and the gfx950 swaps between rows: odd rows of D with even rows of S (16), high half with low half
    (32)."""
    a, b, mask = m.vector(0), m.vector(1), m.exec_mask()
    if form.name == "v_swap_b32":
        m.set_vector(0, 0, b, mask)
        m.set_vector(1, 0, a, mask)
        return
    # The manual's loops do not look at EXEC, its general rule does: nobody knows what lanes that are off do.
    m.refuse(m.cell64(layout.EXEC).ne(-1), faults.PARTIAL_EXEC)
    span = 32 if "32" in form.name.split("_")[1] else 16
    up = [lane ^ span for lane in range(LANES)]
    odd = m.constant_mask([bool(lane & span) for lane in range(LANES)])
    new_a = select(odd, m.ops.shuffle(b, up), a)
    new_b = select(odd, b, m.ops.shuffle(a, up))
    m.set_vector(0, 0, new_a, mask)
    m.set_vector(1, 0, new_b, mask)


def lower_lane_exchange(m: Machine, form: Form) -> None:
    """Through the LDS crossbar; a lane that is masked off gives 0."""
    mask = m.exec_mask()
    if form.name == "ds_swizzle_b32":
        pattern = form.get("pattern")
        source = select(mask, m.vector(1), 0)
        m.set_vector(0, 0, m.ops.shuffle(source, pattern), mask)
    elif form.name == "ds_bpermute_b32":
        lane = ((m.vector(1) + m.number(3)) >> 2) & (LANES - 1)
        m.set_vector(0, 0, m.ops.permute(select(mask, m.vector(2), 0), lane), mask)
    else:
        assert form.name == "ds_permute_b32", form.name
        target = ((m.vector(1) + m.number(3)) >> 2) & (LANES - 1)
        data, result = m.vector(2), m.ops.splat(m.ops.const(0, "u32"))
        ids, active = m.ops.lane_ids(), select(mask, m.ops.const(1, "u32"), 0)
        # The highest active lane that names a target wins.
        for source_lane in range(LANES):
            number = m.ops.const(source_lane, "u32")
            on = m.ops.read_lane(active, number).ne(0)
            hit = ids.eq(m.ops.read_lane(target, number)) & on
            result = select(hit, m.ops.read_lane(data, number), result)
        m.set_vector(0, 0, result, mask)
    m.issued("lgkm")
