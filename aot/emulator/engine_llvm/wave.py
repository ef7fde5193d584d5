"""The wave that handlers are written for: one LLVM function per form, over the wave's memory.

A handler takes the wave and its instruction record, does what the form means, and tail-calls the handler of the next
record.
"""

from __future__ import annotations

from aot.emulator.decode.form import Form
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.engine_llvm.runtime.names import HELPER_SLOT
from aot.emulator.isa.numerics import flush
from aot.emulator.isa.values import LANES, Value, select
from aot.emulator.lower.machine import Machine
from aot.emulator.state import layout
from aot.emulator.state.hardware_registers import DENORMALS_F16_F64, DENORMALS_F32


class LlvmWave(Machine):
    """The wave of the handler that is written into `self.ops`: registers, calls of the runtime, the way on."""

    def __init__(self, function: Function, form: Form, keeps_denormals: bool) -> None:
        self.f = self.ops = function
        self.form = form
        self.keeps_denormals = keeps_denormals
        self.wave, self.record = function.arguments[0], function.arguments[1]

    # --- registers ---
    def place(self, slot: int, dword: int, size: int) -> Value:
        """Address of dword `dword` of an operand whose dwords are `size` bytes apart."""
        offset = self.f.load("u32", self.f.at(self.record, layout.RECORD_SLOTS + 4 * slot))
        return self.f.at(self.f.at(self.wave, offset), dword * size)

    def vector(self, slot: int, dword: int = 0) -> Value:
        return self.f.load("u32", self.place(slot, dword, layout.REGISTER_BYTES), LANES, 64)

    def scalar(self, slot: int, dword: int = 0) -> Value:
        return self.f.load("u32", self.place(slot, dword, 4))

    def set_vector(self, slot: int, dword: int, value: Value, mask: Value) -> None:
        self.f.masked_store(self.f.splat(value.bits()), self.place(slot, dword, layout.REGISTER_BYTES), mask)

    def set_scalar(self, slot: int, dword: int, value: Value) -> None:
        self.f.store(value.bits(), self.place(slot, dword, 4))

    def number(self, slot: int) -> Value:
        return self.f.load("u32", self.f.at(self.record, layout.RECORD_SLOTS + 4 * slot))

    def cell(self, index: int) -> Value:
        return self.f.load("u32", self.f.at(self.wave, 4 * index))

    def set_cell(self, index: int, value: Value) -> None:
        self.f.store(value.bits(), self.f.at(self.wave, 4 * index))

    def cell64(self, index: int) -> Value:
        return self.f.load("u64", self.f.at(self.wave, 4 * index))

    def set_cell64(self, index: int, value: Value) -> None:
        self.f.store(value.bits(), self.f.at(self.wave, 4 * index))

    def scc(self) -> Value:
        return self.cell(layout.SCC // 4).ne(0)

    def set_scc(self, value: Value) -> None:
        self.set_cell(layout.SCC // 4, value.to("u32"))

    def flushed(self, value: Value) -> Value:
        if self.keeps_denormals or value.type not in ("f16", "f32", "f64"):
            return value
        kept = DENORMALS_F32 if value.type == "f32" else DENORMALS_F16_F64
        return select((self.cell(layout.MODE // 4) & kept).ne(kept), flush(value), value)

    def pc(self) -> Value:
        base = self.f.load("u64", self.f.at(self.context(), layout.IMAGE_BASE))
        # The last number of s_getpc is the address of the next instruction.
        return base + self.number(layout.MAX_SLOTS - 1).to("u64")

    def clock(self) -> Value:
        place = self.f.at(self.wave, layout.TICKS)
        ticks = self.f.load("u64", place) + 64
        self.f.store(ticks, place)
        return ticks

    # --- runtime ---
    def context(self) -> Value:
        return self.f.load("ptr", self.f.at(self.wave, layout.CONTEXT))

    def helper(self, name: str, *operands: Value) -> Value:
        """Call a runtime function that returns 0 or a way to stop; stops if it is not 0."""
        target = self.f.load("ptr", self.f.at(self.context(), layout.HELPERS + 8 * HELPER_SLOT[name]))
        result = self.f.call_pointer(target, [self.wave, self.record, *operands])
        with self.f.when(result.ne(0), unlikely=True):
            self.f.ret(result)
        return result

    def refuse(self, condition: Value, kind: int) -> None:
        with self.f.when(condition, unlikely=True):
            self.helper("fail", self.f.const(kind, "u32"), self.f.const(-1, "u32"), self.f.const(-1, "u64"))

    # --- the frame around the meaning ---
    def begin(self, touches_registers: bool) -> None:
        """Stop if a register of the instruction is in flight."""
        if not touches_registers:
            return
        f = self.f
        vectors = f.load("u64", f.at(self.wave, layout.PENDING_V)) & f.load(
            "u64", f.at(self.record, layout.RECORD_TOUCH_V)
        )
        scalars = f.load("u64", f.at(self.wave, layout.PENDING_S)) & f.load(
            "u64", f.at(self.record, layout.RECORD_TOUCH_S)
        )
        with f.when((vectors | scalars).ne(0), unlikely=True):
            self.helper("hazard")

    def next(self) -> None:
        """Go on with the next record."""
        self.go(self.f.at(self.record, layout.RECORD_BYTES))

    def go(self, record: Value) -> None:
        self.f.tail_call(self.f.load("ptr", record), [self.wave, record])
