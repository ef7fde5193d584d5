"""From forms to handler functions: the frame around `lower`, and the control instructions."""

from __future__ import annotations

from aot.emulator import faults
from aot.emulator.decode.form import Form
from aot.emulator.engine_llvm.machine import LlvmMachine
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.isa.salu import BRANCHES, WITHOUT_EFFECT
from aot.emulator.isa.values import Value
from aot.emulator.lower.instruction import lower
from aot.emulator.state import layout
from aot.emulator.state.hardware_registers import CONSTANT_REGISTERS, MODE_REGISTER, MODES

# Slots of control records: the target (bytes from this record), wait counts.
TARGET_SLOT, VM_SLOT, LGKM_SLOT = 0, 0, 1


def write_handler(name: str, form: Form, keeps_denormals: bool) -> Function:
    """The handler of a form under a symbol name."""
    f = Function(name, [("ptr", "w"), ("ptr", "i")])
    m = LlvmMachine(f, form, keeps_denormals)
    if form.unit == "control":
        _control(m, form)
        return f
    m.begin(touches_registers=form.unit != "cache")
    lower(m, form)
    m.next()
    return f


def _account(m: LlvmMachine, then: Value | None) -> None:
    """Count the straight segment that ends here; go on at record `then` (None: the wave stops, to go on behind this
    one)."""
    f = m.f
    counts = f.load("ptr", f.at(m.wave, layout.COUNTS))
    index = f.load("u32", f.at(m.record, layout.RECORD_INDEX))
    place = f.at(m.wave, layout.SEGMENT_START)
    start = f.load("u32", place)
    first, behind = f.at(counts, start, 8), f.at(counts, index + 1, 8)
    f.store(f.load("u64", first) + 1, first)
    f.store(f.load("u64", behind) - 1, behind)
    budget = f.at(m.context(), layout.BUDGET)
    left = f.load("i64", budget) - (index + 1 - start).to("u64").cast("i64")
    f.store(left, budget)
    if then is None:
        f.store(index + 1, place)
        f.store(f.at(m.record, layout.RECORD_BYTES), f.at(m.wave, layout.PC))
    else:
        f.store(f.load("u32", f.at(then, layout.RECORD_INDEX)), place)
    with f.when(left < 0, unlikely=True):
        f.store(index, f.at(m.context(), layout.FAULT_INDEX))
        f.ret(layout.OVER_BUDGET)


def _control(m: LlvmMachine, form: Form) -> None:
    f, name = m.f, form.name
    if name == "s_waitcnt":
        vm, lgkm = m.number(VM_SLOT), m.number(LGKM_SLOT)
        some = (f.load("u32", f.at(m.wave, layout.VM_COUNT)) > vm) | (
            f.load("u32", f.at(m.wave, layout.LGKM_COUNT)) > lgkm
        )
        some = some | (lgkm.eq(0) & f.load("u32", f.at(m.wave, layout.SMEM_COUNT)).ne(0))
        with f.when(some):
            m.helper("wait", vm, lgkm)
        m.next()
    elif name in ("s_endpgm", "s_barrier"):
        _account(m, None)
        if name == "s_endpgm":
            # The hardware waits for everything before it ends a wave.
            m.helper("wait", f.const(0, "u32"), f.const(0, "u32"))
        f.ret(layout.ENDED if name == "s_endpgm" else layout.AT_BARRIER)
    elif name in BRANCHES:
        m.begin(touches_registers=name.endswith("z"))
        target = f.at(m.record, m.number(TARGET_SLOT).cast("i32").to("i64").cast("u64"))
        taken = _condition(m, name)
        following = f.at(m.record, layout.RECORD_BYTES)
        chosen = target if taken is None else f.pick_pointer(taken, target, following)
        _account(m, chosen)
        m.go(chosen)
    elif name == "s_trap":
        m.helper("fail", f.const(faults.TRAP, "u32"), f.const(-1, "u32"), f.const(-1, "u64"))
        m.next()
    elif name.startswith(("s_setreg", "s_getreg")):
        _hardware_register(m, form)
    else:
        assert name in WITHOUT_EFFECT, name
        m.next()


def _condition(m: LlvmMachine, name: str) -> Value | None:
    if name == "s_branch":
        return None
    condition = name.removeprefix("s_cbranch_")
    if condition.startswith("scc"):
        return m.scc() if condition == "scc1" else ~m.scc()
    value = m.cell64(layout.VCC if condition.startswith("vcc") else layout.EXEC)
    return value.ne(0) if condition.endswith("nz") else value.eq(0)


def _hardware_register(m: LlvmMachine, form: Form) -> None:
    f = m.f
    m.begin(touches_registers=True)
    name, offset, size = form.get("register"), form.get("offset"), form.get("size")
    ones = ((1 << size) - 1) << offset
    known = name == MODE_REGISTER or (name in CONSTANT_REGISTERS and form.name == "s_getreg_b32")
    if not known:
        m.refuse(f.const(1, "b1"), faults.UNMODELLED)
    elif form.name == "s_getreg_b32":
        value = m.cell(layout.MODE // 4) if name == MODE_REGISTER else f.const(CONSTANT_REGISTERS[name], "u32")
        m.set_scalar(0, 0, (value & ones) >> offset)
    else:
        mode = (m.cell(layout.MODE // 4) & (0xFFFFFFFF ^ ones)) | ((m.scalar(0) << offset) & ones)
        m.set_cell(layout.MODE // 4, mode)
        known_mode: Value | None = None
        for modelled in MODES:
            same = mode.eq(modelled)
            known_mode = same if known_mode is None else known_mode | same
        assert known_mode is not None
        m.refuse(~known_mode, faults.UNMODELLED)
    m.next()
