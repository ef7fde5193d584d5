"""Operands of memory instructions: DS, MUBUF, FLAT family and SMEM.

Slots after the operands (`Decoded.numbers`): the byte offset; for ds_read2/write2 both byte offsets.
"""

from __future__ import annotations

from typing import Any

from aot.emulator.decode.form import Decoded, Form, OperandUse, use_of
from aot.emulator.decode.operands import integer, operand, split
from aot.emulator.errors import UnknownInstructionError
from aot.emulator.isa.memory import MemorySpec
from aot.emulator.state import layout

# Cache hints change where data is kept, never what it is. On an atomic sc0 asks for the old value.
_CACHE_HINTS = {"sc0", "sc1", "nt"}


def decode_memory(spec: MemorySpec, text: str) -> Decoded:
    parts, words = split(text) if text else ([], [])
    if spec.unit == "cache":
        if any(word not in _CACHE_HINTS for word in [*parts, *words]):
            raise UnknownInstructionError("unknown modifier", text)
        return Decoded(Form("cache", spec.name, (), ()))
    if spec.unit == "scalar_memory":
        return _scalar(spec, parts, words)
    # Instructions without operands before their modifiers do not exist here, but the last "operand" may be one.
    modifiers = _modifiers(spec, words)
    if spec.space == "lds":
        return _lds(spec, parts, modifiers)
    if spec.space == "lanes":
        return _lane_exchange(spec, parts, modifiers)
    if spec.space == "buffer":
        return _buffer(spec, parts, modifiers)
    return _flat(spec, parts, modifiers)


def _modifiers(spec: MemorySpec, words: list[str]) -> dict[str, Any]:
    known = {
        "lds": {"offset", "offset0", "offset1"},
        "lanes": {"offset"},
        "buffer": {"offset", "offen", "lds"} | _CACHE_HINTS,
    }.get(spec.space, {"offset"} | _CACHE_HINTS)
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition(":")
        if name not in known or bool(value) != (name in ("offset", "offset0", "offset1")):
            raise UnknownInstructionError("unknown modifier", word)
        if name == "offset" and spec.name == "ds_swizzle_b32":
            found[name] = value
        else:
            found[name] = integer(value) if value else True
    return found


def _vector(part: str, dwords: int, write: bool = False) -> OperandUse:
    found = operand(part, "u32")
    if found.kind != "v" or found.dwords != dwords or not found.plain:
        raise UnknownInstructionError("vector register of the wrong width", part)
    return use_of(found, dwords, write)


def _scalar_use(part: str, dwords: int) -> OperandUse:
    found = operand(part, "u32")
    if found.kind not in "sc" or not found.plain or (found.kind == "s" and found.dwords != dwords):
        raise UnknownInstructionError("scalar register of the wrong width", part)
    return use_of(found, dwords, write=False)


def _need(parts: list[str], count: int) -> None:
    if len(parts) != count:
        raise UnknownInstructionError("unknown operand form", ", ".join(parts))


def _result(
    spec: MemorySpec,
    uses: list[OperandUse],
    modifiers: list[tuple[str, Any]],
    numbers: tuple[int, ...],
    late: bool,
    unit: str = "memory",
) -> Decoded:
    form = Form(unit, spec.name, tuple(u.kind for u in uses), tuple(modifiers))
    return Decoded(form, tuple(uses), numbers=numbers, late=late, reads_s=0b11 << layout.EXEC).with_sets()


def _lds(spec: MemorySpec, parts: list[str], modifiers: dict[str, Any]) -> Decoded:
    if spec.pair:
        scale = spec.bytes * spec.pair
        if "offset" in modifiers:
            raise UnknownInstructionError("unknown modifier", "offset")
        numbers: tuple[int, ...] = (modifiers.get("offset0", 0) * scale, modifiers.get("offset1", 0) * scale)
    else:
        if "offset0" in modifiers or "offset1" in modifiers:
            raise UnknownInstructionError("unknown modifier", "offset0")
        numbers = (modifiers.get("offset", 0),)
    address = 1
    if spec.action in ("load", "load_transposed"):
        _need(parts, 2)
        count = spec.dwords * (2 if spec.pair else 1)
        uses = [_vector(parts[0], count, write=True), _vector(parts[1], address)]
        if "d16" in spec.convert:
            uses[0] = uses[0].both()
        return _result(spec, uses, [], numbers, late=True)
    if spec.action == "store":
        _need(parts, 3 if spec.pair else 2)
        uses = [_vector(parts[0], address)] + [_vector(part, spec.dwords) for part in parts[1:]]
        return _result(spec, uses, [], numbers, late=False)
    data_count = 2 if spec.op == "cas" else 1
    _need(parts, (1 if spec.returns else 0) + 1 + data_count)
    uses = [_vector(parts[0], spec.dwords, write=True)] if spec.returns else []
    rest = parts[1:] if spec.returns else parts
    uses += [_vector(rest[0], address)] + [_vector(part, spec.dwords) for part in rest[1:]]
    return _result(spec, uses, [("returns", bool(spec.returns))], numbers, late=bool(spec.returns))


def _lane_exchange(spec: MemorySpec, parts: list[str], modifiers: dict[str, Any]) -> Decoded:
    if spec.name == "ds_swizzle_b32":
        _need(parts, 2)
        pattern = swizzle_pattern(modifiers.get("offset", "0"))
        uses = [_vector(parts[0], 1, write=True), _vector(parts[1], 1)]
        return _result(spec, uses, [("pattern", pattern)], (), late=True, unit="lane_exchange")
    _need(parts, 3)
    uses = [_vector(parts[0], 1, write=True), _vector(parts[1], 1), _vector(parts[2], 1)]
    return _result(spec, uses, [], (modifiers.get("offset", 0),), late=True, unit="lane_exchange")


def swizzle_pattern(text: str) -> tuple[int, ...]:
    """The source lane of each of the 64 lanes for a ds_swizzle offset."""
    if not text.startswith("swizzle("):
        code = integer(text)
        if code >= 0xC000:
            raise UnknownInstructionError("unknown swizzle", text)
        if code & 0x8000:
            return _quads([code >> (2 * i) & 3 for i in range(4)])
        return _bit_masks(code & 31, code >> 5 & 31, code >> 10 & 31)
    kind, *numbers = text[8:-1].split(",")
    kind = kind.strip()
    if kind == "QUAD_PERM":
        return _quads([int(number) for number in numbers])
    if kind == "BITMASK_PERM":
        bits = numbers[0].strip().strip('"')
        masks = {"0": (0, 0, 0), "1": (0, 1, 0), "p": (1, 0, 0), "i": (1, 0, 1)}
        and_mask = or_mask = xor_mask = 0
        for char in bits:
            a, o, x = masks[char]
            and_mask, or_mask, xor_mask = and_mask * 2 + a, or_mask * 2 + o, xor_mask * 2 + x
        return _bit_masks(and_mask, or_mask, xor_mask)
    if kind == "SWAP":
        return _bit_masks(31, 0, int(numbers[0]))
    if kind == "REVERSE":
        return _bit_masks(31, 0, int(numbers[0]) - 1)
    if kind == "BROADCAST":
        size, lane = int(numbers[0]), int(numbers[1])
        return _bit_masks(32 - size, lane, 0)
    raise UnknownInstructionError("unknown swizzle", text)


def _quads(order: list[int]) -> tuple[int, ...]:
    return tuple((lane & ~3) + order[lane & 3] for lane in range(64))


def _bit_masks(and_mask: int, or_mask: int, xor_mask: int) -> tuple[int, ...]:
    return tuple((lane & 32) + (((lane & 31 & and_mask) | or_mask) ^ xor_mask) for lane in range(64))


def _buffer(spec: MemorySpec, parts: list[str], modifiers: dict[str, Any]) -> Decoded:
    to_lds = bool(modifiers.get("lds")) or spec.action == "load_lds"
    if to_lds:
        if spec.action == "load" and (spec.convert not in ("", "u8", "i8", "u16", "i16")):
            raise UnknownInstructionError("load to LDS of this width", spec.name)
        if spec.action not in ("load", "load_lds") or spec.bytes == 8:
            raise UnknownInstructionError("not a load to LDS", spec.name)
        _need(parts, 3)
        data: list[OperandUse] = []
        rest = parts
    else:
        _need(parts, 4)
        rest = parts[1:]
        data = []
    offen = bool(modifiers.get("offen"))
    address = _vector(rest[0], 1) if offen else use_of(operand(rest[0], "u32"), 0, write=False)
    if not offen and rest[0] != "off":
        raise UnknownInstructionError("address register without offen", rest[0])
    returns = spec.action == "atomic" and bool(modifiers.get("sc0"))
    if not to_lds:
        if spec.action == "load":
            data = [_vector(parts[0], spec.dwords, write=True)]
            if "d16" in spec.convert:
                data = [data[0].both()]
        elif spec.action == "store":
            data = [_vector(parts[0], spec.dwords)]
        else:
            use = _vector(parts[0], spec.dwords * (2 if spec.op == "cas" else 1))
            data = [use.both() if returns else use]
    uses = [*data, address, _scalar_use(rest[1], 4), _scalar_use(rest[2], 1)]
    key: list[tuple[str, Any]] = [("offen", offen), ("lds", to_lds)]
    if spec.action == "atomic":
        key.append(("returns", returns))
    decoded = _result(
        spec, uses, key, (modifiers.get("offset", 0),), late=(spec.action == "load" and not to_lds) or returns
    )
    return _with_m0(decoded) if to_lds else decoded


def _with_m0(decoded: Decoded) -> Decoded:
    return decoded._replace(reads_s=decoded.reads_s | 1 << layout.M0)


def _flat(spec: MemorySpec, parts: list[str], modifiers: dict[str, Any]) -> Decoded:
    """global/flat/scratch: data and address in the order of the text, then the scalar base (not for flat)."""
    has_scalar = spec.space != "flat"
    to_lds = spec.action == "load_lds"
    returns = spec.action == "atomic" and bool(modifiers.get("sc0"))
    data_parts = 0 if to_lds else 1 + (1 if returns else 0)
    _need(parts, data_parts + 1 + (1 if has_scalar else 0))
    base_text = parts[-1] if has_scalar else "off"
    if spec.action == "load" or returns:
        data_text, address_text, rest = parts[0], parts[1], parts[2:]
    else:
        data_text, address_text, rest = "", parts[0], parts[1:]
    has_base = base_text != "off"
    if spec.space == "scratch":
        address = _vector(address_text, 1) if address_text != "off" else use_of(operand("off", "u32"), 0, write=False)
        base = _scalar_use(base_text, 1) if has_base else use_of(operand("off", "u32"), 0, write=False)
    else:
        address = _vector(address_text, 1 if has_base else 2)
        base = _scalar_use(base_text, 2) if has_base else use_of(operand("off", "u32"), 0, write=False)
    uses: list[OperandUse] = []
    if spec.action == "load":
        uses.append(_vector(data_text, spec.dwords, write=True))
        if "d16" in spec.convert:
            uses[0] = uses[0].both()
    elif spec.action == "store":
        uses.append(_vector(rest[0], spec.dwords))
    elif spec.action == "atomic":
        if returns:
            uses.append(_vector(data_text, spec.dwords, write=True))
        uses.append(_vector(rest[0], spec.dwords * (2 if spec.op == "cas" else 1)))
    uses += [address, base]
    key: list[tuple[str, Any]] = [("lds", to_lds)]
    if spec.action == "atomic":
        key.append(("returns", returns))
    decoded = _result(spec, uses, key, (modifiers.get("offset", 0),), late=spec.action == "load" or returns)
    return _with_m0(decoded) if to_lds else decoded


def _scalar(spec: MemorySpec, parts: list[str], words: list[str]) -> Decoded:
    _need(parts, 3)
    found = operand(parts[0], "u32")
    if found.kind != "s" or found.dwords != spec.dwords:
        raise UnknownInstructionError("scalar register of the wrong width", parts[0])
    uses = [use_of(found, spec.dwords, write=True), _scalar_use(parts[1], 4 if spec.space == "scalar_buffer" else 2)]
    offset = 0
    for word in words:
        name, _, value = word.partition(":")
        if name == "offset":
            offset = integer(value)
        elif word not in ("glc", *_CACHE_HINTS):
            raise UnknownInstructionError("unknown modifier", word)
    other = operand(parts[2], "imm")
    if other.kind == "c":
        number = integer(parts[2])
        return _result(spec, uses, [("sgpr", False)], (number + offset,), late=True, unit="scalar_memory")
    uses.append(_scalar_use(parts[2], 1))
    return _result(spec, uses, [("sgpr", True)], (offset,), late=True, unit="scalar_memory")
