"""The scalar ALU and program control: SOP1, SOP2, SOPK, SOPC and SOPP.

Branches, waits and messages are `control` entries: the engines know them by name.
"""

from __future__ import annotations

from collections.abc import Callable

from aot.emulator.isa.spec import Table
from aot.emulator.isa.values import Value, pack32, select

SALU = Table("salu")
#: All of them; the name says the condition.
BRANCHES = frozenset({"s_branch"} | {f"s_cbranch_{c}" for c in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")})
#: What has to do with time and caches only, neither of which is modelled.
WITHOUT_EFFECT = frozenset({"s_nop", "s_sleep", "s_setprio", "s_icache_inv", "s_dcache_inv", "s_dcache_wb"})
add = SALU.add


def _flagged(result: Value) -> tuple[Value, Value]:
    """A logical result and SCC = result is not zero."""
    return result, result.ne(0)


def _add_overflow(a: Value, b: Value) -> tuple[Value, Value]:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _sub_overflow(a: Value, b: Value) -> tuple[Value, Value]:
    total = a - b
    return total, ((a ^ b) & (a ^ total)) < 0


def _sum(a: Value, b: Value, carry: Value | None = None) -> tuple[Value, Value]:
    wide = a.to("u64") + b.to("u64")
    if carry is not None:
        wide = wide + select(carry, a.ops.const(1, "u64"), 0)
    return wide.to("u32"), (wide >> 32).ne(0)


def _difference(a: Value, b: Value, borrow: Value | None = None) -> tuple[Value, Value]:
    wide = a.to("u64") - b.to("u64")
    if borrow is not None:
        wide = wide - select(borrow, a.ops.const(1, "u64"), 0)
    return wide.to("u32"), (wide >> 32).ne(0)


def _minus_one(a: Value) -> Value:
    return a.ops.const(-1, "u32")


def _flbit_signed(a: Value) -> Value:
    unsigned = a.type.replace("i", "u")
    folded = (a ^ (a >> (63 if a.type == "i64" else 31))).cast(unsigned)
    return select(folded.eq(0), _minus_one(a), folded.clz().to("u32"))


def _replicate(a: Value) -> Value:
    wide = a.to("u64")
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):
        wide = (wide | (wide << shift)) & mask
    return wide | (wide << 1)


def _bit(number: Value, like: Value) -> Value:
    return like.ops.const(1, like.type) << number.to(like.type)


def _ones(count: Value) -> Value:
    return (count.ops.const(1, count.type) << count) - 1


def _bfe(a: Value, control: Value, mask: int) -> tuple[Value, Value]:
    """Offset in the low bits of the control word, width in bits 22:16; a width past the top takes what is there."""
    unsigned = "u64" if mask == 63 else "u32"
    offset, width = (control & mask).to(unsigned), ((control >> 16) & 0x7F).to(unsigned).min(mask + 1)
    low = a.ops.const(-1, unsigned) >> (mask + 1 - width.max(1))
    field = (a >> offset.cast(a.type)).cast(unsigned) & select(width.eq(0), a.ops.const(0, unsigned), low)
    if a.type[0] == "i":
        sign = low ^ (low >> 1)
        field = select(width.eq(0), field, (field ^ sign) - sign)
    return field.cast(a.type), field.ne(0)


def _quad_mask(a: Value) -> Value:
    any_of = a | (a >> 1) | (a >> 2) | (a >> 3)
    result = a.ops.const(0, a.type)
    for quad in range(16 if a.type == "u64" else 8):
        result = result | (((any_of >> (4 * quad)) & 1) << quad)
    return result


def _whole_quads(a: Value) -> Value:
    any_of = (a | (a >> 1) | (a >> 2) | (a >> 3)) & (0x1111111111111111 if a.type == "u64" else 0x11111111)
    return any_of * 15


def _shifted_sum(a: Value, b: Value, shift: int) -> tuple[Value, Value]:
    wide = (a.to("u64") << shift) + b.to("u64")
    return wide.to("u32"), (wide >> 32).ne(0)


# --- moves ---
add("s_mov_b32 s_movk_i32", "u32 = u32", lambda a: a)
add("s_mov_b64", "u64 = u64", lambda a: a)
add("s_cmov_b32", "u32 = u32 @u32 scc", lambda a, d, c: select(c, a, d))
add("s_cmov_b64", "u64 = u64 @u64 scc", lambda a, d, c: select(c, a, d))
add("s_cmovk_i32", "u32 = u32 @u32 scc", lambda a, d, c: select(c, a, d))
add("s_cselect_b32", "u32 = u32 u32 scc", lambda a, b, c: select(c, a, b))
add("s_cselect_b64", "u64 = u64 u64 scc", lambda a, b, c: select(c, a, b))

# --- integers ---
add("s_add_u32", "u32 scc = u32 u32", _sum)
add("s_addc_u32", "u32 scc = u32 u32 scc", _sum)
add("s_sub_u32", "u32 scc = u32 u32", _difference)
add("s_subb_u32", "u32 scc = u32 u32 scc", _difference)
add("s_add_i32", "i32 scc = i32 i32", _add_overflow)
add("s_sub_i32", "i32 scc = i32 i32", _sub_overflow)
add("s_addk_i32", "i32 scc = @i32 i32", _add_overflow)
add("s_mulk_i32", "i32 = @i32 i32", lambda a, b: a * b)
add("s_mul_i32", "u32 = u32 u32", lambda a, b: a * b)
add("s_mul_hi_u32", "u32 = u32 u32", lambda a, b: ((a.to("u64") * b.to("u64")) >> 32).to("u32"))
add("s_mul_hi_i32", "i32 = i32 i32", lambda a, b: ((a.to("i64") * b.to("i64")) >> 32).to("i32"))
add("s_min_i32", "i32 scc = i32 i32", lambda a, b: (a.min(b), a < b))
add("s_min_u32", "u32 scc = u32 u32", lambda a, b: (a.min(b), a < b))
add("s_max_i32", "i32 scc = i32 i32", lambda a, b: (a.max(b), a >= b))
add("s_max_u32", "u32 scc = u32 u32", lambda a, b: (a.max(b), a >= b))
add("s_abs_i32", "i32 scc = i32", lambda a: (abs(a), a.ne(0)))
add("s_absdiff_i32", "i32 scc = i32 i32", lambda a, b: _flagged(abs(a - b)))
add("s_sext_i32_i8", "i32 = i32", lambda a: a << 24 >> 24)
add("s_sext_i32_i16", "i32 = i32", lambda a: a << 16 >> 16)
for _shift in (1, 2, 3, 4):
    add(f"s_lshl{_shift}_add_u32", "u32 scc = u32 u32", lambda a, b, s=_shift: _shifted_sum(a, b, s))


# --- logic ---
_LOGIC: dict[str, Callable[[Value, Value], Value]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for _name, _fn in _LOGIC.items():
    for _bits in (32, 64):
        add(f"s_{_name}_b{_bits}", f"u{_bits} scc = u{_bits} u{_bits}", lambda a, b, f=_fn: _flagged(f(a, b)))
    add(f"s_{_name}_saveexec_b64", "u64 exec scc = u64 exec", lambda a, e, f=_fn: (e, f(a, e), f(a, e).ne(0)))
add("s_andn1_saveexec_b64", "u64 exec scc = u64 exec", lambda a, e: (e, ~a & e, (~a & e).ne(0)))
add("s_orn1_saveexec_b64", "u64 exec scc = u64 exec", lambda a, e: (e, ~a | e, (~a | e).ne(0)))
add("s_andn1_wrexec_b64", "u64 exec scc = u64 exec", lambda a, e: (~a & e, ~a & e, (~a & e).ne(0)))
add("s_andn2_wrexec_b64", "u64 exec scc = u64 exec", lambda a, e: (a & ~e, a & ~e, (a & ~e).ne(0)))

for _bits, _mask in ((32, 31), (64, 63)):
    _u, _i = f"u{_bits}", f"i{_bits}"
    add(f"s_lshl_b{_bits}", f"{_u} scc = {_u} u32", lambda a, b, m=_mask: _flagged(a << (b & m).to(a.type)))
    add(f"s_lshr_b{_bits}", f"{_u} scc = {_u} u32", lambda a, b, m=_mask: _flagged(a >> (b & m).to(a.type)))
    add(f"s_ashr_i{_bits}", f"{_i} scc = {_i} u32", lambda a, b, m=_mask: _flagged(a >> (b & m).to(a.type)))
    add(f"s_not_b{_bits}", f"{_u} scc = {_u}", lambda a: _flagged(~a))
    add(f"s_brev_b{_bits}", f"{_u} = {_u}", lambda a: a.reverse_bits())
    add(f"s_bcnt1_i32_b{_bits}", f"u32 scc = {_u}", lambda a: _flagged(a.popcount().to("u32")))
    add(f"s_bcnt0_i32_b{_bits}", f"u32 scc = {_u}", lambda a: _flagged((~a).popcount().to("u32")))
    add(f"s_ff1_i32_b{_bits}", f"u32 = {_u}", lambda a: select(a.eq(0), _minus_one(a), a.ctz().to("u32")))
    add(f"s_ff0_i32_b{_bits}", f"u32 = {_u}", lambda a: select((~a).eq(0), _minus_one(a), (~a).ctz().to("u32")))
    add(f"s_flbit_i32_b{_bits}", f"u32 = {_u}", lambda a: select(a.eq(0), _minus_one(a), a.clz().to("u32")))
    add(f"s_bitset0_b{_bits}", f"{_u} = u32 @{_u}", lambda a, d, m=_mask: d & ~_bit(a & m, d))
    add(f"s_bitset1_b{_bits}", f"{_u} = u32 @{_u}", lambda a, d, m=_mask: d | _bit(a & m, d))
    add(f"s_bitcmp0_b{_bits}", f"scc = {_u} u32", lambda a, b, m=_mask: (a & _bit(b & m, a)).eq(0))
    add(f"s_bitcmp1_b{_bits}", f"scc = {_u} u32", lambda a, b, m=_mask: (a & _bit(b & m, a)).ne(0))
    add(f"s_bfm_b{_bits}", f"{_u} = u32 u32", lambda a, b, m=_mask, t=_u: _ones((a & m).to(t)) << (b & m).to(t))
    add(f"s_bfe_u{_bits}", f"{_u} scc = {_u} u32", lambda a, b, m=_mask: _bfe(a, b, m))
    add(f"s_bfe_i{_bits}", f"{_i} scc = {_i} u32", lambda a, b, m=_mask: _bfe(a, b, m))
    add(f"s_wqm_b{_bits}", f"{_u} scc = {_u}", lambda a: _flagged(_whole_quads(a)))
    add(f"s_quadmask_b{_bits}", f"{_u} scc = {_u}", lambda a: _flagged(_quad_mask(a)))
add("s_flbit_i32", "u32 = i32", _flbit_signed)
add("s_flbit_i32_i64", "u32 = i64", _flbit_signed)
add("s_pack_ll_b32_b16", "u32 = u32 u32", lambda a, b: pack32(a.to("u16"), b.to("u16")))
add("s_pack_lh_b32_b16", "u32 = u32 u32", lambda a, b: (a & 0xFFFF) | (b & 0xFFFF0000))
add("s_pack_hh_b32_b16", "u32 = u32 u32", lambda a, b: (a >> 16) | (b & 0xFFFF0000))
add("s_bitreplicate_b64_b32", "u64 = u32", _replicate)


# --- comparisons ---
_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "eq": lambda a, b: a.eq(b),
    "lg": lambda a, b: a.ne(b),
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
for _name, _fn in _COMPARE.items():
    for _t in ("i32", "u32"):
        add(f"s_cmp_{_name}_{_t}", f"scc = {_t} {_t}", _fn)
        add(f"s_cmpk_{_name}_{_t}", f"scc = {_t} {_t}", _fn)
    if _name in ("eq", "lg"):
        add(f"s_cmp_{_name}_u64", "scc = u64 u64", _fn)

# --- program state ---
add("s_getpc_b64", "u64 = pc", lambda pc: pc)
add("s_memtime s_memrealtime", "u64 = clock", lambda clock: clock)
for _name in (
    *sorted(BRANCHES),
    *sorted(WITHOUT_EFFECT),
    "s_endpgm",
    "s_barrier",
    "s_waitcnt",
    "s_trap",
    "s_setreg_b32",
    "s_setreg_imm32_b32",
    "s_getreg_b32",
):
    add(_name, "", lambda: None, unit="control")
