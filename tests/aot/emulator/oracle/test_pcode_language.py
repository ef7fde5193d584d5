"""The evaluator of the pseudocode, held against answers that do not come from it: numpy, the rules of C, hand work."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.aot.emulator.oracle import floats, operand_pools
from tests.aot.emulator.oracle.pcode_run import run
from tests.aot.emulator.oracle.pcode_syntax import PcodeSyntaxError, parse
from tests.aot.emulator.oracle.pcode_table import operations
from tests.aot.emulator.oracle.pcode_values import Cell, Environment, Memory, PcodeUnsupportedError, integer

NUMPY_BITS = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}


def d0(text: str, *sources: int, old: int = 0, width: int = 32) -> int:
    """The result of a piece of pseudocode over raw 64-bit sources."""
    environment: Environment = {f"S{i}": Cell(64, source) for i, source in enumerate(sources)}
    environment |= {"D0": Cell(width, old), "SCC": Cell(1), "WAVE_MODE.IEEE": integer("u", 1, 1)}
    run(text, environment)
    result = environment["D0"]
    assert isinstance(result, Cell)
    return result.bits


def f32(value: float) -> int:
    return floats.encode(floats.F32, value)


@pytest.mark.parametrize("name", NUMPY_BITS)
@pytest.mark.parametrize("operator", ["+", "-", "*", "/"])
def test_arithmetic_is_that_of_numpy(name: str, operator: str) -> None:
    """Sums, differences, products and quotients equal the host's correctly rounded ones, bit for bit."""
    dtype, unsigned = NUMPY_BITS[name]
    form = floats.FORMATS[name]
    rng = np.random.default_rng(7)
    a = operand_pools.draw(rng, name, form.width, 3000)
    b = operand_pools.draw(rng, name, form.width, 3000)
    x, y = a.astype(unsigned).view(dtype), b.astype(unsigned).view(dtype)
    function = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[operator]
    with np.errstate(all="ignore"):
        want = function(x, y).view(unsigned)
    for left, right, bits in zip(a, b, want, strict=True):
        got = d0(f"D0.{name} = S0.{name} {operator} S1.{name}", int(left), int(right), width=64)
        if floats.is_nan(form, int(bits)):
            assert floats.is_nan(form, got)
        else:
            assert got == int(bits), (hex(int(left)), hex(int(right)))


@pytest.mark.parametrize(("source", "target"), [("f32", "f16"), ("f16", "f32"), ("f64", "f32"), ("f32", "f64")])
def test_conversions_are_those_of_numpy(source: str, target: str) -> None:
    """Conversions between formats round as the host does, through denormals and overflow."""
    from_dtype, from_bits = NUMPY_BITS[source]
    to_dtype, to_bits = NUMPY_BITS[target]
    patterns = operand_pools.draw(np.random.default_rng(8), source, floats.FORMATS[source].width, 4000)
    with np.errstate(all="ignore"):
        want = patterns.astype(from_bits).view(from_dtype).astype(to_dtype).view(to_bits)
    for pattern, bits in zip(patterns, want, strict=True):
        got = d0(f"D0.{target} = {source}_to_{target}(S0.{source})", int(pattern), width=64)
        form = floats.FORMATS[target]
        assert floats.is_nan(form, got) if floats.is_nan(form, int(bits)) else got == int(bits)


def test_bf16_rounds_to_nearest_even() -> None:
    """A tie goes to the even mantissa, a little more goes up, and the largest f32 overflows to infinity."""
    cases = {0x3F808000: 0x3F80, 0x3F818000: 0x3F82, 0x3F808001: 0x3F81, 0x7F7FFFFF: 0x7F80, 0x80000001: 0x8000}
    for bits, want in cases.items():
        assert d0("D0.bf16 = f32_to_bf16(S0.f32)", bits, width=16) == want


def test_fused_multiply_add_rounds_once() -> None:
    """The fused result differs from the two-step one exactly where the exact sum says so; -0 needs both signs."""
    rng = np.random.default_rng(9)
    for a, b, c in operand_pools.draw(rng, "f32", 32, 3000).reshape(-1, 3).tolist():
        got = d0("D0.f32 = fma(S0.f32, S1.f32, S2.f32)", a, b, c)
        x, y, z = (floats.decode(floats.F32, bits) for bits in (a, b, c))
        if not all(map(math.isfinite, (x, y, z))):
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        value = floats.decode(floats.F32, got)
        if math.isfinite(value):
            spacing = Fraction(2) ** max(math.frexp(value)[1] - 24, -149)
            assert abs(Fraction(value) - exact) <= spacing / 2
    minus_zero, zero = f32(-0.0), 0
    assert d0("D0.f32 = fma(S0.f32, S1.f32, S2.f32)", minus_zero, f32(1.0), minus_zero) == minus_zero
    assert d0("D0.f32 = fma(S0.f32, S1.f32, S2.f32)", minus_zero, f32(1.0), zero) == zero


def test_integers_follow_c() -> None:
    """Wrapping, sign extension, shifts by the width and reversed slices."""
    assert d0("D0.u32 = S0.u32 + S1.u32", 0xFFFFFFFF, 2) == 1
    assert d0("D0.i32 = 32'I(signext(S0.i8))", 0x80) == 0xFFFFFF80
    assert d0("D0.u32 = (S0.u32 << S1.u32)", 1, 32) == 0
    assert d0("D0.i32 = (S0.i32 >> 31U)", 0x80000000) == 0xFFFFFFFF
    assert d0("D0.u32[31 : 0] = S0.u32[0 : 31]", 1) == 0x80000000
    assert d0("D0.u32 = 32'U((64'U(S0.u32) * 64'U(S1.u32)) >> 32U)", 0xFFFFFFFF, 0xFFFFFFFF) == 0xFFFFFFFE
    assert d0("D0 = { S1[15 : 0].u16, S0[15 : 0].u16 }", 0x11112222, 0x33334444) == 0x44442222
    assert d0("D0[31 : 16].u16 = S0.u16", 0xABCD, old=0x1234) == 0xABCD1234
    assert d0("D0.u32 = (S0.u32[31 : 24] + S1.u32[31 : 24]) >> 1U << 24U", 0xFF000000, 0xFF000000) == 0xFF000000


def test_conversions_to_integers_saturate() -> None:
    """Out of range values stop at the limits, fractions are cut, a NaN gives 0."""
    cases = {3e9: 0x7FFFFFFF, -3e9: 0x80000000, -1.9: 0xFFFFFFFF, math.nan: 0, math.inf: 0x7FFFFFFF}
    for value, want in cases.items():
        assert d0("D0.i32 = f32_to_i32(S0.f32)", f32(value)) == want
    assert d0("D0.u32 = f32_to_u32(S0.f32)", f32(-5.0)) == 0
    assert d0("D0.u32 = f32_to_u32(S0.f32)", f32(5e9)) == 0xFFFFFFFF


def test_control_flow_and_functions() -> None:
    """if/elsif/else, for with break, lambdas, and a zero that is compared by its sign."""
    first_one = "D0.i32 = -1;\nfor i in 0 : 31 do\nif S0.u32[i] == 1'1U then\nD0.i32 = i;\nbreak\nendif\nendfor"
    assert d0(first_one, 0) == 0xFFFFFFFF
    assert d0(first_one, 0b101000) == 3
    difference = "F = lambda(x, y) (\nx > y ? x - y : y - x);\nD0.u32 = F(S0.u32, S1.u32)"
    assert d0(difference, 3, 10) == d0(difference, 10, 3) == 7
    signed = "if S0.f32 == -0.0 then\nD0.u32 = 1U\nelsif S0.f32 == 0.0 then\nD0.u32 = 2U\nelse\nD0.u32 = 3U\nendif"
    assert [d0(signed, f32(value)) for value in (-0.0, 0.0, 1.0)] == [1, 2, 3]


def test_memory_is_little_endian_and_never_read_unwritten() -> None:
    """MEM reads and writes bytes; a byte that was not placed raises instead of being 0."""
    memory = Memory({0x10 + i: i + 1 for i in range(4)})
    environment: Environment = {
        "MEM": memory,
        "DATA": Cell(64, 0xFFEE),
        "RETURN_DATA": Cell(32),
        "addr": integer("u", 64, 16),
    }
    run("tmp = MEM[addr].u32;\nMEM[addr].u16 = DATA[15 : 0];\nRETURN_DATA.u32 = tmp", environment)
    result = environment["RETURN_DATA"]
    assert isinstance(result, Cell)
    assert result.bits == 0x04030201
    assert memory.read(0x10, 32) == 0x0403FFEE
    with pytest.raises(KeyError):
        memory.read(0x14, 8)


def test_what_is_not_modelled_is_refused() -> None:
    """Prose does not parse, and an unknown function stops the evaluation."""
    with pytest.raises(PcodeSyntaxError):
        parse("SIMM16[3:0] = vmcount (vector memory operations) lower bits [3:0],")
    with pytest.raises(PcodeUnsupportedError):
        d0("D0.f32 = frobnicate(S0.f32)", 0)


def test_known_operations() -> None:
    """A sample of the manual's own entries with answers worked out by hand."""
    table = operations()
    assert len(table) > 1200
    perm = table["v_perm_b32", "VOP3Op"].text
    assert d0(perm, 0x88776655, 0x44332211, 0x0C0D0700) == 0x00FF8811
    assert d0(table["v_bfe_i32", "VOP3Op"].text, 0x000000F0, 4, 4) == 0xFFFFFFFF
    assert d0(table["v_med3_f32", "VOP3Op"].text, f32(3.0), f32(-1.0), f32(2.0)) == f32(2.0)
    assert d0(table["v_ldexp_f32", "VOP3Op"].text, f32(1.5), 3) == f32(12.0)
    assert d0(table["v_sad_u8", "VOP3Op"].text, 0x01020304, 0x04030201, 5) == 5 + 3 + 1 + 1 + 3
    assert d0(table["s_bfm_b32", "SOP2Op"].text, 4, 8) == 0xF00
    assert d0(table["v_dot2_f32_f16", "VOP3POp"].text, 0x40003C00, 0x42004000, f32(1.0)) == f32(1 + 2 + 6)
