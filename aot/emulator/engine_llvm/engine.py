"""The fast engine: wave state in host memory, handlers and scheduler in generated code."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from aot.emulator import faults
from aot.emulator.engine_llvm.code_cache import code_cache
from aot.emulator.engine_llvm.records import Records
from aot.emulator.engine_llvm.runtime.names import HELPER_NAMES
from aot.emulator.engine_llvm.slots import VECTORS, WAVE_BYTES
from aot.emulator.errors import BudgetError
from aot.emulator.faults import KINDS, Fault, register_name
from aot.emulator.launch import Launch
from aot.emulator.report import Result
from aot.emulator.state import layout
from aot.emulator.state.stores import give_back, take_tokens

_DIRECT_BYTES = layout.QUEUE_ENTRIES * layout.DIRECT_BYTES
_PAD = 64
_PENDING_SET_BYTES = 88


@lru_cache(maxsize=1)
def _helper_addresses() -> npt.NDArray[np.uint64]:
    """Runtime functions in the order of their table."""
    return np.array([code_cache().runtime(name) for name in HELPER_NAMES], np.uint64)


def aligned(size: int, alignment: int = 64) -> npt.NDArray[np.uint8]:
    """Uninitialised bytes at an aligned address."""
    raw = np.empty(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


@dataclass
class _Words:
    """Typed access to a state block."""

    block: npt.NDArray[np.uint8]

    def u64(self, offset: int, value: int | None = None) -> int:
        view = self.block[offset : offset + 8].view(np.uint64)
        if value is not None:
            view[0] = value & 0xFFFFFFFFFFFFFFFF
        return int(view[0])

    def u32(self, offset: int) -> int:
        return int(self.block[offset : offset + 4].view(np.uint32)[0])


class LlvmEngine:
    """Runs a launch; buffers are reused from workgroup to workgroup."""

    def __init__(self, launch: Launch, records: Records, seed: int, budget: int, scalar_counts: bool) -> None:
        self.launch, self.records, self.seed = launch, records, seed
        self._cache = code_cache()
        number = launch.waves
        vectors = min(512, max(1, launch.code.descriptor.vgprs)) * layout.REGISTER_BYTES
        self._architected = min(256, launch.code.descriptor.accum_offset) * layout.REGISTER_BYTES
        self._accumulators = max(0, vectors - self._architected)
        self._waves = aligned(number * WAVE_BYTES).reshape(number, WAVE_BYTES)
        self._lds = aligned(launch.lds_bytes + 2 * _PAD)
        self._shadow = aligned(launch.lds_bytes + 2 * _PAD)
        self._owners = np.zeros(3 * (launch.lds_bytes + 2 * _PAD), np.uint8)
        self._scratch = aligned(max(1, number * (launch.scratch_bytes * 64 + _PAD)))
        self._scratch_shadow = aligned(self._scratch.size)
        self._direct = aligned(number * _DIRECT_BYTES if records.direct else 64)
        self._counts = np.zeros(len(records.code) + 2, np.int64)
        self._zeros = np.zeros(64, np.uint8)
        self._memory = launch.memory.table()
        self._tokens, self._token_table = take_tokens(launch.memory)
        self._logs = [aligned(layout.LOG_RECORDS * layout.LOG_RECORD_BYTES) for _ in range(2)]
        self._columns = aligned(3 * layout.COLUMN_BYTES)
        self._order = np.zeros(number, np.uint32)
        self._pointers = np.array([self._waves.ctypes.data + WAVE_BYTES * n for n in range(number)], np.uint64)
        self._context = aligned(layout.CONTEXT_BYTES)
        self._fill_context(budget, scalar_counts)
        self._template = self._make_template()
        self._ids = np.stack([launch.workitem_ids(n) for n in range(number)])
        self._function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)(self._cache.runtime("run_group"))

    def _fill_context(self, budget: int, scalar_counts: bool) -> None:
        words = np.zeros(layout.CONTEXT_BYTES // 8, np.uint64)
        for offset, array in (
            (layout.MEMORY_TABLE, self._memory),
            (layout.TOUCHED, self.records.touched),
            (layout.LATE, self.records.late),
            (layout.LOG, self._logs[0]),
            (layout.LOG_OTHER, self._logs[1]),
            (layout.WAVES, self._pointers),
            (layout.LOG_COLUMNS, self._columns),
            (layout.OWNERS, self._owners),
            (layout.ORDER, self._order),
            (layout.ZEROS, self._zeros),
            (layout.STORE_TABLE, self._token_table),
        ):
            words[offset // 8] = array.ctypes.data
        words[layout.LOG_CAPACITY // 8] = layout.FOLD_AT
        words[layout.BUDGET // 8] = min(budget, (1 << 62))
        words[layout.RANDOM // 8] = (self.seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D | 1) & 0xFFFFFFFFFFFFFFFF
        words[layout.SCALAR_COUNTS // 8] = 0xFFFFFFFF if scalar_counts else 0
        words[layout.WAVE_COUNT // 8] = self.launch.waves
        words[layout.IMAGE_BASE // 8] = self.launch.image_base
        words[layout.LOGGED // 8] = self.launch.waves > 1 or self.records.direct
        words[layout.LAUNCH_TOKEN // 8] = self._tokens.first
        words[layout.NEXT_TOKEN // 8] = self._tokens.first + 1
        helpers = _helper_addresses()
        words[layout.HELPERS // 8 : layout.HELPERS // 8 + len(helpers)] = helpers
        self._context[:] = words.view(np.uint8)

    def _make_template(self) -> npt.NDArray[np.uint8]:
        """State of all waves at their start, up to the vector registers; workgroup ids are filled in per group."""
        launch, number = self.launch, self.launch.waves
        template = np.zeros((number, VECTORS), np.uint8)
        code = self.records.code.ctypes.data
        pool = self.records.constants.view(np.uint8)
        cells = [launch.scalar_cells((0, 0, 0), wave) for wave in range(number)]
        template[:, : 4 * layout.SCALAR_CELLS] = np.stack(cells).view(np.uint8)
        template[:, layout.MODE : layout.MODE + 4].view(np.uint32)[:] = launch.mode
        template[:, layout.CONSTANTS : layout.CONSTANTS + pool.size] = pool
        waves = np.arange(number, dtype=np.uint64)
        scratch = waves * np.uint64(launch.scratch_bytes * 64 + _PAD)
        for offset, value in (
            (layout.PC, code + launch.entry * layout.RECORD_BYTES),
            (layout.CONTEXT, self._context.ctypes.data),
            (layout.LDS, self._lds.ctypes.data),
            (layout.LDS_SHADOW, self._shadow.ctypes.data),
            (layout.LDS_BYTES, np.uint64(launch.lds_bytes) | waves << np.uint64(32)),
            (layout.SCRATCH, np.uint64(self._scratch.ctypes.data) + scratch),
            (layout.SCRATCH_SHADOW, np.uint64(self._scratch_shadow.ctypes.data) + scratch),
            (layout.SCRATCH_BYTES, launch.scratch_bytes | launch.entry << 32),
            (layout.CODE, code),
            (layout.COUNTS, self._counts.ctypes.data),
            (layout.DIRECT, np.uint64(self._direct.ctypes.data) + waves * np.uint64(_DIRECT_BYTES)),
        ):
            template[:, offset : offset + 8].view(np.uint64)[:, 0] = value
        return template

    def run(self) -> Result:
        descriptor = self.launch.code.descriptor
        enabled = (descriptor.workgroup_id_x, descriptor.workgroup_id_y, descriptor.workgroup_id_z)
        first = len(self.launch.user_sgprs)
        axes = [axis for axis in range(3) if enabled[axis]]
        cells = self._template[:, : 4 * layout.SCALAR_CELLS].view(np.uint32)
        for place in self.launch.workgroups(self.seed):
            for position, axis in enumerate(axes):
                cells[:, first + position] = place[axis]
            self._reset()
            status = self._function(self._context.ctypes.data)
            if status:
                return self._stopped(status, place)
        give_back(self._tokens, _Words(self._context).u32(layout.NEXT_TOKEN))
        return Result(self._times(), None)

    def _reset(self) -> None:
        self._waves[:, :VECTORS] = self._template
        registers = self._waves[:, VECTORS:].view(np.uint32)
        registers[:, : self._architected // 4] = layout.POISON
        accumulators = 256 * layout.REGISTER_BYTES // 4
        registers[:, accumulators : accumulators + self._accumulators // 4] = layout.POISON
        registers[:, :64] = self._ids
        self._lds[:] = layout.CANARY
        self._shadow[:] = 0
        if self.launch.scratch_bytes:
            self._scratch[:] = layout.CANARY
            self._scratch_shadow[:] = 0
        _Words(self._context).u64(layout.LOG_COUNT, 0)

    def _times(self) -> npt.NDArray[np.int64]:
        times: npt.NDArray[np.int64] = np.cumsum(self._counts)[: len(self.launch.program.instructions)]
        return times

    def _stopped(self, status: int, place: tuple[int, int, int]) -> Result:
        words, instructions = _Words(self._context), self.launch.program.instructions
        index = words.u32(layout.FAULT_INDEX)
        if status == layout.OVER_BUDGET:
            pc = instructions[index].pc
            raise BudgetError(f"instruction budget used up in {self.launch.code.symbol} at 0x{pc:x}")
        kind, wave = words.u32(layout.FAULT_KIND), words.u32(layout.FAULT_WAVE)
        lane, address = words.u32(layout.FAULT_LANE), words.u64(layout.FAULT_ADDRESS)
        at_end = index >= len(instructions)
        instruction = instructions[-1] if at_end else instructions[index]
        register = detail = ""
        if at_end:
            detail = "ran past the end of the code"
        elif kind == faults.IN_FLIGHT:
            register = self._register_in_flight(index, wave)
        fault = Fault(
            KINDS[kind],
            self.launch.code.symbol,
            instruction.pc,
            instruction.text,
            place,
            wave,
            -1 if lane == 0xFFFFFFFF else lane,
            -1 if address == 0xFFFFFFFFFFFFFFFF else address,
            register,
            detail,
        )
        return Result(self._times(), fault)

    def _register_in_flight(self, index: int, wave: int) -> str:
        touched = self.records.touched[index, :_PENDING_SET_BYTES]
        pending = self._waves[wave, layout.PENDING_BITS : layout.PENDING_BITS + _PENDING_SET_BYTES]
        both = touched & pending
        return register_name(
            int.from_bytes(both[:64].tobytes(), "little"), int.from_bytes(both[64:].tobytes(), "little")
        )
