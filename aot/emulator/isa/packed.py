"""VOP3P: packed 16-bit and 32-bit arithmetic, mixed precision and dot products."""

from __future__ import annotations

from collections.abc import Callable

from aot.emulator.isa import numerics as n
from aot.emulator.isa.spec import ONLY_950, Table
from aot.emulator.isa.values import Value, fma, high16, low16

PACKED = Table("packed")
add = PACKED.add

_BINARY: dict[str, dict[str, Callable[[Value, Value], Value]]] = {
    "f16": {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": n.fmin, "max": n.fmax},
    "u16": {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "min": lambda a, b: a.min(b),
        "max": lambda a, b: a.max(b),
    },
    "i16": {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "min": lambda a, b: a.min(b),
        "max": lambda a, b: a.max(b),
    },
    "f32": {"add": lambda a, b: a + b, "mul": lambda a, b: a * b},
}
for _t, _functions in _BINARY.items():
    for _name, _fn in _functions.items():
        add(f"v_pk_{_name}_{_t}", f"pk{_t} = pk{_t} pk{_t}", _fn)
add("v_pk_fma_f16", "pkf16 = pkf16 pkf16 pkf16", fma)
add("v_pk_fma_f32", "pkf32 = pkf32 pkf32 pkf32", fma)
add("v_pk_mov_b32", "pku32 = pku32 pku32", lambda a, b: (a, b), unit="packed_mov")
add("v_pk_mul_lo_u16", "pku16 = pku16 pku16", lambda a, b: a * b)
add("v_pk_mad_u16", "pku16 = pku16 pku16 pku16", lambda a, b, c: a * b + c)
add("v_pk_mad_i16", "pki16 = pki16 pki16 pki16", lambda a, b, c: a * b + c)
add("v_pk_lshlrev_b16", "pku16 = pku16 pku16", lambda a, b: b << (a & 15))
add("v_pk_lshrrev_b16", "pku16 = pku16 pku16", lambda a, b: b >> (a & 15))
add("v_pk_ashrrev_i16", "pki16 = pki16 pki16", lambda a, b: b >> (a & 15))
add("v_pk_minimum3_f16", "pkf16 = pkf16 pkf16 pkf16", lambda a, b, c: n.minimum(n.minimum(a, b), c), targets=ONLY_950)
add("v_pk_maximum3_f16", "pkf16 = pkf16 pkf16 pkf16", lambda a, b, c: n.maximum(n.maximum(a, b), c), targets=ONLY_950)

add("v_fma_mix_f32", "f32 = mix mix mix", fma)
add("v_fma_mixlo_f16", "f16 = mix mix mix", lambda a, b, c: fma(a, b, c).to("f16"), info={"half": 0})
add("v_fma_mixhi_f16", "f16 = mix mix mix", lambda a, b, c: fma(a, b, c).to("f16"), info={"half": 1})


def _bytes(a: Value, signed: bool) -> list[Value]:
    return [(a.cast("i32") << (24 - 8 * i) >> 24) if signed else (a >> (8 * i)) & 0xFF for i in range(4)]


def _nibbles(a: Value, signed: bool) -> list[Value]:
    return [(a.cast("i32") << (28 - 4 * i) >> 28) if signed else (a >> (4 * i)) & 0xF for i in range(8)]


def _dot_integers(a: Value, b: Value, c: Value, split: Callable[[Value, bool], list[Value]], signed: bool) -> Value:
    total = c.cast("i32") if signed else c
    for x, y in zip(split(a, signed), split(b, signed), strict=True):
        total = total + x * y
    return total.bits()


def _halves_i16(a: Value, signed: bool) -> list[Value]:
    halves = [low16(a), high16(a)]
    return [h.cast("i16").to("i32") for h in halves] if signed else [h.to("u32") for h in halves]


def _dot2(a: Value, b: Value, c: Value, decode: Callable[[Value], Value]) -> Value:
    """c + a.lo*b.lo + a.hi*b.hi in f32, low half first, rounded at each step as the manual writes it."""
    return c + decode(low16(a)) * decode(low16(b)) + decode(high16(a)) * decode(high16(b))


def _dot2_products_first(a: Value, b: Value, c: Value) -> Value:
    """(a.lo*b.lo + a.hi*b.hi) + c, rounded at each step: v_dot2_f32_bf16 adds the accumulator last."""
    low = n.bf16_value(low16(a)) * n.bf16_value(low16(b))
    return low + n.bf16_value(high16(a)) * n.bf16_value(high16(b)) + c


def _f16(bits: Value) -> Value:
    return bits.cast("f16").to("f32")


add("v_dot4_u32_u8", "u32 = u32 u32 u32", lambda a, b, c: _dot_integers(a, b, c, _bytes, False), unit="valu")
add("v_dot4_i32_i8", "u32 = u32 u32 u32", lambda a, b, c: _dot_integers(a, b, c, _bytes, True), unit="valu")
add("v_dot8_u32_u4", "u32 = u32 u32 u32", lambda a, b, c: _dot_integers(a, b, c, _nibbles, False), unit="valu")
add("v_dot8_i32_i4", "u32 = u32 u32 u32", lambda a, b, c: _dot_integers(a, b, c, _nibbles, True), unit="valu")
add("v_dot2_u32_u16", "u32 = u32 u32 u32", lambda a, b, c: _dot_integers(a, b, c, _halves_i16, False), unit="valu")
add("v_dot2_i32_i16", "u32 = u32 u32 u32", lambda a, b, c: _dot_integers(a, b, c, _halves_i16, True), unit="valu")
add("v_dot4c_i32_i8", "u32 = u32 u32 @u32", lambda a, b, c: _dot_integers(a, b, c, _bytes, True), unit="valu")
add("v_dot8c_i32_i4", "u32 = u32 u32 @u32", lambda a, b, c: _dot_integers(a, b, c, _nibbles, True), unit="valu")
add("v_dot2c_i32_i16", "u32 = u32 u32 @u32", lambda a, b, c: _dot_integers(a, b, c, _halves_i16, True), unit="valu")
add("v_dot2_f32_f16", "f32 = u32 u32 f32", lambda a, b, c: _dot2(a, b, c, _f16), unit="valu")
add("v_dot2c_f32_f16", "f32 = u32 u32 @f32", lambda a, b, c: _dot2(a, b, c, _f16), unit="valu")
add("v_dot2_f32_bf16", "f32 = u32 u32 f32", _dot2_products_first, unit="valu", targets=ONLY_950)
add(
    "v_dot2c_f32_bf16",
    "f32 = u32 u32 @f32",
    lambda a, b, c: _dot2(a, b, c, n.bf16_value),
    unit="valu",
    targets=ONLY_950,
)
