"""Disassembly text to typed instructions.

Every mnemonic, operand and modifier is either known here and to the table, or the decoding stops with
`UnknownInstructionError`. A decoded instruction is a `Form` (all that changes the code that executes it) and slots (the
register offsets and numbers that do not).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from aot.emulator.decode.form import Decoded, Form, OperandUse, use_of
from aot.emulator.decode.memory import decode_memory
from aot.emulator.decode.operands import integer, number_list, operand, split
from aot.emulator.errors import UnknownInstructionError
from aot.emulator.isa.memory import MEMORY
from aot.emulator.isa.mfma import MFMA, MatrixSpec
from aot.emulator.isa.salu import BRANCHES
from aot.emulator.isa.spec import ONLY_950, Spec
from aot.emulator.isa.tables import LANE, SPECS
from aot.emulator.state import layout

_DPP_CONTROLS = (
    "row_shl",
    "row_shr",
    "row_ror",
    "wave_shl",
    "wave_shr",
    "wave_rol",
    "wave_ror",
    "row_bcast",
    "row_newbcast",
)
_SDWA_SELECTS = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"}
_SUFFIXES = ("_e32", "_e64", "_sdwa", "_dpp")


@dataclass(slots=True)
class Known:
    """An instruction without its place, shared by all places that it is found at."""

    size: int
    text: str
    decoded: Decoded
    kept: object = None  # what an engine made of it, for its next meeting with it


@dataclass(slots=True)
class Instruction:
    """One instruction at its place in a program."""

    index: int
    pc: int
    known: Known
    target: int = -1  # index of the branch target

    @property
    def size(self) -> int:
        return self.known.size

    @property
    def text(self) -> str:
        return self.known.text

    @property
    def decoded(self) -> Decoded:
        return self.known.decoded

    @property
    def form(self) -> Form:
        return self.known.decoded.form


@dataclass(eq=False)
class Program:
    """The decoded kernel: instructions in address order, index by address. One is equal to itself only."""

    instructions: list[Instruction]
    by_pc: dict[int, int] = field(default_factory=dict)

    @cached_property
    def sets_mode(self) -> bool:
        """Whether it writes hardware registers."""
        return any(i.form.name.startswith("s_setreg") for i in self.instructions)


def know(pc: int, size: int, mnemonic: str, text: str, target: str) -> Known:
    """One decoded instruction of a target, gfx942 or gfx950; what is wrong with it is said of the address."""
    try:
        return Known(size, f"{mnemonic} {text}".strip(), decode(mnemonic, text, target))
    except UnknownInstructionError as error:
        raise UnknownInstructionError(error.what, f"{mnemonic} {text}".strip(), pc) from error


def place(found: Sequence[tuple[int, Known]]) -> Program:
    """The program of instructions at their addresses, with branches resolved."""
    instructions = [Instruction(index, pc, known) for index, (pc, known) in enumerate(found)]
    by_pc = {pc: index for index, (pc, _) in enumerate(found)}
    for instruction in instructions:
        if instruction.form.name in BRANCHES:
            at = instruction.pc + 4 + 4 * instruction.decoded.number
            if at not in by_pc:
                raise UnknownInstructionError("branch out of the kernel", instruction.text, instruction.pc)
            instruction.target = by_pc[at]
    return Program(instructions, by_pc)


@lru_cache(maxsize=200_000)
def decode(mnemonic: str, text: str, target: str) -> Decoded:
    """One instruction without its place; equal texts share the result."""
    if mnemonic in MEMORY:
        spec: Any = MEMORY[mnemonic]
        _check_target(spec.targets, target, mnemonic)
        decoded = decode_memory(spec, text)
        if decoded.form.get("lds") and spec.bytes > 4:
            _check_target(ONLY_950, target, f"{mnemonic} to LDS")
        return decoded
    if mnemonic in MFMA:
        _check_target(MFMA[mnemonic].targets, target, mnemonic)
        return _decode_mfma(MFMA[mnemonic], text)
    base, encoding = mnemonic, ""
    for suffix in _SUFFIXES:
        if mnemonic.endswith(suffix):
            base, encoding = mnemonic.removesuffix(suffix), suffix[1:]
            break
    if base in LANE:
        _check_target(LANE[base].targets, target, mnemonic)
        return _decode_alu(LANE[base], text, encoding)
    if base not in SPECS:
        raise UnknownInstructionError("unknown instruction", mnemonic)
    found = SPECS[base]
    _check_target(found.targets, target, mnemonic)
    if found.unit == "control":
        return _decode_control(found, text)
    return _decode_alu(found, text, encoding)


def _check_target(targets: frozenset[str], target: str, mnemonic: str) -> None:
    if target not in targets:
        raise UnknownInstructionError(f"instruction does not exist on {target}", mnemonic)


def _decode_control(spec: Spec, text: str) -> Decoded:
    name = spec.name
    if name == "s_waitcnt":
        return Decoded(Form("control", name, (), ()), waits=_wait_counts(text))
    if name.startswith(("s_setreg", "s_getreg")):
        return _decode_hardware_register(name, text)
    if name in BRANCHES:
        offset = integer(text)
        offset -= 0x10000 if offset & 0x8000 else 0
        # Hazard detection reads VCC and EXEC like any operand.
        reads = layout.VCC if "vcc" in name else layout.EXEC if "exec" in name else None
        scalars = 0 if reads is None else 0b11 << reads
        return Decoded(Form("control", name, (), ()), number=offset, reads_s=scalars)
    number = integer(text) if text else 0
    return Decoded(Form("control", name, (), ()), number=number)


def _wait_counts(text: str) -> tuple[int, int]:
    """(vmcnt, lgkmcnt) to wait for; -1 is no wait."""
    vm = lgkm = -1
    for word in text.replace("&", " ").split():
        name, _, rest = word.partition("(")
        if not rest.endswith(")") or name not in ("vmcnt", "lgkmcnt", "expcnt"):
            raise UnknownInstructionError("unknown wait count", text)
        count = int(rest[:-1])
        if name == "vmcnt":
            vm = count
        elif name == "lgkmcnt":
            lgkm = count
    return vm, lgkm


def _decode_hardware_register(name: str, text: str) -> Decoded:
    parts, modifiers = split(text)
    if modifiers or len(parts) != 2:
        raise UnknownInstructionError("unknown operand", text)
    register_text, other = (parts[1], parts[0]) if name == "s_getreg_b32" else (parts[0], parts[1])
    if not register_text.startswith("hwreg(HW_REG_"):
        raise UnknownInstructionError("unknown hardware register", register_text)
    items = [item.strip() for item in register_text[6:-1].split(",")]
    offset, size = (int(items[1]), int(items[2])) if len(items) == 3 else (0, 32)
    modifiers_key = (("register", items[0]), ("offset", offset), ("size", size))
    value = operand(other, "u32")
    use = use_of(value, 1, write=name == "s_getreg_b32")
    form = Form("control", name, (use.kind,), modifiers_key)
    return Decoded(form, (use,)).with_sets()


def _decode_mfma(spec: MatrixSpec, text: str) -> Decoded:
    parts, modifiers = split(text)
    if modifiers:
        raise UnknownInstructionError("modifier of a matrix instruction is not modelled", " ".join(modifiers))
    if len(parts) != 4:
        raise UnknownInstructionError("unknown operand form", text)
    dwords = (spec.accumulator_dwords, spec.operand_dwords, spec.operand_dwords, spec.accumulator_dwords)
    uses = []
    for position, (part, count) in enumerate(zip(parts, dwords, strict=True)):
        found = operand(part, "f32" if spec.accumulator != "i32" else "u32")
        if not found.plain or (found.kind == "v" and found.dwords != count) or (found.kind != "v" and position != 3):
            raise UnknownInstructionError("unknown operand form", part)
        if found.kind == "s":
            raise UnknownInstructionError("scalar register as matrix operand", part)
        uses.append(use_of(found, count, write=position == 0))
    return Decoded(Form("mfma", spec.name, tuple(u.kind for u in uses), ()), tuple(uses)).with_sets()


def _decode_alu(spec: Spec, text: str, encoding: str) -> Decoded:
    parts, words = split(text) if text else ([], [])
    results = [t for t in spec.results if t not in ("scc", "exec")]
    operands_ = [t for t in spec.operands if t[0] != "@" and t not in ("scc", "exec", "vcc", "pc", "clock", "bitop3")]
    if len(parts) != len(results) + len(operands_):
        raise UnknownInstructionError("unknown operand form", text)
    modifiers = _alu_modifiers(words, spec, encoding)
    uses: list[OperandUse] = []
    for position, (part, type_) in enumerate(zip(parts, results + operands_, strict=True)):
        writes = position < len(results)
        found = operand(part, type_)
        uses.append(_checked_use(found, type_, part, writes, spec, modifiers))
    if any(type_[0] == "@" for type_ in spec.operands):
        uses[0] = uses[0].both()
    if spec.unit == "swap_lanes":
        uses = [u.both() for u in uses]
    if modifiers.get("dst_unused") == "UNUSED_PRESERVE" or "dpp" in modifiers:
        uses[0] = uses[0].both()
    form = Form(spec.unit, spec.name, tuple(u.kind for u in uses), tuple(sorted(modifiers.items())))
    extra_reads = extra_writes = 0
    if "vcc" in spec.operands:
        extra_reads |= 0b11 << layout.VCC
    if "exec" in spec.operands or spec.unit in ("valu", "packed", "cmpx"):
        extra_reads |= 0b11 << layout.EXEC
    if "exec" in spec.results or spec.unit == "cmpx":
        extra_writes |= 0b11 << layout.EXEC
    return Decoded(form, tuple(uses), reads_s=extra_reads, writes_s=extra_writes).with_sets()


_DWORDS = {"u64": 2, "i64": 2, "f64": 2, "mask": 2, "pkf32": 2, "pku32": 2}


def _checked_use(found: Any, type_: str, part: str, writes: bool, spec: Spec, modifiers: dict[str, Any]) -> OperandUse:
    count = _DWORDS.get(type_, 1)
    scalar_unit = spec.unit == "salu"
    if found.kind == "-" or (found.kind in "vs" and found.dwords != count and type_ != "imm"):
        raise UnknownInstructionError("operand of the wrong width", part)
    if writes and (found.kind == "c" or not found.plain):
        raise UnknownInstructionError("not a destination", part)
    if scalar_unit and found.kind == "v":
        raise UnknownInstructionError("vector register in a scalar instruction", part)
    if type_ == "mask" and found.kind == "v":
        raise UnknownInstructionError("vector register as lane mask", part)
    if writes and not scalar_unit and type_ not in ("mask", "s32") and found.kind != "v":
        raise UnknownInstructionError("scalar destination of a vector instruction", part)
    plain_type = type_.removeprefix("pk").removeprefix("@")
    if (found.negate or found.absolute) and not (
        plain_type[0] == "f"
        or type_ == "mix"
        or "float_sources" in spec.modifiers
        or (plain_type == "u32" and spec.name == "v_mov_b32")
    ):
        raise UnknownInstructionError("sign modifier on an integer operand", part)
    if found.kind == "c" and type_ in ("pkf32", "pku32") and found.number and not _only_low(modifiers, spec, part):
        raise UnknownInstructionError("high half of a packed 32-bit constant", part)
    if found.sign_extend and "src0_sel" not in modifiers and "src1_sel" not in modifiers:
        raise UnknownInstructionError("sext without operand selection", part)
    return use_of(found, count, write=writes)


def _only_low(modifiers: dict[str, Any], spec: Spec, part: str) -> bool:
    """Whether no lane of a packed instruction takes the high dword of a constant (checked for all sources at once)."""
    high = modifiers.get("op_sel_hi", (1,) * len(spec.operands))
    return not all(high) and not any(modifiers.get("op_sel", ())) and bool(part)


def _alu_modifiers(words: list[str], spec: Spec, encoding: str) -> dict[str, Any]:
    modifiers: dict[str, Any] = {}
    vector = spec.unit != "salu"
    for word in words:
        name, _, value = word.partition(":")
        if not vector:
            raise UnknownInstructionError("unknown modifier", word)
        if name in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi"):
            bits = number_list(value)
            packed = spec.unit in ("packed", "packed_mov") or spec.name.startswith("v_dot")
            if name != "op_sel" and not packed:
                raise UnknownInstructionError("unknown modifier", word)
            if spec.name.startswith("v_dot") and any(bits) and name != "op_sel_hi":
                raise UnknownInstructionError("half selection of a dot product is not modelled", word)
            modifiers[name] = bits
        elif word == "clamp":
            modifiers["clamp"] = True
        elif word in ("mul:2", "mul:4", "div:2"):
            # The manual has it ignored in IEEE mode, which is the only one modelled, and beside denormals.
            raise UnknownInstructionError("output scale, which IEEE mode ignores", word)
        elif name == "quad_perm" and encoding == "dpp":
            modifiers["dpp"] = ("quad_perm", number_list(value))
        elif word in ("row_mirror", "row_half_mirror") and encoding == "dpp":
            modifiers["dpp"] = (word, 0)
        elif name in _DPP_CONTROLS and encoding == "dpp":
            modifiers["dpp"] = (name, int(value))
        elif name in ("row_mask", "bank_mask") and encoding == "dpp":
            modifiers[name] = integer(value)
        elif name == "bound_ctrl" and encoding == "dpp":
            modifiers["bound_ctrl"] = True  # printed only when the bit is set
        elif (name in ("dst_sel", "src0_sel", "src1_sel") and encoding == "sdwa" and value in _SDWA_SELECTS) or (
            name == "dst_unused" and encoding == "sdwa" and value in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
        ):
            modifiers[name] = value
        elif name == "bitop3" and "bitop3" in spec.operands:
            modifiers["bitop3"] = integer(value)
        else:
            raise UnknownInstructionError("unknown modifier", word)
    if spec.name.startswith("v_dot"):
        for name in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi"):
            if not all(modifiers.pop(name, (1,))):
                raise UnknownInstructionError("half selection of a dot product is not modelled", name)
    floating = all(t.removeprefix("pk")[0] in "fm" for t in spec.results if t != "mask")
    if modifiers.get("clamp") and not (floating or spec.name in _CLAMPED_INTEGERS):
        raise UnknownInstructionError("integer clamp is not modelled", spec.name)
    if encoding == "dpp" and "dpp" not in modifiers:
        raise UnknownInstructionError("DPP without a control", spec.name)
    return modifiers


_CLAMPED_INTEGERS = frozenset(
    {
        "v_add_u32",
        "v_sub_u32",
        "v_add_i32",
        "v_sub_i32",
        "v_add_u16",
        "v_sub_u16",
        "v_add_i16",
        "v_sub_i16",
        "v_pk_add_u16",
        "v_pk_sub_u16",
        "v_pk_add_i16",
        "v_pk_sub_i16",
    }
)
