"""Memory instructions: which space, how many bytes, how they land in registers, and what an atomic computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aot.emulator.isa import numerics as n
from aot.emulator.isa.spec import BOTH, ONLY_950
from aot.emulator.isa.values import Value, high16, low16, pack32, select


@dataclass(frozen=True)
class MemorySpec:
    """One memory instruction.

    `convert`: how a sub-dword lands: u8 i8 u16 i16 (extended), d16 (low half), d16_hi (high half); empty for whole
    dwords. `pair`: 0, or the stride in elements of the two offsets of a ds_read2/write2 (1 or 64). `op`, `type`: the
    atomic function, and the type it works on; `returns`: whether the text has a destination (None: decided by the sc0
    modifier).
    """

    name: str
    space: str
    action: str
    bytes: int
    convert: str = ""
    pair: int = 0
    op: str = ""
    type: str = ""
    returns: bool | None = None
    targets: frozenset[str] = BOTH
    unit: str = "memory"

    @property
    def dwords(self) -> int:
        return max(1, self.bytes // 4)


MEMORY: dict[str, MemorySpec] = {}


def _add(spec: MemorySpec) -> None:
    assert spec.name not in MEMORY, spec.name
    MEMORY[spec.name] = spec


def _swap(_memory: Value, data: Value) -> Value:
    return data


def _inc(memory: Value, data: Value) -> Value:
    return select(memory >= data, memory.ops.const(0, memory.type), memory + 1)


def _dec(memory: Value, data: Value) -> Value:
    return select(memory.eq(0) | (memory > data), data, memory - 1)


def _packed_f16(memory: Value, data: Value) -> Value:
    def half(a: Value, b: Value) -> Value:
        return a.cast("f16") + b.cast("f16")

    return pack32(half(low16(memory), low16(data)), half(high16(memory), high16(data)))


def _packed_bf16(memory: Value, data: Value) -> Value:
    def half(a: Value, b: Value) -> Value:
        return n.bf16_bits(n.bf16_value(a) + n.bf16_value(b))

    return pack32(half(low16(memory), low16(data)), half(high16(memory), high16(data)))


# What the cell becomes, from what it holds and what the lane brings.
ATOMIC: dict[str, Callable[[Value, Value], Value]] = {
    "swap": _swap,
    "add": lambda m, d: m + d,
    "sub": lambda m, d: m - d,
    "rsub": lambda m, d: d - m,
    "min": lambda m, d: m.min(d),
    "max": lambda m, d: m.max(d),
    "and": lambda m, d: m & d,
    "or": lambda m, d: m | d,
    "xor": lambda m, d: m ^ d,
    "inc": _inc,
    "dec": _dec,
    "fadd": lambda m, d: m + d,
    # A comparison, not minNum: a NaN never replaces what is there, and stays if it is there.
    "fmin": lambda m, d: select(d < m, d, m),
    "fmax": lambda m, d: select(d > m, d, m),
    "pk_add_f16": _packed_f16,
    "pk_add_bf16": _packed_bf16,
}

_WIDTHS = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
_INTEGER_ATOMICS = {
    "swap": ("swap", "u"),
    "add": ("add", "u"),
    "sub": ("sub", "u"),
    "smin": ("min", "i"),
    "umin": ("min", "u"),
    "smax": ("max", "i"),
    "umax": ("max", "u"),
    "and": ("and", "u"),
    "or": ("or", "u"),
    "xor": ("xor", "u"),
    "inc": ("inc", "u"),
    "dec": ("dec", "u"),
    "cmpswap": ("cas", "u"),
}


def _vector_memory(prefix: str, space: str) -> None:
    """Loads and stores of one of buffer, global, flat, scratch."""
    for suffix, width in _WIDTHS.items():
        _add(MemorySpec(f"{prefix}_load_{suffix}", space, "load", width))
        _add(MemorySpec(f"{prefix}_store_{suffix}", space, "store", width))
    for suffix, convert in (("ubyte", "u8"), ("sbyte", "i8"), ("ushort", "u16"), ("sshort", "i16")):
        width = 1 if "byte" in suffix else 2
        _add(MemorySpec(f"{prefix}_load_{suffix}", space, "load", width, convert))
        if suffix[0] == "u" or suffix[1:] == "byte":
            for high in ("", "_hi"):
                if suffix != "ushort":
                    _add(MemorySpec(f"{prefix}_load_{suffix}_d16{high}", space, "load", width, f"{convert}_d16{high}"))
    for high in ("", "_hi"):
        _add(MemorySpec(f"{prefix}_load_short_d16{high}", space, "load", 2, f"u16_d16{high}"))
        shift = "d16_hi" if high else "low"
        _add(MemorySpec(f"{prefix}_store_byte" + ("_d16_hi" if high else ""), space, "store", 1, shift))
        _add(MemorySpec(f"{prefix}_store_short" + ("_d16_hi" if high else ""), space, "store", 2, shift))


def _atomics(prefix: str, space: str) -> None:
    for name, (op, sign) in _INTEGER_ATOMICS.items():
        _add(MemorySpec(f"{prefix}_atomic_{name}", space, "atomic", 4, op=op, type=f"{sign}32"))
        _add(MemorySpec(f"{prefix}_atomic_{name}_x2", space, "atomic", 8, op=op, type=f"{sign}64"))
    _add(MemorySpec(f"{prefix}_atomic_add_f32", space, "atomic", 4, op="fadd", type="f32"))
    _add(MemorySpec(f"{prefix}_atomic_add_f64", space, "atomic", 8, op="fadd", type="f64"))
    _add(MemorySpec(f"{prefix}_atomic_min_f64", space, "atomic", 8, op="fmin", type="f64"))
    _add(MemorySpec(f"{prefix}_atomic_max_f64", space, "atomic", 8, op="fmax", type="f64"))
    _add(MemorySpec(f"{prefix}_atomic_pk_add_f16", space, "atomic", 4, op="pk_add_f16", type="u32"))
    # The buffer form of the bf16 atomic came with gfx950; global and flat forms are on both.
    targets = ONLY_950 if prefix == "buffer" else BOTH
    _add(MemorySpec(f"{prefix}_atomic_pk_add_bf16", space, "atomic", 4, op="pk_add_bf16", type="u32", targets=targets))


for _prefix in ("buffer", "global", "flat", "scratch"):
    _vector_memory(_prefix, _prefix)
    if _prefix != "scratch":
        _atomics(_prefix, _prefix)
for _suffix, _width in _WIDTHS.items():
    if _suffix != "dwordx2":
        _add(
            MemorySpec(
                f"global_load_lds_{_suffix}", "global", "load_lds", _width, targets=BOTH if _width == 4 else ONLY_950
            )
        )
        _add(
            MemorySpec(
                f"buffer_load_lds_{_suffix}", "buffer", "load_lds", _width, targets=BOTH if _width == 4 else ONLY_950
            )
        )
for _suffix, _width in (("ubyte", 1), ("ushort", 2)):
    _add(MemorySpec(f"global_load_lds_{_suffix}", "global", "load_lds", _width, _suffix[0] + str(8 * _width)))
for _name in ("buffer_wbl2", "buffer_inv"):
    _add(MemorySpec(_name, "buffer", "cache", 0, unit="cache"))

# --- scalar ---
for _count in (1, 2, 4, 8, 16):
    _suffix = "dword" if _count == 1 else f"dwordx{_count}"
    _add(MemorySpec(f"s_load_{_suffix}", "scalar", "load", 4 * _count, unit="scalar_memory"))
    _add(MemorySpec(f"s_buffer_load_{_suffix}", "scalar_buffer", "load", 4 * _count, unit="scalar_memory"))

# --- LDS ---
for _suffix, _width in (("b32", 4), ("b64", 8), ("b96", 12), ("b128", 16)):
    _add(MemorySpec(f"ds_read_{_suffix}", "lds", "load", _width))
    _add(MemorySpec(f"ds_write_{_suffix}", "lds", "store", _width))
for _suffix, _width in (("b32", 4), ("b64", 8)):
    for _st, _stride in (("", 1), ("st64", 64)):
        _add(MemorySpec(f"ds_read2{_st}_{_suffix}", "lds", "load", _width, pair=_stride))
        _add(MemorySpec(f"ds_write2{_st}_{_suffix}", "lds", "store", _width, pair=_stride))
for _convert, _width in (("u8", 1), ("i8", 1), ("u16", 2), ("i16", 2)):
    _add(MemorySpec(f"ds_read_{_convert}", "lds", "load", _width, _convert))
    if _convert != "i16":
        for _high in ("", "_hi"):
            _add(MemorySpec(f"ds_read_{_convert}_d16{_high}", "lds", "load", _width, f"{_convert}_d16{_high}"))
for _width in (1, 2):
    _add(MemorySpec(f"ds_write_b{8 * _width}", "lds", "store", _width, "low"))
    _add(MemorySpec(f"ds_write_b{8 * _width}_d16_hi", "lds", "store", _width, "d16_hi"))
_DS_INTEGER = {
    "add_u": ("add", "u"),
    "sub_u": ("sub", "u"),
    "rsub_u": ("rsub", "u"),
    "inc_u": ("inc", "u"),
    "dec_u": ("dec", "u"),
    "min_i": ("min", "i"),
    "max_i": ("max", "i"),
    "min_u": ("min", "u"),
    "max_u": ("max", "u"),
    "and_b": ("and", "u"),
    "or_b": ("or", "u"),
    "xor_b": ("xor", "u"),
    "cmpst_b": ("cas", "u"),
    "add_f": ("fadd", "f"),
    "min_f": ("fmin", "f"),
    "max_f": ("fmax", "f"),
}
for _name, (_op, _sign) in _DS_INTEGER.items():
    _stem, _letter = _name.split("_")
    for _bits in (32, 64):
        _t = f"{_sign}{_bits}"
        _add(MemorySpec(f"ds_{_stem}_{_letter}{_bits}", "lds", "atomic", _bits // 8, op=_op, type=_t, returns=False))
        _add(MemorySpec(f"ds_{_stem}_rtn_{_letter}{_bits}", "lds", "atomic", _bits // 8, op=_op, type=_t, returns=True))
for _bits in (32, 64):
    _add(MemorySpec(f"ds_wrxchg_rtn_b{_bits}", "lds", "atomic", _bits // 8, op="swap", type=f"u{_bits}", returns=True))
for _format in ("f16", "bf16"):
    _op = f"pk_add_{_format}"
    _add(MemorySpec(f"ds_pk_add_{_format}", "lds", "atomic", 4, op=_op, type="u32", returns=False))
    _add(MemorySpec(f"ds_pk_add_rtn_{_format}", "lds", "atomic", 4, op=_op, type="u32", returns=True))
for _suffix in ("b64_tr_b16", "b64_tr_b8", "b64_tr_b4", "b96_tr_b6"):
    if _suffix in ("b64_tr_b16", "b64_tr_b8"):
        _add(MemorySpec(f"ds_read_{_suffix}", "lds", "load_transposed", 8, _suffix[-3:].strip("_"), targets=ONLY_950))
for _name in ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32"):
    _add(MemorySpec(_name, "lanes", _name[3:-4], 4, unit="lane_exchange"))
_add(MemorySpec("ds_nop", "lanes", "nop", 0, unit="cache"))
