"""Vector operands and results: sign modifiers, op_sel, SDWA, DPP, clamp, denormal modes."""

from __future__ import annotations

from aot.emulator.decode.form import Form
from aot.emulator.isa.spec import Spec
from aot.emulator.isa.values import BITS, Value, high16, high32, is_float, low16, low32, pack64, select
from aot.emulator.lower.clamp import clamp_float, clamped_integer
from aot.emulator.lower.machine import Machine


def dpp_sources(control: tuple[str, object]) -> tuple[list[int], list[bool]]:
    """For each lane the lane that DPP reads, and whether that lane exists."""
    kind, amount = control
    sources, valid = [], []
    for lane in range(64):
        row, column = lane & ~15, lane & 15
        source, ok = lane, True
        if kind == "quad_perm":
            assert isinstance(amount, tuple)
            source = (lane & ~3) + amount[lane & 3]
        elif kind == "row_mirror":
            source = row + 15 - column
        elif kind == "row_half_mirror":
            source = (lane & ~7) + 7 - (lane & 7)
        else:
            assert isinstance(amount, int)
            if kind == "row_shl":
                source, ok = lane + amount, column + amount < 16
            elif kind == "row_shr":
                source, ok = lane - amount, column >= amount
            elif kind == "row_ror":
                source = row + (column - amount) % 16
            elif kind == "row_newbcast":
                source = row + amount
            elif kind == "row_bcast":
                # 15: the last lane of each row to the next row; 31: lane 31 to rows 2 and 3.
                source, ok = (row - 1, lane >= 16) if amount == 15 else (31, lane >= 32)
            elif kind == "wave_shl":
                source, ok = lane + 1, lane < 63
            elif kind == "wave_shr":
                source, ok = lane - 1, lane > 0
            elif kind == "wave_rol":
                source = (lane + 1) % 64
            else:
                assert kind == "wave_ror", kind
                source = (lane - 1) % 64
        sources.append(source % 64)
        valid.append(ok)
    return sources, valid


def _dpp_valid(m: Machine, form: Form) -> Value:
    """Lanes whose DPP source exists and is active."""
    sources, valid = dpp_sources(form.get("dpp"))
    active = m.ops.shuffle(select(m.exec_mask(), m.ops.const(1, "u32"), 0), sources).ne(0)
    return active & m.constant_mask(valid)


def valu_write_mask(m: Machine, form: Form) -> Value:
    """EXEC, less the lanes that DPP leaves alone."""
    mask = m.exec_mask()
    if form.get("dpp") is None:
        return mask
    rows, banks = form.get("row_mask", 15), form.get("bank_mask", 15)
    if rows != 15 or banks != 15:
        mask = mask & m.constant_mask(
            [bool(rows >> (lane // 16) & 1 and banks >> (lane % 16 // 4) & 1) for lane in range(64)]
        )
    return mask if form.get("bound_ctrl") else mask & _dpp_valid(m, form)


def _raw(m: Machine, form: Form, slot: int, dword: int, source: int) -> Value:
    if form.kinds[slot][-1] != "v":
        return m.scalar(slot, dword)
    value = m.vector(slot, dword)
    if source == 0 and form.get("dpp") is not None:
        moved = m.ops.shuffle(value, dpp_sources(form.get("dpp"))[0])
        return select(_dpp_valid(m, form), moved, 0) if form.get("bound_ctrl") else moved
    return value


def _selected(value: Value, choice: str, signed: bool) -> Value:
    """The SDWA part of a dword, extended to 32 bits."""
    if choice == "DWORD":
        return value
    kind, _, number = choice.partition("_")
    bits = 8 if kind == "BYTE" else 16
    shift = bits * int(number)
    if signed:
        return (value.cast("i32") << (32 - bits - shift) >> (32 - bits)).cast("u32")
    return (value >> shift) & ((1 << bits) - 1)


def read_operand(m: Machine, form: Form, slot: int, type_: str, source: int) -> Value:
    """Operand at a slot as a type; `source` counts source operands (-1: the destination read as a source)."""
    if type_ == "mask":
        return m.ops.unballot(m.scalar64(slot))
    kind = form.kinds[slot]
    if BITS[type_] == 64:
        value = pack64(_raw(m, form, slot, 0, source), _raw(m, form, slot, 1, source)).cast(type_)
    else:
        dword = _raw(m, form, slot, 0, source)
        choice = form.get(f"src{source}_sel")
        if choice is not None:
            dword = _selected(dword, choice, "x" in kind)
        if BITS[type_] == 16:
            selects = form.get("op_sel", ())
            high = 0 <= source < len(selects) and selects[source]
            value = (high16(dword) if high else low16(dword)).cast(type_)
        else:
            value = dword.cast(type_)
    if source >= 0 and kind[0] in "-|":
        value = _signed(value, kind)
    return m.flushed(value)


def _signed(value: Value, kind: str) -> Value:
    """Sign modifiers; on integer operands that may carry them they work on the f32 sign bit."""
    if is_float(value.type):
        value = abs(value) if "|" in kind else value
        return -value if "-" in kind else value
    value = value & 0x7FFFFFFF if "|" in kind else value
    return value ^ 0x80000000 if "-" in kind else value


def _shaped(m: Machine, form: Form, value: Value) -> Value:
    """Clamp and denormal mode."""
    if is_float(value.type):
        value = m.flushed(clamp_float(value) if form.get("clamp") else value)
    return value


def write_result(m: Machine, form: Form, spec: Spec, slot: int, type_: str, value: Value, mask: Value) -> None:
    """Write a result of a type to the vector register (or the scalar) at a slot."""
    if form.get("clamp") and not is_float(value.type):
        sources = [read_operand(m, form, slot + 1 + i, t, i) for i, t in enumerate(spec.operands)]
        value = clamped_integer(spec.name, *sources)
    value = _shaped(m, form, value)
    if BITS[type_] == 64:
        m.set_vector(slot, 0, low32(value), mask)
        m.set_vector(slot, 1, high32(value), mask)
        return
    choice = form.get("dst_sel")
    if choice is not None and choice != "DWORD":
        m.set_vector(slot, 0, _sdwa_result(m, form, value, choice), mask)
        return
    if BITS[type_] == 16:
        selects = form.get("op_sel", ())
        high = len(selects) > len(spec.operands) and selects[len(spec.operands)]
        half = spec.info.get("half")
        if half is not None:
            high = bool(half)
        wide = value.bits().to("u32")
        if high:
            wide = (wide << 16) | (m.vector(slot, 0) & 0xFFFF)
        elif spec.preserves_high or half is not None:
            wide = wide | (m.vector(slot, 0) & 0xFFFF0000)
        m.set_vector(slot, 0, wide, mask)
        return
    m.set_vector(slot, 0, value.bits(), mask)


def _sdwa_result(m: Machine, form: Form, value: Value, choice: str) -> Value:
    kind, _, number = choice.partition("_")
    bits = 8 if kind == "BYTE" else 16
    shift = bits * int(number)
    ones = ((1 << bits) - 1) << shift
    plain = value.bits()
    wide = plain.to("u32") if BITS[value.type] == 16 else plain
    placed = (wide << shift) & ones
    unused = form.get("dst_unused", "UNUSED_PAD")
    if unused == "UNUSED_PRESERVE":
        return placed | (m.vector(0, 0) & (0xFFFFFFFF ^ ones))
    if unused == "UNUSED_SEXT":
        return (placed.cast("i32") << (32 - bits - shift) >> (32 - bits - shift)).cast("u32")
    return placed
