"""A program as the generated engine takes it: one fixed-size record per instruction, and register sets beside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from aot.emulator import layout
from aot.emulator.code_cache import code_cache
from aot.emulator.decode import Instruction, Program
from aot.emulator.form import Form
from aot.emulator.handlers import LGKM_SLOT, TARGET_SLOT, VM_SLOT
from aot.emulator.program import bind

# Behind the last instruction: whoever gets there has run off the code.
_END = Form("control", "s_trap", (), ())


@dataclass(frozen=True)
class Records:
    """`code`: (n+1, RECORD_BYTES); `touched`, `late`: (n+1, SET_BYTES) register sets; `constants`: u64 pool."""

    code: npt.NDArray[np.uint8]
    touched: npt.NDArray[np.uint8]
    late: npt.NDArray[np.uint8]
    constants: npt.NDArray[np.uint64]
    direct: bool


def build_records(program: Program, keeps_denormals: bool) -> Records:
    """Resolve handlers (compiling what is missing) and lay out the records."""
    instructions = program.instructions
    number = len(instructions)
    bound = bind(program)
    forms = list(dict.fromkeys([*(i.form for i in instructions), _END]))
    addresses = dict(zip(forms, code_cache().handlers([(form, keeps_denormals) for form in forms]), strict=True))
    code = np.zeros((number + 1, layout.RECORD_BYTES), np.uint8)
    code[:, :8].view(np.uint64)[:, 0] = [*(addresses[i.form] for i in instructions), addresses[_END]]
    code[:, layout.RECORD_INDEX : layout.RECORD_INDEX + 4].view(np.uint32)[:, 0] = np.arange(number + 1)
    slots = code[:, layout.RECORD_SLOTS :].view(np.uint32)
    flags = code[:, layout.RECORD_FLAGS : layout.RECORD_FLAGS + 4].view(np.uint32)
    for instruction, values in zip(instructions, bound.slots, strict=True):
        row = slots[instruction.index]
        row[: len(values)] = values
        _extra_slots(instruction, row)
        flags[instruction.index] = int(instruction.decoded.late) | 2 * _is_direct(instruction.form)
    touched = _sets([(d.reads_v | d.writes_v, d.reads_s | d.writes_s) for d in (i.decoded for i in instructions)])
    late = _sets([(d.writes_v, d.writes_s) if d.late else (0, 0) for d in (i.decoded for i in instructions)])
    code[:, layout.RECORD_TOUCH_V : layout.RECORD_TOUCH_V + 16] = touched[
        :, layout.SET_COARSE_V : layout.SET_COARSE_V + 16
    ]
    return Records(code, touched, late, bound.constants, any(_is_direct(i.form) for i in instructions))


def _is_direct(form: Form) -> bool:
    return form.unit == "memory" and bool(form.get("lds"))


def _extra_slots(instruction: Instruction, row: npt.NDArray[np.uint32]) -> None:
    name = instruction.form.name
    if name == "s_waitcnt":
        vm, lgkm = instruction.decoded.waits
        row[VM_SLOT], row[LGKM_SLOT] = vm & 0xFFFFFFFF, lgkm & 0xFFFFFFFF
    elif instruction.target >= 0:
        row[TARGET_SLOT] = (instruction.target - instruction.index) * layout.RECORD_BYTES & 0xFFFFFFFF
    elif name == "s_getpc_b64":
        row[layout.MAX_SLOTS - 1] = instruction.pc + instruction.size


def _sets(pairs: list[tuple[int, int]]) -> npt.NDArray[np.uint8]:
    """Register sets as bytes, with the coarse sets behind the exact ones; a last empty row for the end."""
    joined = b"".join(_set_bytes(v, s) for v, s in pairs) + bytes(layout.SET_BYTES)
    rows = np.frombuffer(joined, np.uint8).reshape(-1, layout.SET_BYTES).copy()
    words = rows[:, :88].view(np.uint64)
    groups = _squeeze(words[:, :8] | words[:, :8] >> np.uint64(1))
    groups = _squeeze(groups | groups >> np.uint64(1))
    vectors = groups[:, :4] | groups[:, 4:]
    rows[:, layout.SET_COARSE_V : layout.SET_COARSE_V + 8] = vectors.astype(np.uint16).view(np.uint8)
    scalars = _squeeze(words[:, 8:] | words[:, 8:] >> np.uint64(1))
    scalars[:, 0] |= scalars[:, 2]
    rows[:, layout.SET_COARSE_S : layout.SET_COARSE_S + 8] = scalars[:, :2].astype(np.uint32).view(np.uint8)
    return rows


def _squeeze(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Every other bit of each word, from the lowest, side by side."""
    words = words & np.uint64(0x5555555555555555)
    for shift, mask in (
        (1, 0x3333333333333333),
        (2, 0x0F0F0F0F0F0F0F0F),
        (4, 0x00FF00FF00FF00FF),
        (8, 0x0000FFFF0000FFFF),
        (16, 0x00000000FFFFFFFF),
    ):
        words = (words | words >> np.uint64(shift)) & np.uint64(mask)
    return words


@lru_cache(maxsize=65536)
def _set_bytes(vectors: int, scalars: int) -> bytes:
    return (vectors.to_bytes(64, "little") + scalars.to_bytes(24, "little")).ljust(layout.SET_BYTES, b"\0")
