"""A program as the generated engine takes it: one fixed-size record per instruction, and register sets beside them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from aot.emulator.decode.form import Form
from aot.emulator.decode.instruction import Instruction, Known, Program
from aot.emulator.engine_llvm.code_cache import code_cache
from aot.emulator.engine_llvm.handlers import LGKM_SLOT, TARGET_SLOT, VM_SLOT
from aot.emulator.engine_llvm.slots import Pool, resolve
from aot.emulator.isa.memory import MEMORY
from aot.emulator.isa.salu import BRANCHES
from aot.emulator.launch import KEPT_PROGRAMS
from aot.emulator.state import layout

# Behind the last instruction: whoever gets there has run off the code.
_END = Form("control", "s_trap", (), ())
_PLACED = BRANCHES | {"s_getpc_b64"}


@dataclass(frozen=True)
class Records:
    """`code`: (n+1, RECORD_BYTES); `touched`, `late`: (n+1, SET_BYTES) register sets; `constants`: u64 pool."""

    code: npt.NDArray[np.uint8]
    touched: npt.NDArray[np.uint8]
    late: npt.NDArray[np.uint8]
    constants: npt.NDArray[np.uint64]
    direct: bool


@dataclass(frozen=True, slots=True)
class Template:
    """The record of an instruction without its handler, its place and the constants of its program.

    `form` counts in the forms of this process; `constants` are (slot, bits); `placed`: something depends on the place.
    """

    form: int
    row: bytes
    touched: bytes
    late: bytes
    constants: tuple[tuple[int, int], ...]
    placed: bool
    direct: bool


_NUMBERS: dict[Form, int] = {}
_FORMS: list[Form] = []
_NO_ROW, _NO_SET = bytes(layout.RECORD_BYTES), bytes(layout.SET_BYTES)


@lru_cache(maxsize=KEPT_PROGRAMS)
def build_records(program: Program, keeps_denormals: bool) -> Records:
    """Resolve handlers (compiling what is missing) and lay out the records; kept for as many programs as are."""
    instructions = program.instructions
    _make_templates({id(i.known): i.known for i in instructions if i.known.kept is None}.values())
    templates = [cast(Template, i.known.kept) for i in instructions]
    code = _rows([t.row for t in templates], _NO_ROW)
    touched, late = _rows([t.touched for t in templates], _NO_SET), _rows([t.late for t in templates], _NO_SET)
    numbers = np.array([*(t.form for t in templates), _number(_END)])
    used, places = np.unique(numbers, return_inverse=True)
    handlers = code_cache().handlers([(_FORMS[number], keeps_denormals) for number in used.tolist()])
    code[:, :8].view(np.uint64)[:, 0] = np.array(handlers, np.uint64)[places]
    code[:, layout.RECORD_INDEX : layout.RECORD_INDEX + 4].view(np.uint32)[:, 0] = np.arange(len(code))
    slots = code[:, layout.RECORD_SLOTS :].view(np.uint32)
    pool = Pool()
    for index, template in enumerate(templates):
        for slot, bits in template.constants:
            slots[index, slot] = pool.offset(bits)
        if template.placed:
            _placed_slots(instructions[index], slots[index])
    constants = np.array(pool.values() or [0], np.uint64)
    return Records(code, touched, late, constants, any(t.direct for t in templates))


def _rows(parts: list[bytes], end: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join([*parts, end]), np.uint8).reshape(-1, len(end)).copy()


def _number(form: Form) -> int:
    number = _NUMBERS.get(form)
    if number is None:
        number = _NUMBERS[form] = len(_FORMS)
        _FORMS.append(form)
    return number


def _make_templates(known: Collection[Known]) -> None:
    """Fill in what these instructions are to the engine, in any program."""
    decoded = [each.decoded for each in known]
    touched = _sets([(d.reads_v | d.writes_v, d.reads_s | d.writes_s) for d in decoded])
    late = _sets([(d.writes_v, d.writes_s) if d.late else (0, 0) for d in decoded])
    rows = np.zeros((len(decoded), layout.RECORD_BYTES), np.uint8)
    coarse = slice(layout.SET_COARSE_V, layout.SET_COARSE_V + 16)
    rows[:, layout.RECORD_TOUCH_V : layout.RECORD_TOUCH_V + 16] = touched[:-1, coarse]
    slots, flags = rows[:, layout.RECORD_SLOTS :].view(np.uint32), rows[:, layout.RECORD_FLAGS :].view(np.uint32)
    resolved = [resolve(each.decoded, each.text) for each in known]
    width = max((len(values) for values, _ in resolved), default=0)
    slots[:, :width] = [[*values, *[0] * (width - len(values))] for values, _ in resolved] or 0
    flags[:, 0] = [
        layout.FLAG_LATE * d.late | layout.FLAG_DIRECT * _is_direct(d.form) | layout.FLAG_STORE * _is_store(d.form)
        for d in decoded
    ]
    for number, each in enumerate(known):
        form = each.decoded.form
        if form.name == "s_waitcnt":
            vm, lgkm = each.decoded.waits
            slots[number, VM_SLOT], slots[number, LGKM_SLOT] = vm & 0xFFFFFFFF, lgkm & 0xFFFFFFFF
        each.kept = Template(
            form=_number(form),
            row=rows[number].tobytes(),
            touched=touched[number].tobytes(),
            late=late[number].tobytes() if each.decoded.late else _NO_SET,
            constants=tuple(resolved[number][1]),
            placed=form.name in _PLACED,
            direct=_is_direct(form),
        )


def _is_direct(form: Form) -> bool:
    return form.unit == "memory" and bool(form.get("lds"))


def _is_store(form: Form) -> bool:
    return form.unit == "memory" and MEMORY[form.name].action == "store" and MEMORY[form.name].space != "lds"


def _placed_slots(instruction: Instruction, row: npt.NDArray[np.uint32]) -> None:
    if instruction.target >= 0:
        row[TARGET_SLOT] = (instruction.target - instruction.index) * layout.RECORD_BYTES & 0xFFFFFFFF
    elif instruction.form.name == "s_getpc_b64":
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
