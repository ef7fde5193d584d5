"""The machine of the numpy engine: a wave's registers as arrays, memory accessed lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from aot.emulator import faults
from aot.emulator.decode.instruction import Instruction
from aot.emulator.engine_numpy.matrix import multiply
from aot.emulator.engine_numpy.ops import NumpyOps
from aot.emulator.engine_numpy.sanitizer import ATOMIC, READ, WRITE, DirectLoad, LdsAccess, Outstanding, WaitQueues
from aot.emulator.faults import FaultSignal
from aot.emulator.isa.memory import ATOMIC as ATOMIC_FUNCTIONS
from aot.emulator.isa.memory import MemorySpec
from aot.emulator.isa.mfma import MatrixSpec
from aot.emulator.isa.numerics import flush
from aot.emulator.isa.values import LANES, Value
from aot.emulator.lower.machine import Machine
from aot.emulator.state import layout
from aot.emulator.state.hardware_registers import DENORMALS_F16_F64, DENORMALS_F32
from aot.emulator.state.memory import PRIVATE_APERTURE, SHARED_APERTURE, Memory
from aot.emulator.state.stores import StoreLog

Bytes = npt.NDArray[np.uint8]
_PAD = 64


class Group:
    """What the waves of a workgroup share."""

    def __init__(self, lds_bytes: int) -> None:
        self.lds_bytes = lds_bytes
        self.lds = np.full(lds_bytes + _PAD, layout.CANARY, np.uint8)
        self.shadow = np.zeros(lds_bytes + _PAD, np.uint8)
        self.log: list[LdsAccess] = []
        # Instruction number of the last store to a byte.
        self.serials = np.zeros(lds_bytes + _PAD, np.int64)


class NumpyMachine(Machine):
    """One wave. `begin` selects the instruction that the lowering then executes."""

    def __init__(
        self,
        ops: NumpyOps,
        memory: Memory,
        group: Group,
        wave: int,
        scratch_bytes: int,
        vectors: int,
        stores: StoreLog,
    ) -> None:
        self.ops: NumpyOps = ops
        self.memory, self.group, self.wave, self.stores = memory, group, wave, stores
        self.flush_f32 = self.flush_f16_f64 = False
        self.scalar_counts = True
        self.cells = np.zeros(192, np.uint32)
        self.registers = np.full((vectors, LANES), layout.POISON, np.uint32)
        self.scratch_bytes = scratch_bytes
        self.scratch = np.full((LANES, scratch_bytes + _PAD), layout.CANARY, np.uint8)
        self.scratch_shadow = np.zeros((LANES, scratch_bytes + _PAD), np.uint8)
        self.queues = WaitQueues()
        self.accesses: list[LdsAccess] = []
        self.direct: DirectLoad | None = None
        self.ticks = 0
        self.image_base = 0

    def begin(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.form = instruction.form
        self.accesses, self.direct = [], None
        self.stores.serial += 1

    # --- registers ---
    def _operand(self, slot: int) -> tuple[str, int]:
        found = self.instruction.decoded.uses[slot].operand
        return found.kind, found.number

    def vector(self, slot: int, dword: int = 0) -> Value:
        _, index = self._operand(slot)
        return self.ops.value(self.registers[index + dword].copy(), "u32")

    def scalar(self, slot: int, dword: int = 0) -> Value:
        kind, index = self._operand(slot)
        if kind == "c":
            return self.ops.const(index >> (32 * dword), "u32")
        return self.cell(index + dword)

    def set_vector(self, slot: int, dword: int, value: Value, mask: Value) -> None:
        _, index = self._operand(slot)
        np.copyto(self.registers[index + dword], self.ops.splat(value.bits()).ref, where=self.ops.splat(mask).ref)

    def set_scalar(self, slot: int, dword: int, value: Value) -> None:
        _, index = self._operand(slot)
        self.cells[index + dword] = value.bits().ref[0]

    def number(self, slot: int) -> Value:
        return self.ops.const(self.instruction.decoded.numbers[slot - len(self.form.kinds)], "u32")

    def cell(self, index: int) -> Value:
        return self.ops.value(self.cells[index : index + 1].copy(), "u32")

    def set_cell(self, index: int, value: Value) -> None:
        self.cells[index] = value.bits().ref[0]

    def scc(self) -> Value:
        return self.cell(layout.SCC // 4).ne(0)

    def set_scc(self, value: Value) -> None:
        self.cells[layout.SCC // 4] = bool(value.ref[0])

    def set_mode(self, mode: int) -> None:
        """Give the wave a MODE that is modelled."""
        self.cells[layout.MODE // 4] = mode
        self.flush_f32 = mode & DENORMALS_F32 != DENORMALS_F32
        self.flush_f16_f64 = mode & DENORMALS_F16_F64 != DENORMALS_F16_F64

    def flushed(self, value: Value) -> Value:
        if value.type == "f32":
            return flush(value) if self.flush_f32 else value
        return flush(value) if value.type in ("f16", "f64") and self.flush_f16_f64 else value

    def pc(self) -> Value:
        return self.ops.const(self.image_base + self.instruction.pc + self.instruction.size, "u64")

    def clock(self) -> Value:
        self.ticks += 64
        return self.ops.const(self.ticks, "u64")

    def refuse(self, condition: Value, kind: int) -> None:
        if condition.ref[0]:
            raise FaultSignal(kind)

    # --- places ---
    def _global(self, address: int, size: int, lane: int) -> Bytes:
        found = self.memory.find(address, size)
        if found is None:
            raise FaultSignal(faults.GLOBAL_BOUNDS, lane=lane, address=address)
        buffer, offset = found
        return buffer.bytes[offset : offset + size]

    def _store(self, place: Bytes, space: str, address: int, lane: int, data: Bytes) -> None:
        """Store to a place that was found, unless that conflicts with another store."""
        if space == "flat":
            high = address >> 32
            space = {SHARED_APERTURE: "lds", PRIVATE_APERTURE: "scratch"}.get(high, "global")
        if space == "global":
            found = self.memory.find(address, data.size)
            assert found is not None
            self.stores.store(self.wave, lane, *found, data)
            return
        if space == "lds":
            offset = address & 0xFFFFFFFF
            serials = self.group.serials[offset : offset + data.size]
            if ((serials == self.stores.serial) & (place != data)).any():
                raise FaultSignal(faults.CONFLICTING_STORES, lane=lane, address=offset)
            serials[:] = self.stores.serial
        place[:] = data

    def _lds(self, address: int, size: int, lane: int) -> Bytes:
        if address + size > self.group.lds_bytes:
            raise FaultSignal(faults.LDS_BOUNDS, lane=lane, address=address)
        return self.group.lds[address : address + size]

    def _scratch(self, address: int, size: int, lane: int) -> Bytes:
        if address + size > self.scratch_bytes:
            raise FaultSignal(faults.SCRATCH_BOUNDS, lane=lane, address=address)
        return self.scratch[lane, address : address + size]

    def _place(self, space: str, address: int, size: int, lane: int, write: bool) -> Bytes:
        """The bytes, with the checks that go with a read or a write of them."""
        if space == "flat":
            high = address >> 32
            space = {SHARED_APERTURE: "lds", PRIVATE_APERTURE: "scratch"}.get(high, "global")
            address = address if space == "global" else address & 0xFFFFFFFF
            if space == "lds":
                self._log(READ if not write else WRITE, np.array([address]), size)
        if space == "global":
            return self._global(address, size, lane)
        if space == "lds":
            place, shadow = self._lds(address, size, lane), self.group.shadow[address : address + size]
            unwritten, in_flight = faults.LDS_UNWRITTEN, faults.LDS_IN_FLIGHT
        else:
            place, shadow = self._scratch(address, size, lane), self.scratch_shadow[lane, address : address + size]
            unwritten, in_flight = faults.SCRATCH_UNWRITTEN, faults.SCRATCH_UNWRITTEN
        if write:
            shadow[:] = layout.SHADOW_WRITTEN
        elif (shadow != layout.SHADOW_WRITTEN).any():
            kind = in_flight if (shadow == layout.SHADOW_IN_FLIGHT).any() else unwritten
            raise FaultSignal(kind, lane=lane, address=address)
        return place

    def _log(self, kind: int, addresses: npt.NDArray[np.int64], size: int) -> None:
        access = LdsAccess(self.wave, kind, self.instruction.index, addresses.astype(np.int64), size)
        self.accesses.append(access)
        self.group.log.append(access)

    # --- vector memory ---
    def access(
        self, spec: MemorySpec, space: str, address: Value, mask: Value, slot: int, first_dword: int = 0
    ) -> None:
        lanes = np.flatnonzero(self.ops.splat(mask).ref)
        addresses = [int(a) for a in self.ops.splat(address).ref]
        if space == "lds" and lanes.size:
            for lane in lanes:
                self._lds(addresses[lane], spec.bytes, int(lane))
            self._log(
                READ if spec.action == "load" else WRITE, np.array([addresses[lane] for lane in lanes]), spec.bytes
            )
        _, index = self._operand(slot)
        silent = True
        for lane in lanes:
            place = self._place(space, addresses[lane], spec.bytes, int(lane), spec.action == "store")
            if spec.action == "store":
                data = self._outgoing(spec, index, int(lane))
                silent = silent and bool((place == data).all())
                self._store(place, space, addresses[lane], int(lane), data)
            else:
                self._arrive(spec, place, index + first_dword, int(lane))
        if space == "lds" and lanes.size and spec.action == "store":
            self.accesses[-1].silent = silent

    def _outgoing(self, spec: MemorySpec, index: int, lane: int) -> Bytes:
        words = self.registers[index : index + spec.dwords, lane].copy()
        if spec.convert == "d16_hi":
            words >>= np.uint32(16)
        return words.view(np.uint8)[: spec.bytes]

    def _arrive(self, spec: MemorySpec, place: Bytes, index: int, lane: int) -> None:
        if spec.bytes >= 4:
            self.registers[index : index + spec.dwords, lane] = place.copy().view(np.uint32)
            return
        value = int.from_bytes(place.tobytes(), "little", signed=spec.convert[0] == "i")
        self.registers[index, lane] = placed(spec.convert, value, int(self.registers[index, lane]))

    def access_buffer(
        self, spec: MemorySpec, resource: int, soffset: Value, offset: Value, mask: Value, slot: int
    ) -> None:
        words = [int(self.scalar(resource, i).ref[0]) for i in range(4)]
        base, moved = words[0] | (words[1] & 0xFFFF) << 32, int(soffset.ref[0])
        if words[1] >> 16 or words[3] & layout.UNKNOWN_WORD3 or not words[3] & layout.DATA_FORMAT:
            raise FaultSignal(faults.BAD_RESOURCE)
        limit = words[2] - (moved if self.scalar_counts else 0)
        lanes = np.flatnonzero(self.ops.splat(mask).ref)
        offsets = [int(o) for o in self.ops.splat(offset).ref]
        if slot < 0:
            self._check_direct(spec, int(self.cells[layout.M0]) + int(self.instruction.decoded.numbers[0]))
        for lane in lanes:
            if offsets[lane] >> 32:
                raise FaultSignal(faults.OFFSET_WRAPS, lane=int(lane), address=offsets[lane])
        if slot < 0:
            self._buffer_to_lds(spec, base + moved, limit, offsets, mask)
            return
        _, index = self._operand(slot)
        piece = min(4, spec.bytes)
        for lane in lanes:
            at = offsets[lane]
            if spec.action == "atomic":
                if at + spec.bytes <= limit:
                    self._atomic_lane(
                        spec, "global", base + moved + at, int(lane), slot, slot if self.form.get("returns") else -1
                    )
                elif self.form.get("returns"):
                    self.registers[index : index + spec.dwords, lane] = 0
                continue
            data = self._outgoing(spec, index, int(lane)) if spec.action == "store" else np.zeros(spec.bytes, np.uint8)
            for start in range(0, spec.bytes, piece):
                if at + start + piece > limit:
                    continue
                place = self._global(base + moved + at + start, piece, int(lane))
                if spec.action == "store":
                    self._store(place, "global", base + moved + at + start, int(lane), data[start : start + piece])
                else:
                    data[start : start + piece] = place
            if spec.action == "load":
                self._arrive(spec, data, index, int(lane))

    def _buffer_to_lds(self, spec: MemorySpec, base: int, limit: int, offsets: list[int], mask: Value) -> None:
        lds_base = int(self.cells[layout.M0]) + int(self.instruction.decoded.numbers[0])
        rows: list[tuple[int, Bytes]] = []
        for lane in np.flatnonzero(self.ops.splat(mask).ref):
            data = np.zeros(spec.bytes, np.uint8)
            piece = min(4, spec.bytes)
            for start in range(0, spec.bytes, piece):
                at = offsets[lane] + start
                if at + piece <= limit:
                    self._check_source(spec, base + offsets[lane], int(lane))
                    data[start : start + piece] = self._global(base + at, piece, int(lane))
            rows.append((int(lane), data))
        self._launch_direct(spec, lds_base, rows)

    def load_to_lds(self, spec: MemorySpec, address: Value, mask: Value, lds_base: Value) -> None:
        addresses = self.ops.splat(address).ref
        lanes = [int(lane) for lane in np.flatnonzero(self.ops.splat(mask).ref)]
        self._check_direct(spec, int(lds_base.ref[0]))
        for lane in lanes:
            self._check_source(spec, int(addresses[lane]), lane)
        rows = [(lane, self._global(int(addresses[lane]), spec.bytes, lane).copy()) for lane in lanes]
        self._launch_direct(spec, int(lds_base.ref[0]), rows)

    def _check_direct(self, spec: MemorySpec, base: int) -> None:
        """Dwords land in dwords, pieces of 16 bytes in places that are aligned alike."""
        if base % (16 if spec.bytes == 16 else 4) or int(self.cells[layout.M0]) % 4:
            raise FaultSignal(faults.MISALIGNED_DIRECT, address=base)

    @staticmethod
    def _check_source(spec: MemorySpec, address: int, lane: int) -> None:
        """Direct loads fetch whole dwords, or aligned parts of one."""
        if address % min(4, spec.bytes):
            raise FaultSignal(faults.MISALIGNED_DIRECT, lane=lane, address=address)

    def _launch_direct(self, spec: MemorySpec, base: int, rows: list[tuple[int, Bytes]]) -> None:
        """Bytes that land in LDS when the wave has waited for them; until then the place is poisoned."""
        if not rows:
            return
        size = max(4, spec.bytes)
        addresses = np.array([base + lane * size for lane, _ in rows], np.int64)
        for (lane, _), address in zip(rows, addresses, strict=True):
            self._lds(int(address), size, lane)
        data = np.stack([self._widened(spec, row) for _, row in rows])
        touched = addresses[:, None] + np.arange(size)
        self.group.lds[touched] = layout.CANARY
        self.group.shadow[touched] = layout.SHADOW_IN_FLIGHT
        self._check_overtaken()
        self._log(WRITE, addresses, size)
        self.direct = DirectLoad(addresses, data)

    def _check_overtaken(self) -> None:
        """A direct load that has just marked its place may overtake an LDS access that its wave has not waited for."""
        for entry in self.queues.lgkm:
            for access in entry.accesses:
                touched = access.addresses[:, None] + np.arange(access.size)
                late = touched[self.group.shadow[touched] == layout.SHADOW_IN_FLIGHT]
                if late.size:
                    raise FaultSignal(faults.LDS_OVERTAKEN, address=int(late[0]), detail=entry.instruction.text)

    @staticmethod
    def _widened(spec: MemorySpec, row: Bytes) -> Bytes:
        if spec.bytes >= 4:
            return row
        value = int.from_bytes(row.tobytes(), "little", signed=spec.convert[0] == "i") & 0xFFFFFFFF
        return np.array([value], np.uint32).view(np.uint8)

    def land(self, entries: list[Outstanding]) -> None:
        """Direct loads that a wait has completed write their bytes."""
        for entry in entries:
            if entry.direct is None:
                continue
            touched = entry.direct.addresses[:, None] + np.arange(entry.direct.data.shape[1])
            if (self.group.shadow[touched] != layout.SHADOW_IN_FLIGHT).any():
                raise FaultSignal(
                    faults.LDS_OVERWRITTEN, address=int(entry.direct.addresses[0]), instruction=entry.instruction.index
                )
            self.group.lds[touched] = entry.direct.data
            self.group.shadow[touched] = layout.SHADOW_WRITTEN

    def atomic(self, spec: MemorySpec, space: str, address: Value, mask: Value, data: int, result: int) -> None:
        lanes = np.flatnonzero(self.ops.splat(mask).ref)
        addresses = self.ops.splat(address).ref
        if space == "lds" and lanes.size:
            for lane in lanes:
                self._lds(int(addresses[lane]), spec.bytes, int(lane))
            self._log(ATOMIC, addresses[lanes], spec.bytes)
        for lane in lanes:
            self._atomic_lane(spec, space, int(addresses[lane]), int(lane), data, result)

    def _atomic_lane(self, spec: MemorySpec, space: str, address: int, lane: int, data: int, result: int) -> None:
        if address % spec.bytes:
            raise FaultSignal(faults.MISALIGNED, lane=lane, address=address)
        place = self._place(space, address, spec.bytes, lane, write=False)
        kind = "u64" if spec.bytes == 8 else "u32"
        old = self.ops.value(place.copy().view(np.uint64 if spec.bytes == 8 else np.uint32), kind)

        def operand(slot: int, dword: int) -> Value:
            _, index = self._operand(slot)
            words = self.registers[index + dword : index + dword + spec.dwords, lane].copy()
            return self.ops.value(words.view(np.uint64 if spec.bytes == 8 else np.uint32), kind)

        if spec.op == "cas":
            # LDS: compare value first, then the new one in its own operand; vector memory: new value first.
            if spec.space == "lds":
                compare, new = operand(data, 0), operand(data + 1, 0)
            else:
                new, compare = operand(data, 0), operand(data, spec.dwords)
            updated = new if bool((old.ref == compare.ref)[0]) else old
        else:
            function: Callable[[Value, Value], Value] = ATOMIC_FUNCTIONS[spec.op]
            updated = function(old.cast(spec.type), operand(data, 0).cast(spec.type)).bits()
        place[:] = updated.ref.view(np.uint8)
        if result >= 0:
            _, index = self._operand(result)
            self.registers[index : index + spec.dwords, lane] = old.ref.view(np.uint32)

    def load_scalar(self, spec: MemorySpec, address: Value, limit: Value | None) -> None:
        start = int(address.ref[0])
        _, index = self._operand(0)
        for dword in range(spec.dwords):
            at = start + 4 * dword
            if limit is not None and at + 4 > int(limit.ref[0]):
                self.cells[index + dword] = 0
                continue
            self.cells[index + dword] = self._global(at, 4, -1).copy().view(np.uint32)[0]

    def transposed(self, spec: MemorySpec, address: Value, mask: Value, slot: int) -> None:
        addresses = self.ops.splat(address).ref
        lanes = np.flatnonzero(self.ops.splat(mask).ref)
        rows = np.zeros((LANES, 8), np.uint8)
        for lane in lanes:
            self._lds(int(addresses[lane]), 8, int(lane))
        if lanes.size:
            self._log(READ, addresses[lanes], 8)
        for lane in lanes:
            rows[lane] = self._place("lds", int(addresses[lane]), 8, int(lane), write=False)
        _, index = self._operand(slot)
        moved = transpose(rows, spec)
        for dword in range(2):
            values = moved.view(np.uint32)[:, dword]
            self.registers[index + dword, lanes] = values[lanes]

    def issued(self, counter: str) -> None:
        entry = Outstanding(self.instruction, self.accesses, self.direct)
        if counter in ("vm", "flat"):
            self.queues.vm.append(entry)
        if counter in ("lgkm", "flat"):
            self.queues.lgkm.append(entry)
        if counter == "smem":
            self.queues.smem.append(entry)
        # The counters saturate: the hardware waits for the oldest.
        if len(self.queues.vm) > layout.QUEUE_ENTRIES - 1:
            self.land(self.queues.wait(layout.QUEUE_ENTRIES - 1, -1))

    def matrix(self, spec: MatrixSpec) -> None:
        indices = [self._operand(slot) for slot in range(4)]
        kind, at = indices[3]
        count = spec.accumulator_dwords
        if kind == "c":
            added = np.full((count, LANES), at & 0xFFFFFFFF, np.uint32)
        else:
            added = self.registers[at : at + count].copy()
        a = self.registers[indices[1][1] : indices[1][1] + spec.operand_dwords]
        b = self.registers[indices[2][1] : indices[2][1] + spec.operand_dwords]
        self.registers[indices[0][1] : indices[0][1] + count] = multiply(spec, a, b, added)


def placed(convert: str, value: int, old: int) -> int:
    """A sub-dword value as it lands in a register that held `old`."""
    if convert.endswith("d16_hi"):
        return (old & 0xFFFF) | (value & 0xFFFF) << 16
    if convert.endswith("d16"):
        return (old & 0xFFFF0000) | (value & 0xFFFF)
    return value & 0xFFFFFFFF


def transpose(rows: Bytes, spec: MemorySpec) -> Bytes:
    """Within each 16 lanes: 16-bit elements as a 4 x 16 block, 8-bit elements as an 8 x 16 block read the other way."""
    width = 2 if spec.name.endswith("b16") else 1
    per_lane = 8 // width
    out = np.empty_like(rows)
    elements = rows.reshape(LANES, per_lane, width)
    moved = out.reshape(LANES, per_lane, width)
    lanes_per_row = 16 // per_lane
    for lane in range(LANES):
        group, inner = lane & ~15, lane & 15
        for j in range(per_lane):
            # Row j of the block is held by lanes_per_row lanes, per_lane columns each.
            moved[lane, j] = elements[group + j * lanes_per_row + inner // per_lane, inner % per_lane]
    return out
