"""The machine that writes handlers: what memory and matrix instructions do, on top of the wave.

Memory instructions call functions of the `runtime` through the table in the context.
"""

from __future__ import annotations

from aot.emulator.decode.form import Form
from aot.emulator.engine_llvm.matrix import write_matrix
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.engine_llvm.wave import LlvmWave
from aot.emulator.isa.memory import ATOMIC, MemorySpec
from aot.emulator.isa.mfma import MatrixSpec
from aot.emulator.isa.values import BITS, LANES, Value, select
from aot.emulator.state import layout

SPACES = {"global": 0, "lds": 1, "scratch": 2, "flat": 3}


class LlvmMachine(LlvmWave):
    """Writes one handler into `self.ops`."""

    def __init__(self, function: Function, form: Form, keeps_denormals: bool) -> None:
        super().__init__(function, form, keeps_denormals)
        self._log_count = 0

    def _spill(self, value: Value) -> Value:
        value = self.f.splat(value)
        place = self.f.alloca(LANES * BITS[value.type] // 8)
        self.f.store(value, place)
        return place

    def access(
        self, spec: MemorySpec, space: str, address: Value, mask: Value, slot: int, first_dword: int = 0
    ) -> None:
        place = self._spill(address)
        kind = "store" if spec.action == "store" else "load"
        self._through_registers(f"{space}_{kind}_{spec.bytes}", spec, [place, self.f.ballot(mask)], slot, first_dword)
        if space == "lds":
            self._log_count += 1

    def _through_registers(
        self, helper: str, spec: MemorySpec, operands: list[Value], slot: int, first_dword: int = 0
    ) -> None:
        """Call a load or store helper whose last operand is where the data registers are; convert sub-dwords."""
        if spec.bytes >= 4:
            self.helper(helper, *operands, self.place(slot, first_dword, layout.REGISTER_BYTES))
            return
        buffer = self.f.alloca(layout.REGISTER_BYTES)
        if spec.action == "store":
            data = self.vector(slot)
            self.f.store(data >> 16 if spec.convert == "d16_hi" else data, buffer)
            self.helper(helper, *operands, buffer)
            return
        self.helper(helper, *operands, buffer)
        raw = self.f.load("u32", buffer, LANES)
        self.set_vector(slot, first_dword, self._landed(spec, raw, slot), self.exec_mask())

    def _landed(self, spec: MemorySpec, raw: Value, slot: int) -> Value:
        if spec.convert[0] == "i":
            shift = 32 - 8 * spec.bytes
            raw = (raw.cast("i32") << shift >> shift).cast("u32")
        if spec.convert.endswith("d16_hi"):
            return (self.vector(slot) & 0xFFFF) | (raw << 16)
        if spec.convert.endswith("d16"):
            return (self.vector(slot) & 0xFFFF0000) | (raw & 0xFFFF)
        return raw

    def access_buffer(
        self, spec: MemorySpec, resource: int, soffset: Value, offset: Value, mask: Value, slot: int
    ) -> None:
        place = self._spill(offset)
        words = self.place(resource, 0, 4)
        ballot = self.f.ballot(mask)
        if slot < 0:
            base = self.cell(layout.M0) + self.number(len(self.form.kinds))
            self.helper("buffer_direct", words, soffset, place, ballot, self._direct_code(spec), base)
            self._log_count = 1
        elif spec.action == "atomic":
            addresses = self.f.alloca(8 * LANES)
            live = self.f.alloca(8)
            self.helper(
                "buffer_addresses", words, soffset, place, ballot, self.f.const(spec.bytes, "u32"), addresses, live
            )
            returns = self.form.get("returns")
            if returns:
                # Lanes out of range return 0, but their data must survive until the atomics have read it.
                keep = [self.vector(slot, d) for d in range(spec.dwords * (2 if spec.op == "cas" else 1))]
                dead = self.exec_mask() & ~self.f.unballot(self.f.load("u64", live))
                self._atomic_loop(spec, "global", addresses, self.f.load("u64", live), keep, slot)
                for dword in range(spec.dwords):
                    self.set_vector(slot, dword, self.f.const(0, "u32"), dead)
            else:
                data = [self.vector(slot, d) for d in range(spec.dwords * (2 if spec.op == "cas" else 1))]
                self._atomic_loop(spec, "global", addresses, self.f.load("u64", live), data, -1)
        else:
            kind = "store" if spec.action == "store" else "load"
            self._through_registers(f"buffer_{kind}_{spec.bytes}", spec, [words, soffset, place, ballot], slot)

    def _direct_code(self, spec: MemorySpec) -> Value:
        """Bytes of a direct load; 0x100 marks sign extension of a sub-dword."""
        return self.f.const(spec.bytes | (0x100 if spec.convert[:1] == "i" or spec.convert[:1] == "s" else 0), "u32")

    def load_to_lds(self, spec: MemorySpec, address: Value, mask: Value, lds_base: Value) -> None:
        self.helper("global_direct", self._spill(address), self.f.ballot(mask), self._direct_code(spec), lds_base)
        self._log_count = 1

    def atomic(self, spec: MemorySpec, space: str, address: Value, mask: Value, data: int, result: int) -> None:
        wide = address if address.type == "u64" else address.to("u64")
        place, ballot = self._spill(wide), self.f.ballot(mask)
        values = [self.vector(data, d) for d in range(spec.dwords)]
        if spec.op == "cas":
            second = data + 1 if spec.space == "lds" else data
            first_dword = 0 if spec.space == "lds" else spec.dwords
            values += [self.vector(second, first_dword + d) for d in range(spec.dwords)]
        if space == "lds":
            self.helper(
                "lds_log",
                self._spill(address),
                ballot,
                self.f.const(spec.bytes, "u32"),
                self.f.const(layout.LOG_ATOMIC, "u32"),
            )
            self._log_count += 1
        self._atomic_loop(spec, space, place, ballot, values, result)

    def _atomic_loop(
        self, spec: MemorySpec, space: str, addresses: Value, ballot: Value, data: list[Value], result: int
    ) -> None:
        f = self.f
        saved = [self._spill(value) for value in data]
        outcome = f.alloca(8)
        raw = f"u{8 * spec.bytes}"
        with f.bits_of(ballot) as lane:
            address = f.load("u64", f.at(addresses, lane, 8))
            self.helper(
                "resolve_atomic", f.const(SPACES[space], "u32"), address, f.const(spec.bytes, "u32"), lane, outcome
            )
            cell = f.load("ptr", outcome)
            old = f.load(raw, cell, align=spec.bytes)
            parts = [f.load("u32", f.at(p, lane, 4)) for p in saved]
            if spec.bytes == 8:
                parts = [parts[i].to("u64") | (parts[i + 1].to("u64") << 32) for i in range(0, len(parts), 2)]
            if spec.op == "cas":
                compare, new = parts if spec.space == "lds" else parts[::-1]
                updated = select(old.eq(compare), new, old)
            else:
                updated = ATOMIC[spec.op](old.cast(spec.type), parts[0].cast(spec.type)).bits()
            f.store(updated, cell, align=spec.bytes)
            if result >= 0:
                for dword in range(spec.dwords):
                    target = f.at(self.place(result, dword, layout.REGISTER_BYTES), lane, 4)
                    f.store((old >> (32 * dword)).to("u32") if spec.bytes == 8 else old, target)

    def load_scalar(self, spec: MemorySpec, address: Value, limit: Value | None) -> None:
        top = self.f.const(-1, "u64") if limit is None else limit
        self.helper("scalar_load", address, top, self.f.const(spec.dwords, "u32"), self.place(0, 0, 4))

    def transposed(self, spec: MemorySpec, address: Value, mask: Value, slot: int) -> None:
        buffer = self.f.alloca(2 * layout.REGISTER_BYTES)
        place = self._spill(address)
        self.helper("lds_load_8", place, self.f.ballot(mask), buffer)
        self._log_count += 1
        words = [self.f.load("u32", self.f.at(buffer, layout.REGISTER_BYTES * d), LANES) for d in range(2)]
        width = 2 if spec.name.endswith("b16") else 1
        per_lane, per_word = 8 // width, 4 // width
        bits = 8 * width
        for dword in range(2):
            total: Value | None = None
            for part in range(per_word):
                j = dword * per_word + part
                lanes = [(lane & ~15) + j * (16 // per_lane) + (lane & 15) // per_lane for lane in range(LANES)]
                moved = [self.f.shuffle(word, lanes) for word in words]
                # The element within the source lane is the column of this lane.
                column = self.f.lane_constants([(lane & 15) % per_lane for lane in range(LANES)], "u32")
                source = select(column >= per_word, moved[1], moved[0])
                piece = ((source >> ((column & (per_word - 1)) * bits)) & ((1 << bits) - 1)) << (bits * part)
                total = piece if total is None else total | piece
            assert total is not None
            self.set_vector(slot, dword, total, mask)

    def issued(self, counter: str) -> None:
        self.helper(f"issue_{counter}", self.f.const(self._log_count, "u32"))

    def matrix(self, spec: MatrixSpec) -> None:
        write_matrix(self, spec)
