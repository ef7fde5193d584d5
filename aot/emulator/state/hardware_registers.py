"""Hardware registers that programs may read or set."""

from __future__ import annotations

# Registers that read as a constant here; kernels use them to spread work, never for results.
CONSTANT_REGISTERS = {"HW_REG_XCC_ID": 0, "HW_REG_HW_ID": 0}
MODE_REGISTER = "HW_REG_MODE"

# Fields of MODE: one bit has denormals of operands kept, one those of results.
DENORMALS_F32, DENORMALS_F16_F64 = 0x30, 0xC0
# IEEE mode and DX10 clamp on, rounding to nearest even, no saturation of f16, no exceptions; denormals of f32, and of
# f16 and f64, kept or flushed on both sides.
MODES = tuple(0x300 | f32 | f16_f64 for f32 in (0, DENORMALS_F32) for f16_f64 in (0, DENORMALS_F16_F64))
MODELLED_MODES = "modelled are rounding to nearest even, IEEE mode, DX10 clamp, and denormals kept or flushed"


def mode_is_modelled(mode: int) -> bool:
    """Whether instructions mean in a MODE what the table says."""
    return mode in MODES
