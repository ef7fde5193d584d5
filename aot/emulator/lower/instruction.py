"""From a form to what it does: read operands with their modifiers, apply the table's function, write results."""

from __future__ import annotations

from aot.emulator.decode.form import Form
from aot.emulator.isa.memory import MEMORY
from aot.emulator.isa.mfma import MFMA
from aot.emulator.isa.spec import Spec
from aot.emulator.isa.tables import SPECS
from aot.emulator.isa.values import BITS, Value, high16, high32, low16, low32, pack32
from aot.emulator.lower.clamp import clamp_float, clamped_integer
from aot.emulator.lower.lanes import lower_lane, lower_lane_exchange, lower_swap
from aot.emulator.lower.machine import Machine
from aot.emulator.lower.memory import lower_memory, lower_scalar_memory
from aot.emulator.lower.valu import read_operand, valu_write_mask, write_result
from aot.emulator.state import layout


def lower(machine: Machine, form: Form) -> None:
    """Execute (or write the code of) one instruction; control instructions belong to the engines."""
    unit = form.unit
    if unit == "mfma":
        machine.matrix(MFMA[form.name])
    elif unit == "memory":
        lower_memory(machine, form, MEMORY[form.name])
    elif unit == "scalar_memory":
        lower_scalar_memory(machine, form, MEMORY[form.name])
    elif unit == "lane_exchange":
        lower_lane_exchange(machine, form)
    elif unit == "lane":
        lower_lane(machine, form)
    elif unit == "swap_lanes":
        lower_swap(machine, form)
    elif unit == "salu":
        _salu(machine, SPECS[form.name])
    elif unit in ("packed", "packed_mov"):
        _packed(machine, form, SPECS[form.name])
    elif unit in ("valu", "cmpx"):
        _valu(machine, form, SPECS[form.name])
    else:
        assert unit == "cache", unit
        # No cache is modelled, but a write-back counts until it is done; an invalidation does not.
        if form.name.startswith("buffer_wb"):
            machine.issued("vm")


def _salu(m: Machine, spec: Spec) -> None:
    explicit = sum(1 for r in spec.results if r not in ("scc", "exec"))
    slot = explicit
    values: list[Value] = []
    for type_ in spec.operands:
        if type_ == "scc":
            values.append(m.scc())
        elif type_ == "exec":
            values.append(m.cell64(layout.EXEC))
        elif type_ == "pc":
            values.append(m.pc())
        elif type_ == "clock":
            values.append(m.clock())
        else:
            at = 0 if type_[0] == "@" else slot
            slot += type_[0] != "@"
            plain = type_.removeprefix("@")
            bits = m.scalar64(at) if BITS[plain] == 64 else m.scalar(at)
            if spec.name in SIGNED_IMMEDIATES and type_[0] != "@" and slot == len(m.form.kinds):
                bits = (bits << 16).cast("i32") >> 16
                bits = bits.cast("u32")
            values.append(bits.cast(plain))
    results = spec.semantics(*values)
    results = results if isinstance(results, tuple) else (results,)
    at = 0
    for type_, value in zip(spec.results, results, strict=True):
        if type_ == "scc":
            m.set_scc(value)
        elif type_ == "exec":
            m.set_cell64(layout.EXEC, value)
        else:
            bits = value.bits()
            m.set_scalar(at, 0, low32(bits) if BITS[type_] == 64 else bits)
            if BITS[type_] == 64:
                m.set_scalar(at, 1, high32(bits))
            at += 1


# SOPK: the 16-bit number of the text is a signed one.
SIGNED_IMMEDIATES = frozenset(
    {"s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_mulk_i32"}
    | {f"s_cmpk_{c}_i32" for c in ("eq", "lg", "gt", "ge", "lt", "le")}
)


def _valu(m: Machine, form: Form, spec: Spec) -> None:
    explicit = sum(1 for r in spec.results if r not in ("scc", "exec"))
    values: list[Value | int] = []
    slot = explicit
    for type_ in spec.operands:
        if type_ == "vcc":
            values.append(m.ops.unballot(m.cell64(layout.VCC)))
        elif type_ == "bitop3":
            values.append(form.get("bitop3", 0))
        elif type_[0] == "@":
            values.append(read_operand(m, form, 0, type_[1:], source=-1))
        else:
            values.append(read_operand(m, form, slot, type_, source=slot - explicit))
            slot += 1
    results = spec.semantics(*values)
    results = results if isinstance(results, tuple) else (results,)
    mask = valu_write_mask(m, form)
    for at, (type_, value) in enumerate(zip(spec.results, results, strict=True)):
        if type_ == "mask":
            # Lanes that EXEC masks off give zero bits.
            ballot = m.ops.ballot(m.ops.splat(value) & m.exec_mask())
            m.set_scalar(at, 0, low32(ballot))
            m.set_scalar(at, 1, high32(ballot))
            if spec.unit == "cmpx":
                m.set_cell64(layout.EXEC, ballot)
        else:
            write_result(m, form, spec, at, type_, value, mask)


def _half(m: Machine, form: Form, slot: int, source: int, type_: str, high: bool) -> Value:
    """One half of a packed operand, with the selection and sign bits of that half."""
    select_bits = form.get("op_sel_hi", (1,) * 3) if high else form.get("op_sel", (0,) * 3)
    take_high = bool(select_bits[source])
    vector = form.kinds[slot][-1] == "v"
    read = m.vector if vector else m.scalar
    if BITS[type_] == 32:
        value = read(slot, int(take_high)).cast(type_)
    else:
        dword = read(slot, 0)
        value = (high16(dword) if take_high else low16(dword)).cast(type_)
    if form.get("neg_hi" if high else "neg_lo", (0,) * 3)[source]:
        value = -value
    return m.flushed(value)


def _packed(m: Machine, form: Form, spec: Spec) -> None:
    mask = m.exec_mask()
    if spec.unit == "packed_mov":
        # D.lo from S0, D.hi from S1, each the dword that op_sel names (for S1: op_sel[1], which stands for the high
        # half).
        selects = form.get("op_sel", (0, 0))
        reads = [(m.vector if form.kinds[s][-1] == "v" else m.scalar)(s, selects[s - 1]) for s in (1, 2)]
        m.set_vector(0, 0, reads[0], mask)
        m.set_vector(0, 1, reads[1], mask)
        return
    if "mix" in spec.operands:
        value = spec.semantics(*[_mixed(m, form, slot + 1, slot) for slot in range(3)])
        write_result(m, form, spec, 0, spec.results[0], value, mask)
        return
    type_ = spec.results[0].removeprefix("pk")
    results = []
    for high in (False, True):
        sources = [_half(m, form, slot + 1, slot, t.removeprefix("pk"), high) for slot, t in enumerate(spec.operands)]
        if form.get("clamp") and type_[0] != "f":
            results.append(clamped_integer(spec.name, *sources))
            continue
        value = m.flushed(spec.semantics(*sources))
        results.append(clamp_float(value) if form.get("clamp") else value)
    if BITS[type_] == 32:
        m.set_vector(0, 0, results[0].bits(), mask)
        m.set_vector(0, 1, results[1].bits(), mask)
    else:
        m.set_vector(0, 0, pack32(results[0], results[1]), mask)


def _mixed(m: Machine, form: Form, slot: int, source: int) -> Value:
    """f32, or an f16 half where op_sel_hi is set; neg_hi is the absolute value here, written |v| in the text."""
    dword = (m.vector if form.kinds[slot][-1] == "v" else m.scalar)(slot, 0)
    if form.get("op_sel_hi", (0, 0, 0))[source]:
        half = high16(dword) if form.get("op_sel", (0, 0, 0))[source] else low16(dword)
        value = half.cast("f16").to("f32")
    else:
        value = dword.cast("f32")
    if "|" in form.kinds[slot]:
        value = abs(value)
    return -value if "-" in form.kinds[slot] else value
