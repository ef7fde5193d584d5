"""Which matrix unit an instruction runs on and for how many passes of four clocks.

Rows by the shape in the name; the first that matches holds. Source: LLVM SISchedule.td, models of gfx942 and gfx950
(which give the instructions that both have the same passes), and the passes column of the CDNA3 and CDNA4 ISA manuals.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from aot.emulator.errors import UnknownInstructionError

#: XDL: the units of the 16-bit and 8-bit types; SGEMM: f32; DGEMM: f64, whose rules do not ask for the passes.
XDL, SGEMM, DGEMM = "xdl", "sgemm", "dgemm"

#: (shape and element type as in the name, unit, passes)
ROWS: Final = (
    (r"f64_\w+_f64", DGEMM, 8),
    (r"f32_4x4x1_16b_f32", SGEMM, 2),
    (r"f32_16x16x4_f32|f32_16x16x1_4b_f32", SGEMM, 8),
    (r"f32_32x32x[12]\w*_f32", SGEMM, 16),
    (r"\w32_4x4x\w+", XDL, 2),
    (r"\w32_16x16x4_4b_\w+", XDL, 8),
    (r"\w32_16x16x(16|32|64)_\w+", XDL, 4),
    (r"\w32_32x32x4_2b_\w+", XDL, 16),
    (r"\w32_32x32x(8|16|32)_\w+", XDL, 8),
)


@cache
def matrix_role(name: str) -> str:
    """Unit and passes in one word, such as `xdl8`; `dgemm` without. Raises UnknownInstructionError."""
    for pattern, unit, passes in ROWS:
        if re.fullmatch(f"v_mfma_(?:{pattern})", name):
            return unit if unit == DGEMM else f"{unit}{passes}"
    raise UnknownInstructionError("matrix instruction of unknown passes", name)
