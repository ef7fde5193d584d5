"""The vector ALU: what VOP1, VOP2, VOP3 and VOPC instructions compute per lane.

Names carry no encoding suffix (_e32, _e64, _dpp, _sdwa): operand selection and modifiers are the same for all and
live in `lower.valu`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aot.emulator.isa import numerics as n
from aot.emulator.isa.spec import ONLY_950, Table
from aot.emulator.isa.values import BITS, Value, fma, high16, low16, pack32, pack64, select

VALU = Table("valu")
add = VALU.add


def _wide(a: Value, b: Value) -> Value:
    """The 64-bit product of two 32-bit operands, signed or unsigned as they are."""
    wide = "i64" if a.type[0] == "i" else "u64"
    return a.to(wide) * b.to(wide)


def _high(a: Value, b: Value) -> Value:
    return (_wide(a, b) >> 32).to(a.type)


def _u24(a: Value) -> Value:
    return a & 0xFFFFFF


def _i24(a: Value) -> Value:
    return a << 8 >> 8


def _zero(a: Value) -> Value:
    return a.ops.const(0, a.type)


def _carry_add(a: Value, b: Value, carry: Value | None = None) -> tuple[Value, Value]:
    wide = a.to("u64") + b.to("u64")
    if carry is not None:
        wide = wide + select(carry, a.ops.const(1, "u64"), 0)
    return wide.to("u32"), (wide >> 32).ne(0)


def _borrow_sub(a: Value, b: Value, borrow: Value | None = None) -> tuple[Value, Value]:
    wide = a.to("u64") - b.to("u64")
    if borrow is not None:
        wide = wide - select(borrow, a.ops.const(1, "u64"), 0)
    return wide.to("u32"), (wide >> 32).ne(0)


def _low_ones(count: Value) -> Value:
    return (count.ops.const(1, "u32") << count) - 1


def _bfe_signed(a: Value, offset: Value, width: Value) -> Value:
    # Shift the field to the top and back; a width of 0 gives 0.
    field = (a >> offset.cast("i32")).cast("u32") & _low_ones(width)
    sign = _low_ones(width) ^ (_low_ones(width) >> 1)
    return ((field ^ sign) - sign).cast("i32")


def _ffbh_signed(a: Value) -> Value:
    folded = (a ^ (a >> 31)).cast("u32")
    return select(folded.eq(0), a.ops.const(-1, "u32"), folded.clz())


def _perm(a: Value, b: Value, selector: Value) -> Value:
    """Bytes 0-3 are of b, 4-7 of a, 8-11 sign bits of bytes 1, 3, 5, 7, 12 is zero, above is 0xff."""
    both = pack64(b, a)
    result: Value | None = None
    for byte in range(4):
        pick = (selector >> (8 * byte)) & 0xFF
        plain = (both >> ((pick & 7) << 3).to("u64")).to("u32") & 0xFF
        sign_bit = (both >> (((pick & 3) << 4) + 15).to("u64")).to("u32") & 1
        sign = (_zero(sign_bit) - sign_bit) & 0xFF
        special = select(pick.eq(12), _zero(plain), a.ops.const(0xFF, "u32"))
        value = select(pick < 8, plain, select(pick < 12, sign, special)) << (8 * byte)
        result = value if result is None else result | value
    assert result is not None
    return result


def _bitop3(a: Value, b: Value, c: Value, table: int) -> Value:
    """Bit (a,b,c) of the truth table, a the most significant of the index."""
    result = _zero(a)
    for index in range(8):
        if table >> index & 1:
            term = (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
            result = result | term
    return result


def _mad64(a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    product = _wide(a, b)
    total = product + c
    if a.type == "u32":
        return total, total < product
    overflow = ((product ^ total) & (c ^ total)) < 0
    # Bit 64 of the exact sum: its sign.
    return total, (total < 0) ^ overflow


def _limited(a: Value, low: float) -> Value:
    """To [low, 1]; NaN stays."""
    return select(a > 1.0, a.ops.const(1.0, "f32"), select(a < low, a.ops.const(low, "f32"), a))


def _norm_i16(a: Value) -> Value:
    return (_limited(a, -1.0) * 32767.0).rint().to("i16")


def _norm_u16(a: Value) -> Value:
    return (_limited(a, 0.0) * 65535.0).rint().to("u16")


# --- moves, bits ---
add("v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "u32 = u32", lambda a: a)
add("v_mov_b64", "u64 = u64", lambda a: a)
add("v_not_b32", "u32 = u32", lambda a: ~a)
add("v_bfrev_b32", "u32 = u32", lambda a: a.reverse_bits())
add("v_ffbh_u32", "u32 = u32", lambda a: select(a.eq(0), a.ops.const(-1, "u32"), a.clz()))
add("v_ffbl_b32", "u32 = u32", lambda a: select(a.eq(0), a.ops.const(-1, "u32"), a.ctz()))
add("v_ffbh_i32", "u32 = i32", _ffbh_signed)
add("v_bcnt_u32_b32", "u32 = u32 u32", lambda a, b: a.popcount() + b)
add("v_and_b32", "u32 = u32 u32", lambda a, b: a & b)
add("v_or_b32", "u32 = u32 u32", lambda a, b: a | b)
add("v_xor_b32", "u32 = u32 u32", lambda a, b: a ^ b)
add("v_xnor_b32", "u32 = u32 u32", lambda a, b: ~(a ^ b))
add("v_and_or_b32", "u32 = u32 u32 u32", lambda a, b, c: (a & b) | c)
add("v_or3_b32", "u32 = u32 u32 u32", lambda a, b, c: a | b | c)
add("v_bfi_b32", "u32 = u32 u32 u32", lambda a, b, c: (a & b) | (~a & c))
add("v_bfe_u32", "u32 = u32 u32 u32", lambda a, b, c: (a >> (b & 31)) & _low_ones(c & 31))
add("v_bfe_i32", "i32 = i32 u32 u32", lambda a, b, c: _bfe_signed(a, b & 31, c & 31))
add("v_bfm_b32", "u32 = u32 u32", lambda a, b: _low_ones(a & 31) << (b & 31))
add("v_alignbit_b32", "u32 = u32 u32 u32", lambda a, b, c: (pack64(b, a) >> (c & 31).to("u64")).to("u32"))
add("v_alignbyte_b32", "u32 = u32 u32 u32", lambda a, b, c: (pack64(b, a) >> ((c & 3) << 3).to("u64")).to("u32"))
add("v_perm_b32", "u32 = u32 u32 u32", _perm)
add("v_lshlrev_b32", "u32 = u32 u32", lambda a, b: b << (a & 31))
add("v_lshrrev_b32", "u32 = u32 u32", lambda a, b: b >> (a & 31))
add("v_ashrrev_i32", "i32 = i32 i32", lambda a, b: b >> (a & 31))
add("v_lshl_or_b32", "u32 = u32 u32 u32", lambda a, b, c: (a << (b & 31)) | c)
add("v_lshlrev_b64", "u64 = u32 u64", lambda a, b: b << (a & 63).to("u64"))
add("v_lshrrev_b64", "u64 = u32 u64", lambda a, b: b >> (a & 63).to("u64"))
add("v_ashrrev_i64", "i64 = u32 i64", lambda a, b: b >> (a & 63).to("u64").cast("i64"))
add("v_cndmask_b32", "u32 = u32 u32 mask", lambda a, b, m: select(m, b, a), modifiers=frozenset({"float_sources"}))
add(
    "v_mbcnt_lo_u32_b32",
    "u32 = u32 u32",
    lambda a, b: (a & a.ops.lane_constants([(1 << min(lane, 32)) - 1 for lane in range(64)], "u32")).popcount() + b,
)
add(
    "v_mbcnt_hi_u32_b32",
    "u32 = u32 u32",
    lambda a, b: (a & a.ops.lane_constants([(1 << max(lane - 32, 0)) - 1 for lane in range(64)], "u32")).popcount() + b,
)
add("v_bitop3_b32", "u32 = u32 u32 u32 bitop3", _bitop3, targets=ONLY_950)
add(
    "v_bitop3_b16",
    "u16 = u16 u16 u16 bitop3",
    _bitop3,
    targets=ONLY_950,
    preserves_high=True,
)


# --- 32-bit integers ---
add("v_add_u32", "u32 = u32 u32", lambda a, b: a + b)
add("v_sub_u32", "u32 = u32 u32", lambda a, b: a - b)
add("v_subrev_u32", "u32 = u32 u32", lambda a, b: b - a)
add("v_add_i32", "i32 = i32 i32", lambda a, b: a + b)
add("v_sub_i32", "i32 = i32 i32", lambda a, b: a - b)
add("v_add_co_u32", "u32 mask = u32 u32", _carry_add)
add("v_sub_co_u32", "u32 mask = u32 u32", _borrow_sub)
add("v_subrev_co_u32", "u32 mask = u32 u32", lambda a, b: _borrow_sub(b, a))
add("v_addc_co_u32", "u32 mask = u32 u32 mask", _carry_add)
add("v_subb_co_u32", "u32 mask = u32 u32 mask", _borrow_sub)
add("v_subbrev_co_u32", "u32 mask = u32 u32 mask", lambda a, b, m: _borrow_sub(b, a, m))
add("v_add3_u32", "u32 = u32 u32 u32", lambda a, b, c: a + b + c)
add("v_lshl_add_u32", "u32 = u32 u32 u32", lambda a, b, c: (a << (b & 31)) + c)
add("v_add_lshl_u32", "u32 = u32 u32 u32", lambda a, b, c: (a + b) << (c & 31))
add("v_xad_u32", "u32 = u32 u32 u32", lambda a, b, c: (a ^ b) + c)
add("v_lshl_add_u64", "u64 = u64 u32 u64", lambda a, b, c: (a << (b & 7).to("u64")) + c)
add("v_mul_lo_u32", "u32 = u32 u32", lambda a, b: a * b)
add("v_mul_hi_u32", "u32 = u32 u32", _high)
add("v_mul_hi_i32", "i32 = i32 i32", _high)
add("v_mul_u32_u24", "u32 = u32 u32", lambda a, b: _u24(a) * _u24(b))
add("v_mul_i32_i24", "i32 = i32 i32", lambda a, b: _i24(a) * _i24(b))
add("v_mul_hi_u32_u24", "u32 = u32 u32", lambda a, b: _high(_u24(a), _u24(b)))
add("v_mul_hi_i32_i24", "i32 = i32 i32", lambda a, b: _high(_i24(a), _i24(b)))
add("v_mad_u32_u24", "u32 = u32 u32 u32", lambda a, b, c: _u24(a) * _u24(b) + c)
add("v_mad_i32_i24", "i32 = i32 i32 i32", lambda a, b, c: _i24(a) * _i24(b) + c)
add("v_mad_u64_u32", "u64 mask = u32 u32 u64", _mad64)
add("v_mad_i64_i32", "i64 mask = i32 i32 i64", _mad64)
add("v_mad_u32_u16", "u32 = u16 u16 u32", lambda a, b, c: a.to("u32") * b.to("u32") + c)
add("v_mad_i32_i16", "i32 = i16 i16 i32", lambda a, b, c: a.to("i32") * b.to("i32") + c)
add("v_sad_u32", "u32 = u32 u32 u32", lambda a, b, c: a.max(b) - a.min(b) + c)
for _t in ("u32", "i32"):
    add(f"v_min_{_t}", f"{_t} = {_t} {_t}", lambda a, b: a.min(b))
    add(f"v_max_{_t}", f"{_t} = {_t} {_t}", lambda a, b: a.max(b))
for _t in ("u32", "i32", "u16", "i16"):
    _o = {"preserves_high": True} if _t.endswith("16") else {}
    add(f"v_min3_{_t}", f"{_t} = {_t} {_t} {_t}", lambda a, b, c: a.min(b).min(c), **_o)
    add(f"v_max3_{_t}", f"{_t} = {_t} {_t} {_t}", lambda a, b, c: a.max(b).max(c), **_o)
    add(f"v_med3_{_t}", f"{_t} = {_t} {_t} {_t}", lambda a, b, c: a.min(b).max(a.max(b).min(c)), **_o)


# --- 16-bit integers ---
for _name, _fn in {
    "v_add_u16": lambda a, b: a + b,
    "v_sub_u16": lambda a, b: a - b,
    "v_subrev_u16": lambda a, b: b - a,
    "v_mul_lo_u16": lambda a, b: a * b,
    "v_min_u16": lambda a, b: a.min(b),
    "v_max_u16": lambda a, b: a.max(b),
    "v_lshlrev_b16": lambda a, b: b << (a & 15),
    "v_lshrrev_b16": lambda a, b: b >> (a & 15),
}.items():
    add(_name, "u16 = u16 u16", _fn)
for _name, _fn in {
    "v_min_i16": lambda a, b: a.min(b),
    "v_max_i16": lambda a, b: a.max(b),
    "v_ashrrev_i16": lambda a, b: b >> (a & 15),
    "v_add_i16": lambda a, b: a + b,
    "v_sub_i16": lambda a, b: a - b,
}.items():
    add(_name, "i16 = i16 i16", _fn)
add("v_mad_u16", "u16 = u16 u16 u16", lambda a, b, c: a * b + c, preserves_high=True)
add("v_mad_i16", "i16 = i16 i16 i16", lambda a, b, c: a * b + c, preserves_high=True)
add("v_mad_legacy_u16", "u16 = u16 u16 u16", lambda a, b, c: a * b + c)
add("v_mad_legacy_i16", "i16 = i16 i16 i16", lambda a, b, c: a * b + c)
add("v_pack_b32_f16", "u32 = f16 f16", pack32)

# --- floats ---
for _t in ("f16", "f32"):
    add(f"v_add_{_t}", f"{_t} = {_t} {_t}", lambda a, b: a + b)
    add(f"v_sub_{_t}", f"{_t} = {_t} {_t}", lambda a, b: a - b)
    add(f"v_subrev_{_t}", f"{_t} = {_t} {_t}", lambda a, b: b - a)
    add(f"v_mul_{_t}", f"{_t} = {_t} {_t}", lambda a, b: a * b)
    add(f"v_min_{_t}", f"{_t} = {_t} {_t}", n.fmin)
    add(f"v_max_{_t}", f"{_t} = {_t} {_t}", n.fmax)
    _o = {"preserves_high": True} if _t == "f16" else {}
    add(f"v_min3_{_t}", f"{_t} = {_t} {_t} {_t}", lambda a, b, c: n.fmin(n.fmin(a, b), c), **_o)
    add(f"v_max3_{_t}", f"{_t} = {_t} {_t} {_t}", lambda a, b, c: n.fmax(n.fmax(a, b), c), **_o)
    # Of the 16-bit VOP3 instructions of gfx9 this one still clears the upper half; LLVM relies on it.
    add(f"v_med3_{_t}", f"{_t} = {_t} {_t} {_t}", n.median)
    add(f"v_fma_{_t}", f"{_t} = {_t} {_t} {_t}", fma, **_o)
add("v_add_f64", "f64 = f64 f64", lambda a, b: a + b)
add("v_mul_f64", "f64 = f64 f64", lambda a, b: a * b)
add("v_min_f64", "f64 = f64 f64", n.fmin)
add("v_max_f64", "f64 = f64 f64", n.fmax)
add("v_fma_f64", "f64 = f64 f64 f64", fma)
add("v_fmac_f32", "f32 = f32 f32 @f32", fma)
add("v_fmac_f64", "f64 = f64 f64 @f64", fma)
add("v_mul_legacy_f32", "f32 = f32 f32", lambda a, b: select(a.eq(0.0) | b.eq(0.0), a.ops.const(0.0, "f32"), a * b))
add("v_fmamk_f32", "f32 = f32 f32 f32", fma)
add("v_fmaak_f32", "f32 = f32 f32 f32", fma)
add("v_minimum3_f32", "f32 = f32 f32 f32", lambda a, b, c: n.minimum(n.minimum(a, b), c), targets=ONLY_950)
add("v_maximum3_f32", "f32 = f32 f32 f32", lambda a, b, c: n.maximum(n.maximum(a, b), c), targets=ONLY_950)
for _t in ("f16", "f32", "f64"):
    add(f"v_floor_{_t}", f"{_t} = {_t}", lambda a: a.floor())
    add(f"v_ceil_{_t}", f"{_t} = {_t}", lambda a: a.ceil())
    add(f"v_trunc_{_t}", f"{_t} = {_t}", lambda a: a.trunc())
    add(f"v_rndne_{_t}", f"{_t} = {_t}", lambda a: a.rint())
    add(f"v_fract_{_t}", f"{_t} = {_t}", n.fract)
    add(f"v_sqrt_{_t}", f"{_t} = {_t}", n.sqrt)
    add(f"v_rcp_{_t}", f"{_t} = {_t}", n.rcp)
    add(f"v_rsq_{_t}", f"{_t} = {_t}", n.rsq)
    add(f"v_frexp_mant_{_t}", f"{_t} = {_t}", n.frexp_mantissa)
    _e = "i16" if _t == "f16" else "i32"
    add(f"v_frexp_exp_{_e}_{_t}", f"{_e} = {_t}", lambda a: n.frexp_exponent(a).to("i16" if a.type == "f16" else "i32"))
for _t in ("f16", "f32"):
    add(f"v_exp_{_t}", f"{_t} = {_t}", n.exp2)
    add(f"v_log_{_t}", f"{_t} = {_t}", n.log2)
    add(f"v_sin_{_t}", f"{_t} = {_t}", lambda a: n.turns(a, "sin"))
    add(f"v_cos_{_t}", f"{_t} = {_t}", lambda a: n.turns(a, "cos"))
add("v_rcp_iflag_f32", "f32 = f32", n.rcp)
add("v_exp_legacy_f32", "f32 = f32", n.exp2)
add("v_log_legacy_f32", "f32 = f32", n.log2)
add("v_ldexp_f16", "f16 = f16 i16", lambda a, e: n.ldexp(a, e.to("i32")))
add("v_ldexp_f32", "f32 = f32 i32", n.ldexp)
add("v_ldexp_f64", "f64 = f64 i32", n.ldexp)

# --- conversions ---
add("v_cvt_f32_i32", "f32 = i32", lambda a: a.to("f32"))
add("v_cvt_f32_u32", "f32 = u32", lambda a: a.to("f32"))
add("v_cvt_i32_f32", "i32 = f32", lambda a: a.to("i32"))
add("v_cvt_u32_f32", "u32 = f32", lambda a: a.to("u32"))
add("v_cvt_rpi_i32_f32", "i32 = f32", lambda a: (a.to("f64") + 0.5).floor().to("i32"))
add("v_cvt_flr_i32_f32", "i32 = f32", lambda a: a.floor().to("i32"))
add("v_cvt_f16_f32", "f16 = f32", lambda a: a.to("f16"))
add("v_cvt_f32_f16", "f32 = f16", lambda a: a.to("f32"))
add("v_cvt_f32_bf16", "f32 = u16", n.bf16_value, targets=ONLY_950)
add("v_cvt_f16_u16", "f16 = u16", lambda a: a.to("f32").to("f16"))
add("v_cvt_f16_i16", "f16 = i16", lambda a: a.to("f32").to("f16"))
add("v_cvt_u16_f16", "u16 = f16", lambda a: a.to("u16"))
add("v_cvt_i16_f16", "i16 = f16", lambda a: a.to("i16"))
add("v_cvt_f64_f32", "f64 = f32", lambda a: a.to("f64"))
add("v_cvt_f32_f64", "f32 = f64", lambda a: a.to("f32"))
add("v_cvt_f64_i32", "f64 = i32", lambda a: a.to("f64"))
add("v_cvt_f64_u32", "f64 = u32", lambda a: a.to("f64"))
add("v_cvt_i32_f64", "i32 = f64", lambda a: a.to("i32"))
add("v_cvt_u32_f64", "u32 = f64", lambda a: a.to("u32"))
for _byte in range(4):
    add(f"v_cvt_f32_ubyte{_byte}", "f32 = u32", lambda a, s=8 * _byte: ((a >> s) & 0xFF).to("f32"))
add("v_cvt_pkrtz_f16_f32", "u32 = f32 f32", lambda a, b: pack32(n.f16_toward_zero(a), n.f16_toward_zero(b)))
add("v_cvt_pk_f16_f32", "u32 = f32 f32", lambda a, b: pack32(a.to("f16"), b.to("f16")), targets=ONLY_950)
add("v_cvt_pk_bf16_f32", "u32 = f32 f32", lambda a, b: pack32(n.bf16_bits(a), n.bf16_bits(b)), targets=ONLY_950)
add("v_cvt_pk_u16_u32", "u32 = u32 u32", lambda a, b: pack32(a.min(0xFFFF).to("u16"), b.min(0xFFFF).to("u16")))
add(
    "v_cvt_pk_i16_i32",
    "u32 = i32 i32",
    lambda a, b: pack32(n.saturate(a, -0x8000, 0x7FFF).to("i16"), n.saturate(b, -0x8000, 0x7FFF).to("i16")),
)
add("v_cvt_pknorm_i16_f32", "u32 = f32 f32", lambda a, b: pack32(_norm_i16(a), _norm_i16(b)))
add("v_cvt_pknorm_u16_f32", "u32 = f32 f32", lambda a, b: pack32(_norm_u16(a), _norm_u16(b)))
add(
    "v_sat_pk_u8_i16",
    "u16 = u32",
    lambda a: (
        n.saturate(low16(a).cast("i16"), 0, 255).cast("u16")
        | (n.saturate(high16(a).cast("i16"), 0, 255).cast("u16") << 8)
    ),
)


# --- division helpers ---
def _div_scale(s0: Value, s1: Value, s2: Value) -> tuple[Value, Value]:
    """Scale the numerator (s0 is s2) or the denominator (s0 is s1) so that the refinement stays in range."""
    wide = s0.type == "f64"
    step, far, small = (128, 768, 53) if wide else (64, 96, 23)
    const = s0.ops.const
    up, down = n.ldexp(s0, const(step, "i32")), n.ldexp(s0, const(-step, "i32"))
    e1, e2 = n.exponent_bits(s1), n.exponent_bits(s2)
    zero = s1.eq(0.0) | s2.eq(0.0)
    is_1, is_2 = s0.bits().eq(s1.bits()), s0.bits().eq(s2.bits())
    far_apart = (e2 - e1) >= far
    denominator_denormal = n.is_denormal(s1)
    reciprocal_denormal = n.is_denormal(1.0 / s1.to("f64") if wide else 1.0 / s1)
    quotient_denormal = n.is_denormal(s2 / s1)
    nan = const(math.nan, s0.type)
    rest = select(e2 <= small, up, s0)
    rest = select(quotient_denormal, select(is_2, up, s0), rest)
    rest = select(reciprocal_denormal, down, rest)
    rest = select(reciprocal_denormal & quotient_denormal, select(is_1, up, s0), rest)
    rest = select(denominator_denormal, up, rest)
    rest = select(far_apart, select(is_1, up, s0), rest)
    flag = ~zero & (far_apart | (~denominator_denormal & quotient_denormal))
    return select(zero, nan, rest), flag


def _div_fmas(a: Value, b: Value, c: Value, vcc: Value) -> Value:
    """Where div_scale scaled one operand only, undo it: by the size of the quotient, which tells which operand it was.

    The manual's pseudocode multiplies by 2^32 (2^64 for f64), which does not undo its own div_scale by 2^64 (2^128).
    """
    exact = fma(a, b, c)
    steps, middle = (128, 1023) if a.type == "f64" else (64, 127)
    exponent = select(n.exponent_bits(c) > middle, a.ops.const(steps, "i32"), a.ops.const(-steps, "i32"))
    return select(vcc, n.ldexp(exact, exponent), exact)


def _div_fixup(quotient: Value, s1: Value, s2: Value) -> Value:
    """Replace the quotient s2/s1 where operands are special."""
    wide = quotient.type
    top = BITS[wide] - 1
    bias_span, gap = {"f16": (31, None), "f32": (255, -150), "f64": (2047, -1075)}[wide]
    sign = (s1.bits() ^ s2.bits()) & (1 << top)
    infinity = quotient.ops.const(math.inf, wide).bits()

    def signed(bits: Value | int) -> Value:
        return (sign | bits).cast(wide)

    result = signed(abs(quotient).bits())
    if gap is not None:
        overflow = n.exponent_bits(s1).eq(bias_span)
        result = select(overflow, signed(infinity), result)
        result = select((n.exponent_bits(s2) - n.exponent_bits(s1)) < gap, signed(0), result)
    result = select(n.is_infinite(s1) | s2.eq(0.0), signed(0), result)
    result = select(s1.eq(0.0) | n.is_infinite(s2), signed(infinity), result)
    invalid = (s1.eq(0.0) & s2.eq(0.0)) | (n.is_infinite(s1) & n.is_infinite(s2))
    default_nan = quotient.ops.const({"f16": 0xFE00, "f32": 0xFFC00000, "f64": 0xFFF8 << 48}[wide], f"u{BITS[wide]}")
    result = select(invalid, default_nan.cast(wide), result)
    return select(s2.is_nan(), n.quiet(s2), select(s1.is_nan(), n.quiet(s1), result))


for _t in ("f32", "f64"):
    add(f"v_div_scale_{_t}", f"{_t} mask = {_t} {_t} {_t}", _div_scale)
    add(f"v_div_fmas_{_t}", f"{_t} = {_t} {_t} {_t} vcc", _div_fmas)
for _t in ("f16", "f32", "f64"):
    add(f"v_div_fixup_{_t}", f"{_t} = {_t} {_t} {_t}", _div_fixup, preserves_high=_t == "f16")


# --- comparisons ---
def _never(a: Value, b: Value) -> Value:
    return a.bits().ne(a.bits()) & b.bits().ne(b.bits())


def _always(a: Value, b: Value) -> Value:
    return ~_never(a, b)


_FLOAT_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a.eq(b),
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~(a.is_nan() | b.is_nan()),
    "u": lambda a, b: a.is_nan() | b.is_nan(),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: a.ne(b),
    "nlt": lambda a, b: ~(a < b),
    "f": _never,
    "tru": _always,
}
_INT_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a.eq(b),
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a.ne(b),
    "ge": lambda a, b: a >= b,
    "f": _never,
    "t": _always,
}


def _class(a: Value, classes: Value) -> Value:
    """Whether the IEEE class of a is in the bit set: sNaN qNaN -inf -normal -denormal -0 +0 +denormal +normal +inf."""
    wide = classes.to("u32") if classes.type != "u32" else classes
    negative = (a.bits() >> (BITS[a.type] - 1)).ne(0)
    mantissa_top = {"f16": 9, "f32": 22, "f64": 51}[a.type]
    quiet_bit = ((a.bits() >> mantissa_top) & 1).ne(0)
    one = a.ops.const(1, "u32")

    def bit(number: int) -> Value:
        return one << number

    magnitude = select(n.is_infinite(a), select(negative, bit(2), bit(9)), select(negative, bit(3), bit(8)))
    magnitude = select(n.is_denormal(a), select(negative, bit(4), bit(7)), magnitude)
    magnitude = select(a.eq(0.0), select(negative, bit(5), bit(6)), magnitude)
    magnitude = select(a.is_nan(), select(quiet_bit, bit(1), bit(0)), magnitude)
    return (magnitude & wide).ne(0)


for _x in ("", "x"):
    _r = "mask exec" if _x else "mask"
    _u = "cmpx" if _x else "valu"
    for _t in ("f16", "f32", "f64"):
        for _name, _fn in _FLOAT_COMPARE.items():
            add(f"v_cmp{_x}_{_name}_{_t}", f"mask = {_t} {_t}", _fn, unit=_u)
        add(f"v_cmp{_x}_class_{_t}", f"mask = {_t} u32", _class, unit=_u)
    for _t in ("u16", "i16", "u32", "i32", "u64", "i64"):
        for _name, _fn in _INT_COMPARE.items():
            add(f"v_cmp{_x}_{_name}_{_t}", f"mask = {_t} {_t}", _fn, unit=_u)
