"""Independent statements of the instructions for which the pseudocode is no judge (see `coverage.OWN_STATEMENT`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tests.aot.emulator.oracle import floats
from tests.aot.emulator.oracle.floats import BF16, F16, F32, F64, Format, decode, encode, exponent_field, is_nan
from tests.aot.emulator.oracle.machine import LaneCase

#: Result bits and mask bit from source bits and the old result.
Statement = Callable[[list[int], int], tuple[int, int]]


@dataclass(frozen=True)
class OwnCase:
    """A lane case, its operand and result types, and what it must compute. `bound` compares with a tolerance."""

    mnemonic: str
    lane: LaneCase
    kinds: tuple[str, ...]
    result_kind: str
    statement: Statement
    bound: Callable[[list[int], int, int], bool] | None = None


def _case(
    mnemonic: str,
    text: str,
    kinds: str,
    result_kind: str,
    statement: Statement,
    *,
    mask_out: str = "",
    **options: object,
) -> OwnCase:
    names = tuple(kinds.split())
    width = {"f64": 2}
    lane = LaneCase(
        key=text,
        text=text,
        sources=tuple(width.get(name, 1) for name in names),
        result=width.get(result_kind, 1),
        mask_out=mask_out,
    )
    bound = options.get("bound")
    assert bound is None or callable(bound)
    return OwnCase(mnemonic, lane, names, result_kind, statement, bound)


def _rounded(form: Format) -> Statement:
    """Nearest integer, ties to even; the sign of the operand stays on a zero."""

    def statement(values: list[int], _old: int) -> tuple[int, int]:
        x = decode(form, values[0] & ((1 << form.width) - 1))
        if not math.isfinite(x):
            return encode(form, x), 0
        return encode(form, math.copysign(float(round(Fraction(x))), x)), 0

    return statement


def _turns(form: Format, function: Callable[[float], float]) -> Callable[[list[int], int, int], bool]:
    """sin and cos take turns: within 2^-20 (f32) or 2^-9 (f16) up to 256 turns, NaN beyond the finite."""
    tolerance = 2.0**-20 if form is F32 else 2.0**-9

    def bound(values: list[int], got: int, _want: int) -> bool:
        x = decode(form, values[0] & ((1 << form.width) - 1))
        y = decode(form, got & ((1 << form.width) - 1))
        if not math.isfinite(x):
            return math.isnan(y)
        if abs(x) > 256:
            return abs(y) <= 1
        return abs(y - function(2 * math.pi * math.remainder(x, 1.0))) <= tolerance

    return bound


def _fraction(form: Format) -> Statement:
    """x - floor(x), but never 1: at most the largest number below it."""

    def statement(values: list[int], _old: int) -> tuple[int, int]:
        x = decode(form, values[0] & ((1 << form.width) - 1))
        if not math.isfinite(x):
            return form.quiet_nan, 0
        bits = encode(form, Fraction(x) - math.floor(x))
        return min(bits, encode(form, 1.0) - 1), 0

    return statement


def _rounded_up(values: list[int], got: int, _want: int) -> bool:
    """floor(x + 0.5) as i32, the sum exact or rounded to f32."""
    x = decode(F32, values[0])
    if math.isnan(x):
        return got == 0

    def limit(y: float) -> int:
        return int(min(max(y, -(2.0**31)), 2.0**31 - 1)) & 0xFFFFFFFF

    if math.isinf(x):
        return got == limit(x)
    sums = (Fraction(x) + Fraction(1, 2), Fraction(decode(F32, encode(F32, Fraction(x) + Fraction(1, 2)))))
    return got in {limit(math.floor(total)) for total in sums}


def _elementary(function: Callable[[float], float]) -> Callable[[list[int], int, int], bool]:
    """Within one unit in the last place, denormals flushed on both sides."""

    def bound(values: list[int], got: int, _want: int) -> bool:
        x = decode(F32, floats.flushed(F32, values[0]))
        try:
            exact = function(x)
        except OverflowError:
            exact = math.inf
        want = floats.flushed(F32, encode(F32, exact))
        if is_nan(F32, want) or is_nan(F32, got):
            return is_nan(F32, want) and is_nan(F32, got)
        return floats.ulps_apart(F32, got, want) <= 1

    return bound


def _logarithm(x: float) -> float:
    if x == 0:
        return -math.inf
    return math.log2(x) if x > 0 else math.nan


def _frexp_exponent(form: Format, width: int) -> Statement:
    """The exponent that puts the significand into [0.5, 1); 0 for zero, infinity and NaN."""

    def statement(values: list[int], _old: int) -> tuple[int, int]:
        x = decode(form, values[0] & ((1 << form.width) - 1))
        exponent = math.frexp(x)[1] if math.isfinite(x) else 0
        return exponent & ((1 << width) - 1), 0

    return statement


def _div_scale(form: Format) -> Statement:
    """Scaling before a division: which operand is scaled by how much, and the flag for v_div_fmas.

    S0 is the operand to scale (a copy of the denominator S1 or of the numerator S2). A NaN or zero operand gives NaN.
    """
    step, near = (64, 96) if form is F32 else (128, 768)
    tiny = 23 if form is F32 else 53

    def quotient_is_denormal(a: Fraction, b: Fraction) -> bool:
        return a != 0 and abs(a / b) < Fraction(2) ** (1 - form.bias)

    def statement(values: list[int], _old: int) -> tuple[int, int]:
        s0, s1, s2 = values
        x1, x2 = decode(form, s1), decode(form, s2)
        if x1 == 0 or x2 == 0:
            return form.quiet_nan, 0

        def scaled(power: int) -> int:
            return _scale(form, s0, power)

        if not (math.isfinite(x1) and math.isfinite(x2)):
            return -1, -1
        e1, e2 = exponent_field(form, s1), exponent_field(form, s2)
        reciprocal_denormal = quotient_is_denormal(Fraction(1), Fraction(x1))
        ratio_denormal = quotient_is_denormal(Fraction(x2), Fraction(x1))
        if abs(Fraction(x2) / Fraction(x1)) < Fraction(2) ** (1 - form.bias - form.mantissa_bits):
            # The quotient is no denormal but zero: the manual leaves open which of the two is meant.
            return -1, -1
        if e2 - e1 >= near:
            return (scaled(step) if s0 == s1 else s0), 1
        if e1 == 0:
            return scaled(step), 0
        if reciprocal_denormal and ratio_denormal:
            return (scaled(step) if s0 == s1 else s0), 1
        if reciprocal_denormal:
            return scaled(-step), 0
        if ratio_denormal:
            return (scaled(step) if s0 == s2 else s0), 1
        if e2 <= tiny:
            return scaled(step), 0
        return s0, 0

    return statement


def _scale(form: Format, bits: int, power: int) -> int:
    x = decode(form, bits)
    if not math.isfinite(x) or x == 0:
        return bits
    return encode(form, Fraction(x) * Fraction(2) ** power)


def _div_fixup(form: Format) -> Statement:
    """The special cases of a division S2 / S1 around the quotient S0; -1 where the manual leaves the value open."""
    far = {F16: None, F32: -150, F64: -1075}[form]

    def statement(values: list[int], _old: int) -> tuple[int, int]:
        s0, s1, s2 = values
        sign = (s1 ^ s2) & form.sign_bit
        x1, x2 = decode(form, s1), decode(form, s2)
        if is_nan(form, s2) or is_nan(form, s1):
            return form.quiet_nan, 0
        if (x1 == 0 and x2 == 0) or (math.isinf(x1) and math.isinf(x2)):
            return form.quiet_nan, 0
        if x1 == 0 or math.isinf(x2):
            return sign | form.infinity, 0
        if math.isinf(x1) or x2 == 0:
            return sign, 0
        if far is not None and exponent_field(form, s2) - exponent_field(form, s1) < far:
            return -1, 0
        return sign | (s0 & ~form.sign_bit), 0

    return statement


def _extreme(form: Format, pick: Callable[[float, float], float], lanes: int = 1) -> Statement:
    """IEEE minimum or maximum of three, -0 below +0, a NaN wins; packed over `lanes` halves."""

    def two(a: int, b: int) -> int:
        if is_nan(form, a) or is_nan(form, b):
            return form.quiet_nan
        x, y = decode(form, a), decode(form, b)
        if x == y:
            order = sorted((a, b), key=lambda bits: -(bits >> (form.width - 1)))
            return order[0] if pick is min else order[1]
        return a if pick(x, y) == x else b

    def statement(values: list[int], _old: int) -> tuple[int, int]:
        result = 0
        for i in range(lanes):
            a, b, c = (value >> form.width * i & ((1 << form.width) - 1) for value in values)
            result |= two(two(a, b), c) << form.width * i
        return result, 0

    return statement


def _mix(op_sel: int, op_sel_hi: int, target: str) -> Statement:
    """Fused multiply-add over f32 operands or f16 halves; the 16-bit forms write one half and keep the other."""

    def statement(values: list[int], old: int) -> tuple[int, int]:
        picked = []
        for i, value in enumerate(values):
            if op_sel_hi >> i & 1:
                half = value >> 16 if op_sel >> i & 1 else value & 0xFFFF
                picked.append(floats.convert(F16, F32, half))
            else:
                picked.append(value)
        result = floats.fused(F32, *picked)
        if target == "f32":
            return result, 0
        half = floats.convert(F32, F16, result)
        return (old & 0xFFFF0000 | half, 0) if target == "lo" else (old & 0xFFFF | half << 16, 0)

    return statement


def _multiply_add(form: Format, order: Callable[[list[int], int], tuple[int, int, int]]) -> Statement:
    return lambda values, old: (floats.fused(form, *order(values, old)), 0)


_CONSTANT = 0x3FC00000  # 1.5
_R1, _R2, _R3 = "v4", "v8", "v12"


def _all() -> list[OwnCase]:
    found = []
    for form, registers in ((F16, ("v16", "v4")), (F32, ("v16", "v4")), (F64, ("v[16:17]", "v[4:5]"))):
        name = form.name
        found.append(
            _case(f"v_rndne_{name}", f"v_rndne_{name}_e32 {registers[0]}, {registers[1]}", name, name, _rounded(form))
        )
        found.append(
            _case(f"v_fract_{name}", f"v_fract_{name}_e32 {registers[0]}, {registers[1]}", name, name, _fraction(form))
        )
        exponent = "v_frexp_exp_i16_f16" if form is F16 else f"v_frexp_exp_i32_{name}"
        width = 16 if form is F16 else 32
        found.append(
            _case(exponent, f"{exponent}_e32 v16, {registers[1]}", name, f"u{width}", _frexp_exponent(form, width))
        )
    for name, function in (("v_exp_legacy_f32", lambda x: math.pow(2.0, x)), ("v_log_legacy_f32", _logarithm)):
        keep: Statement = lambda _v, old: (old, 0)  # noqa: E731
        found.append(_case(name, f"{name} v16, v4", "f32", "f32", keep, bound=_elementary(function)))
    rpi = "v_cvt_rpi_i32_f32"
    found.append(_case(rpi, f"{rpi}_e32 v16, v4", "f32", "i32", lambda _v, old: (old, 0), bound=_rounded_up))
    for form in (F16, F32):
        for name, function in (("sin", math.sin), ("cos", math.cos)):
            mnemonic = f"v_{name}_{form.name}"
            found.append(
                _case(
                    mnemonic, f"{mnemonic}_e32 v16, v4", form.name, form.name, lambda _v, old: (old, 0),
                    bound=_turns(form, function),
                )
            )  # fmt: skip
    for form, a, b, c, d in ((F32, "v4", "v8", "v12", "v16"), (F64, "v[4:5]", "v[8:9]", "v[12:13]", "v[16:17]")):
        # The hardware wants S0 to be S1 or S2; the statement sees it as a copy.
        found += [_div_scale_case(form, first, b, c, d) for first in (b, c)]
        kinds = " ".join([form.name] * 3)
        fixup = f"v_div_fixup_{form.name}"
        found.append(_case(fixup, f"{fixup} {d}, {a}, {b}, {c}", kinds, form.name, _div_fixup(form)))
    for name, pick in (("minimum3", min), ("maximum3", max)):
        found.append(
            _case(f"v_{name}_f32", f"v_{name}_f32 v16, v4, v8, v12", "f32 f32 f32", "f32", _extreme(F32, pick))
        )
        packed = f"v_pk_{name}_f16"
        found.append(_case(packed, f"{packed} v16, v4, v8, v12", "f16 f16 f16", "f16", _extreme(F16, pick, 2)))
    for suffix, target in (("mix_f32", "f32"), ("mixlo_f16", "lo"), ("mixhi_f16", "hi")):
        for op_sel, op_sel_hi in ((0, 0), (0, 0b111), (0b111, 0b111), (0b010, 0b011)):
            selection = f"op_sel:{_list(op_sel)} op_sel_hi:{_list(op_sel_hi)}"
            kinds = " ".join("f16" if op_sel_hi >> i & 1 else "f32" for i in range(3))
            result_kind = "f32" if target == "f32" else "f16"
            mnemonic = f"v_fma_{suffix}"
            text = f"{mnemonic} v16, v4, v8, v12 {selection}"
            found.append(_case(mnemonic, text, kinds, result_kind, _mix(op_sel, op_sel_hi, target)))
    found.append(
        _case("v_fmamk_f32", f"v_fmamk_f32 v16, v4, {_CONSTANT:#x}, v8", "f32 f32", "f32",
              _multiply_add(F32, lambda v, _old: (v[0], _CONSTANT, v[1])))
    )  # fmt: skip
    found.append(
        _case("v_fmaak_f32", f"v_fmaak_f32 v16, v4, v8, {_CONSTANT:#x}", "f32 f32", "f32",
              _multiply_add(F32, lambda v, _old: (v[0], v[1], _CONSTANT)))
    )  # fmt: skip
    return found


def _div_scale_case(form: Format, first: str, b: str, c: str, d: str) -> OwnCase:
    plain = _div_scale(form)

    def statement(values: list[int], old: int) -> tuple[int, int]:
        return plain([values[1] if first == b else values[2], values[1], values[2]], old)

    mnemonic = f"v_div_scale_{form.name}"
    kinds = " ".join([form.name] * 3)
    return _case(mnemonic, f"{mnemonic} {d}, vcc, {first}, {b}, {c}", kinds, form.name, statement, mask_out="vcc")


def _list(bits: int) -> str:
    return "[" + ",".join(str(bits >> i & 1) for i in range(3)) + "]"


OWN_CASES = _all()
assert BF16.width == 16
