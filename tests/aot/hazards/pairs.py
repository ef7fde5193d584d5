"""Two instructions for every row of wait states, such that the second breaks the row if it comes too early.

Registers of one pair: v[64:95] is the result of a matrix instruction, v[128:159] its accumulator, v[200:] is free.
"""

from __future__ import annotations

from aot.hazards.wait_states import RULES

_A_B = {"xdl": "v[20:21], v[22:23]", "sgemm": "v20, v22", "dgemm": "v[20:21], v[22:23]"}
#: role -> (mnemonic, dwords of the result)
_MATRIX = {
    "xdl2": ("v_mfma_f32_4x4x4_16b_f16", 4),
    "xdl4": ("v_mfma_f32_16x16x16_f16", 4),
    "xdl8": ("v_mfma_f32_32x32x8_f16", 16),
    "xdl16": ("v_mfma_f32_32x32x4_2b_f16", 32),
    "sgemm2": ("v_mfma_f32_4x4x1_16b_f32", 4),
    "sgemm8": ("v_mfma_f32_16x16x4_f32", 4),
    "sgemm16": ("v_mfma_f32_32x32x2_f32", 16),
    "dgemm": ("v_mfma_f64_16x16x4_f64", 8),
}
_ACCUMULATING = {
    "xdl": "v_mfma_f32_16x16x16_f16 v[200:203], v[20:21], v[22:23], v[66:69]",
    "sgemm": "v_mfma_f32_16x16x4_f32 v[200:203], v20, v22, v[66:69]",
    "dgemm": "v_mfma_f64_16x16x4_f64 v[200:207], v[20:21], v[22:23], v[66:73]",
}
_MULTIPLYING = (
    "v_mfma_f32_16x16x16_f16 v[200:203], v[64:65], v[22:23], 0",
    "v_mfma_f32_16x16x16_f16 v[200:203], v[20:21], v[66:67], 0",
)
_READING_MEMORY = (
    "ds_write_b32 v200, v65",
    "buffer_store_dword v65, off, s[8:11], 0",
    "global_load_dword v200, v[64:65], off",
)
_WRITING = ("v_mov_b32 v65, 0", "ds_read_b32 v65, v200", "buffer_load_dword v66, off, s[8:11], 0")
_DPP = "v_mov_b32_dpp v200, v1 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf"
_CMPX = "v_cmpx_eq_u32_e32 vcc, v1, v2"
_FIRST_LANE = "v_readfirstlane_b32 s20, v1"
_SDWA = "v_add_f16_sdwa v1, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD"
_SET = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3"
_STORES = ("buffer_store_dwordx4 v[0:3], off, s[8:11], 0", "global_store_dwordx3 v[10:11], v[0:2], off")
_DOT = "v_dot2_f32_f16 v1, v2, v3, v4"

Pair = tuple[str, str]


def _matrix(role: str) -> str:
    mnemonic, dwords = _MATRIX[role]
    kind = role.rstrip("0123456789")
    return f"{mnemonic} v[64:{63 + dwords}], {_A_B[kind]}, v[128:{127 + dwords}]"


def _matrix_pairs() -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for role in _MATRIX:
        first = _matrix(role)
        found[f"result of {role} as A or B"] = [(first, text) for text in _MULTIPLYING]
        for kind, name in (("xdl", "a 16-bit"), ("sgemm", "an f32"), ("dgemm", "an f64")):
            found[f"result of {role} as part of {name} accumulator"] = [(first, _ACCUMULATING[kind])]
        reading = ["v_mov_b32 v200, v65", *_READING_MEMORY]
        found[f"result of {role} met by the vector ALU or memory"] = [(first, text) for text in (*reading, *_WRITING)]
        found[f"accumulator of {role} overwritten"] = [(first, text) for text in _ACCUMULATOR]
        mnemonic, _, rest = first.partition(" ")
        found[f"result of {role} as the accumulator"] = [
            (first, f"{mnemonic} v[200:203], {_A_B[role.rstrip('0123456789')]}, v[64:67]")
        ]
        assert rest
    first = _matrix("dgemm")
    found["result of dgemm read by the vector ALU"] = [(first, "v_mov_b32 v200, v65")]
    found["result of dgemm read by memory"] = [(first, text) for text in _READING_MEMORY]
    found["result of dgemm overwritten"] = [(first, text) for text in _WRITING]
    found["f64 multiplication behind a dgemm"] = [(first, "v_fma_f64 v[210:211], v[2:3], v[4:5], v[6:7]")]
    return found


_ACCUMULATOR = ("v_mov_b32 v129, 0", "ds_read_b32 v129, v200")

PAIRS: dict[str, list[Pair]] = {
    "SGPR of a vector instruction read by VMEM": [
        (_FIRST_LANE, "buffer_load_dword v200, off, s[8:11], s20"),
        ("v_readlane_b32 s9, v1, 2", "buffer_store_dword v200, off, s[8:11], 0"),
        ("v_cmp_eq_u32 s[20:21], v1, v2", "global_load_dword v200, v3, s[20:21]"),
    ],
    "SGPR of a vector instruction read by a vector instruction": [
        (_FIRST_LANE, "v_mov_b32 v200, s20"),
        ("v_cmp_eq_u32 vcc, v1, v2", "v_cndmask_b32 v200, v1, v2, vcc"),
        ("v_add_co_u32 v5, vcc, v1, v2", "v_addc_co_u32 v200, vcc, v1, v2, vcc"),
    ],
    "SGPR of a vector instruction selects a lane": [
        (_FIRST_LANE, "v_readlane_b32 s21, v2, s20"),
        (_FIRST_LANE, "v_writelane_b32 v200, 1, s20"),
    ],
    "VCC of a vector instruction read by div_fmas": [("v_cmp_eq_u32 vcc, v1, v2", "v_div_fmas_f32 v200, v3, v4, v5")],
    "EXEC of a vector instruction met by DPP": [(_CMPX, _DPP)],
    "EXEC of a vector instruction met by a lane access": [
        (_CMPX, "v_readlane_b32 s20, v5, 3"),
        (_CMPX, "v_writelane_b32 v200, s5, 3"),
        (_CMPX, "v_readfirstlane_b32 s20, v5"),
    ],
    "EXEC of a vector instruction met by a matrix instruction": [
        (_CMPX, "v_mfma_f32_16x16x16_f16 v[200:203], v[20:21], v[22:23], 0"),
    ],
    "EXEC of v_cmpx met by permlane": [(_CMPX, "v_permlane32_swap_b32 v200, v201")],
    "VGPR of a vector instruction read by DPP": [("v_mov_b32 v1, 0", _DPP)],
    "VGPR of a vector instruction read by a lane access": [
        ("v_mov_b32 v1, 0", "v_readlane_b32 s20, v1, 3"), ("v_mov_b32 v1, 0", "v_readfirstlane_b32 s20, v1"),
    ],
    "VGPR of a vector instruction met by permlane": [
        ("v_mov_b32 v200, 0", "v_permlane32_swap_b32 v200, v201"),
        ("v_mov_b32 v201, 0", "v_permlane16_swap_b32 v200, v201"),
    ],
    "VGPR of a vector instruction read by a matrix instruction": [
        (f"v_mov_b32 v{register}, 0", "v_mfma_f32_16x16x16_f16 v[200:203], v[20:21], v[22:23], v[24:27]")
        for register in (20, 23, 27)
    ],
    "result of a transcendental": [
        ("v_exp_f32 v1, v2", "v_add_f32 v200, v1, v1"), ("v_rcp_f32 v1, v2", "v_mov_b32 v200, v1"),
    ],
    "result moved to another part of its register": [
        (_SDWA, "v_mov_b32 v200, v1"), ("v_mad_i16 v1, v2, v3, v4 op_sel:[0,0,0,1]", "v_mov_b32 v1, v200"),
    ],
    "M0 of a scalar instruction read by a load to LDS": [
        ("s_mov_b32 m0, s5", "buffer_load_dword off, s[8:11], 0 lds"),
        ("s_add_i32 m0, s5, 64", "global_load_lds_dword v[2:3], off"),
    ],
    "data of a wide store overwritten": [
        (store, text) for store in _STORES for text in ("v_mov_b32 v2, 0", "v_mul_f32 v0, v4, v4")
    ],
    "data of a wide store with an SGPR offset overwritten": [
        ("buffer_store_dwordx4 v[0:3], off, s[8:11], s5", "v_mov_b32 v3, 0"),
        ("buffer_store_dwordx3 v[0:2], v5, s[8:11], s5 offen", "v_pk_mul_f32 v[0:1], v[6:7], v[8:9]"),
    ],
    "hardware register read after it was set": [(_SET, "s_getreg_b32 s20, hwreg(HW_REG_MODE)")],
    "hardware register set after it was set": [(_SET, _SET)],
    "result of a dot product met by another instruction": [
        (_DOT, "v_mov_b32 v200, v1"), (_DOT, "v_mov_b32 v1, 0"), (_DOT, "ds_write_b32 v200, v1"),
    ],
    "result of a dot product multiplied by the same": [(_DOT, "v_dot2_f32_f16 v200, v1, v3, v4")],
    **{name: pairs for name, pairs in _matrix_pairs().items() if name in {rule.name for rule in RULES}},
}  # fmt: skip

#: What looks like a row and is none: the same accumulator at once, narrow stores, other registers, other units.
INNOCENT: list[Pair] = [
    ("v_mfma_f32_16x16x16_f16 v[64:67], v[20:21], v[22:23], v[64:67]",
     "v_mfma_f32_16x16x16_f16 v[64:67], v[24:25], v[22:23], v[64:67]"),
    ("v_mfma_f32_32x32x8_f16 v[64:79], v[20:21], v[22:23], 0", "v_mov_b32 v80, v63"),
    ("buffer_store_dwordx2 v[0:1], off, s[8:11], 0", "v_mov_b32 v1, 0"),
    ("s_mov_b32 s20, 0", "buffer_load_dword v200, off, s[8:11], s20"),
    ("v_exp_f32 v1, v2", "v_log_f32 v200, v1"),
    ("v_mov_b32 v1, 0", "v_mov_b32 v200, v1"),
    (_DOT, "v_dot2_f32_f16 v200, v2, v3, v1"),
]  # fmt: skip
