"""What a compute unit does not hold never starts: such a launch is refused with the figures, by both engines."""

from __future__ import annotations

import numpy as np
import pytest

from aot.emulator.decode.instruction import decode
from aot.emulator.errors import LaunchError, UnknownInstructionError, UnmodelledStateError
from tests.aot.emulator.program_text import program, run_program

ENGINES = ("llvm", "numpy")
LDS = {"gfx942": 64 << 10, "gfx950": 160 << 10}


def _fits(threads: int, vgprs: int = 64, lds: int = 0, arch: str = "gfx950", engine: str = "llvm") -> str:
    """What is said against a launch, empty if it runs."""
    code = program("v_mov_b32_e32 v5, 0", arch, lds=lds, vgprs=vgprs)
    try:
        run_program(code, np.zeros(1, np.uint32), threads=threads, engine=engine)
    except LaunchError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", LDS)
def test_register_file(arch: str, engine: str) -> None:
    """A SIMD has 512 registers per lane and takes a quarter of the waves: the largest allocation for each workgroup
    starts, one granule of 8 more does not."""
    for threads, most in ((64, 512), (256, 512), (257, 256), (512, 256), (513, 168), (768, 168), (1024, 128)):
        assert not _fits(threads, most, arch=arch, engine=engine)
        if most < 512:
            text = _fits(threads, most + 1, arch=arch, engine=engine)
            assert f"{-(-threads // 64)} waves of {most + 8} vector registers" in text
            assert "512" in text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", LDS)
def test_lds(arch: str, engine: str) -> None:
    """All of LDS starts, a byte more does not."""
    assert not _fits(64, lds=LDS[arch], arch=arch, engine=engine)
    text = _fits(64, lds=LDS[arch] + 1, arch=arch, engine=engine)
    assert str(LDS[arch]) in text
    assert str(LDS[arch] + 1) in text


@pytest.mark.parametrize(
    "directive",
    [
        "ieee_mode 0",
        "dx10_clamp 0",
        "fp16_overflow 1",
        "float_round_mode_32 1",
        "float_round_mode_16_64 2",
        "float_denorm_mode_32 1",
        "float_denorm_mode_16_64 2",
    ],
)
def test_float_modes_that_are_not_modelled(directive: str) -> None:
    """A descriptor that starts a kernel in a float mode that instructions here do not know is refused."""
    data = np.zeros(1, np.uint32)
    assert not run_program(program("v_mov_b32_e32 v5, 0"), data).faults
    with pytest.raises(UnmodelledStateError, match="MODE"):
        run_program(program("v_mov_b32_e32 v5, 0", directives=f"  .amdhsa_{directive}"), data)


@pytest.mark.parametrize("scale", ["mul:2", "mul:4", "div:2"])
@pytest.mark.parametrize("name", ["v_add_f32_e64", "v_mul_f16_e64", "v_fma_f32", "v_add_f64", "v_cvt_f32_i32_e64"])
def test_output_scale_is_refused(name: str, scale: str) -> None:
    """IEEE mode, which kernels start in, and denormals make the hardware ignore an output scale."""
    wide = "v[0:1], v[2:3], v[4:5]"
    operands = {"v_fma_f32": "v0, v1, v2, v3", "v_add_f64": wide, "v_cvt_f32_i32_e64": "v0, v1"}.get(name, "v0, v1, v2")
    decode(name, operands, "gfx950")
    decode(name, f"{operands} clamp", "gfx950")
    for modifiers in (scale, f"clamp {scale}"):
        with pytest.raises(UnknownInstructionError, match="IEEE mode ignores"):
            decode(name, f"{operands} {modifiers}", "gfx950")
