"""Which unit of a CDNA compute unit an instruction occupies, by mnemonic, and what a matrix instruction costs."""

from __future__ import annotations

import re

MFMA, VALU, SALU, SMEM, LDS, VMEM, WAIT, BARRIER, NOP = (
    "mfma", "valu", "salu", "smem", "lds", "vmem", "wait", "barrier", "nop",
)  # fmt: skip
CLASSES = (MFMA, VALU, SALU, SMEM, LDS, VMEM, WAIT, BARRIER, NOP)

_MFMA_SHAPE = re.compile(r"^v_s?mfmac?_\w*?(?P<shape>(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+))(?:_\d+b)?_?(?P<dtype>\w*)$")
_SMEM = ("s_load_", "s_buffer_load_", "s_store_", "s_buffer_store_", "s_scratch_", "s_dcache_", "s_memtime",
         "s_memrealtime", "s_atomic_", "s_buffer_atomic_")  # fmt: skip
#: One reciprocal estimate stands in every expansion of an integer division that LLVM makes for this target: 24-bit and
#: 32-bit ones use the "iflag" form, 64-bit ones the plain form. A convolution kernel has no other use of either.
_RECIPROCALS = ("v_rcp_iflag_f32", "v_rcp_f32", "v_s_rcp_f32")


def strip_encoding(mnemonic: str) -> str:
    """Mnemonic without the suffix that names its encoding (`_e32`, `_e64`, `_dpp`, `_sdwa`, `_vi`)."""
    for suffix in ("_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"):
        if mnemonic.endswith(suffix):
            return mnemonic.removesuffix(suffix)
    return mnemonic


def instruction_class(mnemonic: str) -> str:
    """One of `CLASSES`. Raises ValueError for a mnemonic of no known unit."""
    if mnemonic.startswith(("v_mfma_", "v_smfmac_")):
        return MFMA
    if mnemonic == "s_nop":
        return NOP
    if mnemonic.startswith("s_waitcnt"):
        return WAIT
    if mnemonic == "s_barrier":
        return BARRIER
    if mnemonic.startswith(_SMEM):
        return SMEM
    if mnemonic.startswith("v_"):
        return VALU
    if mnemonic.startswith("s_"):
        return SALU
    if mnemonic.startswith("ds_"):
        return LDS
    if mnemonic.startswith(("buffer_", "global_", "flat_", "scratch_", "image_", "tbuffer_")):
        return VMEM
    raise ValueError(f"{mnemonic!r} belongs to no unit of a CDNA compute unit")


def mfma_shape(mnemonic: str) -> str:
    """`32x32x16_bf16` of `v_mfma_f32_32x32x16_bf16`."""
    found = _MFMA_SHAPE.match(strip_encoding(mnemonic))
    if found is None:
        raise ValueError(f"{mnemonic!r} is not a matrix instruction with a shape in its name")
    return f"{found['shape']}_{found['dtype']}".rstrip("_")


def mfma_clk(mnemonic: str) -> int:
    """Clocks that a dense matrix instruction occupies the matrix unit: 8, 16 or 32 by the edge of its atom.

    fp32 operands run at a quarter of the 16-bit rate on a quarter of the depth, which costs twice the clocks
    (CDNA3 ISA manual: passes of the fp32 atoms).
    """
    found = _MFMA_SHAPE.match(strip_encoding(mnemonic))
    if found is None:
        raise ValueError(f"{mnemonic!r} is not a matrix instruction with a shape in its name")
    clk = {4: 8, 16: 16, 32: 32}[int(found["m"])]
    return clk * 2 if found["dtype"] in ("f32", "") else clk


def is_integer_division(mnemonic: str) -> bool:
    """True for the one instruction that marks an expanded integer division."""
    return strip_encoding(mnemonic) in _RECIPROCALS


def is_load_to_lds(mnemonic: str, operands: str) -> bool:
    """True for a vector memory load whose destination is LDS: `... lds` as a modifier or in the name."""
    return "_load_lds_" in mnemonic or (mnemonic.startswith("buffer_load_") and operands.split()[-1:] == ["lds"])
