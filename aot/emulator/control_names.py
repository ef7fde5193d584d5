"""Hardware registers that programs may read or set."""

from __future__ import annotations

# Registers that read as a constant here; kernels use them to spread work, never for results.
CONSTANT_REGISTERS = {"HW_REG_XCC_ID": 0, "HW_REG_HW_ID": 0}
MODE_REGISTER = "HW_REG_MODE"
