"""Matrix instructions bit for bit in both engines, on ordinary, tiny, denormal, infinite and NaN operands."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from aot.emulator.isa.mfma import MFMA, MatrixSpec
from tests.aot.emulator.program_text import program, run_program

PLANE = 256


def _body(spec: MatrixSpec) -> str:
    """A, B and C from consecutive planes of the buffer, D back over C."""
    planes = [(8, spec.operand_dwords), (16, spec.operand_dwords), (24, spec.accumulator_dwords)]
    lines, plane = [], 0
    for first, count in planes:
        for dword in range(count):
            lines += [
                f"global_load_dword v{first + dword}, v1, s[2:3]",
                f"s_add_u32 s2, s2, {PLANE}",
                "s_addc_u32 s3, s3, 0",
            ]
            plane += 1
    lines.append("s_waitcnt vmcnt(0)")

    def name(first: int, count: int) -> str:
        return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"

    a, b, c = (name(first, count) for first, count in planes)
    lines += [f"{spec.name} {c}, {a}, {b}, {c}", "s_nop 15"]
    lines.append(f"s_sub_u32 s2, s2, {PLANE * spec.accumulator_dwords}\ns_subb_u32 s3, s3, 0")
    for dword in range(spec.accumulator_dwords):
        lines += [f"global_store_dword v1, v{24 + dword}, s[2:3]", f"s_add_u32 s2, s2, {PLANE}", "s_addc_u32 s3, s3, 0"]
    return "\n".join(lines)


def _operands(spec: MatrixSpec, style: str, rng: np.random.Generator) -> npt.NDArray[np.uint32]:
    """Words of A, B and C as planes [dword, lane]."""
    count = 2 * spec.operand_dwords
    if style == "bits":
        factors = rng.integers(0, 1 << 32, (count, 64)).astype(np.uint32)
    else:
        scale = {"plain": 1.0, "tiny": 2.0**-62, "mixed": 1.0}[style]
        values = rng.standard_normal((count, 64, 2)).astype(np.float32) * np.float32(scale)
        values[rng.random(values.shape) < 0.1] = 0.0
        if spec.element == "f16":
            factors = values.astype(np.float16).view(np.uint32)[..., 0]
        else:
            halves = values.view(np.uint32) >> np.uint32(16)
            factors = halves[..., 0] | halves[..., 1] << np.uint32(16)
            if spec.element in ("f32", "f64"):
                factors = values[..., 0].copy().view(np.uint32)
    addends = rng.standard_normal((spec.accumulator_dwords, 64)).astype(np.float32)
    if style == "mixed":
        addends *= np.float32(2.0) ** rng.integers(-149, -100, addends.shape).astype(np.float32)
    return np.concatenate([factors, addends.view(np.uint32)])


@pytest.mark.parametrize("name", MFMA)
def test_engines_agree_bit_for_bit(name: str) -> None:
    """Both engines give the same words, NaNs among them, whatever path the fast one takes."""
    spec = MFMA[name]
    code = program(_body(spec), arch=min(spec.targets))
    rng = np.random.default_rng(abs(hash(spec.k)) + spec.m)
    for style in ("plain", "tiny", "mixed", "bits"):
        start = _operands(spec, style, rng)
        results = []
        for engine in ("llvm", "numpy"):
            data = start.copy()
            assert not run_program(code, data, engine=engine).faults
            results.append(data[2 * spec.operand_dwords :])
        fast, slow = results
        assert np.array_equal(fast, slow), style
