"""Which instruction of the emulator's table is judged by what: the pseudocode, or a statement of our own."""

from __future__ import annotations

from functools import cache

from tests.aot.emulator.oracle import lane_cases, memory_cases, wave_cases
from tests.aot.emulator.oracle.engines import ARCHITECTURES, table_names
from tests.aot.emulator.oracle.lane_cases import PcodeCase
from tests.aot.emulator.oracle.machine import accepted
from tests.aot.emulator.oracle.memory_cases import MemoryCase
from tests.aot.emulator.oracle.pcode_table import operations
from tests.aot.emulator.oracle.wave_cases import ScalarCase

#: Where the pseudocode is not what the hardware does or cannot be executed, and why; `own_statements` judges these.
OWN_STATEMENT = {
    "v_rndne_f16": "the pseudocode adds 0.5 in the operand's format, which rounds before the floor and loses -0",
    "v_rndne_f32": "as v_rndne_f16",
    "v_rndne_f64": "as v_rndne_f16",
    "v_fract_f16": "the pseudocode gives 1 just below an integer, LLVM relies on the largest number below 1",
    "v_fract_f32": "as v_fract_f16",
    "v_fract_f64": "as v_fract_f16",
    "v_cvt_rpi_i32_f32": "the pseudocode's sum with 0.5 rounds for large operands; either reading is accepted",
    "v_exp_legacy_f32": "not in the manual",
    "v_log_legacy_f32": "not in the manual",
    "v_sin_f16": "the pseudocode rounds the product with 2 pi, the hardware reduces in turns",
    "v_sin_f32": "as v_sin_f16",
    "v_cos_f16": "as v_sin_f16",
    "v_cos_f32": "as v_sin_f16",
    "v_frexp_exp_i32_f32": "the pseudocode reads the exponent field of a denormal, the hardware normalises",
    "v_frexp_exp_i32_f64": "as v_frexp_exp_i32_f32",
    "v_frexp_exp_i16_f16": "as v_frexp_exp_i32_f32",
    "v_div_scale_f32": "the pseudocode leaves the result open where nothing is scaled",
    "v_div_scale_f64": "as v_div_scale_f32",
    "v_div_fixup_f32": "the pseudocode names under- and overflow values without stating them",
    "v_div_fixup_f64": "as v_div_fixup_f32",
    "v_minimum3_f32": "calls v_minimum_f32, which the manual does not state",
    "v_maximum3_f32": "as v_minimum3_f32",
    "v_pk_minimum3_f16": "as v_minimum3_f32",
    "v_pk_maximum3_f16": "as v_minimum3_f32",
    "v_fma_mix_f32": "the manual has only the unfused v_mad_mix",
    "v_fma_mixlo_f16": "as v_fma_mix_f32",
    "v_fma_mixhi_f16": "as v_fma_mix_f32",
    "v_fmamk_f32": "the constant stands in the instruction",
    "v_fmaak_f32": "as v_fmamk_f32",
}

#: Judged as whole programs or waves by other tests, by the file that does it.
ELSEWHERE = {
    # Whole divisions: the manual multiplies by 2^32, which does not undo its own v_div_scale by 2^64.
    "test_compiled_c": "v_div_fmas_f32 v_div_fmas_f64",
    "test_control": (
        "s_barrier s_branch s_cbranch_execnz s_cbranch_execz s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccnz "
        "s_cbranch_vccz s_endpgm s_getpc_b64 s_getreg_b32 s_setreg_b32 s_setreg_imm32_b32 s_nop s_sleep s_setprio "
        "s_waitcnt s_memtime s_memrealtime s_icache_inv s_dcache_inv s_dcache_wb buffer_inv buffer_wbl2"
    ),
    "test_memory_forms": (
        "s_load_dword s_load_dwordx2 s_load_dwordx4 s_load_dwordx8 s_load_dwordx16 s_buffer_load_dword "
        "s_buffer_load_dwordx2 s_buffer_load_dwordx4 s_buffer_load_dwordx8 s_buffer_load_dwordx16 "
        "global_load_lds_dword global_load_lds_dwordx3 global_load_lds_dwordx4 global_load_lds_ubyte "
        "global_load_lds_ushort buffer_load_lds_dword buffer_load_lds_dwordx3 buffer_load_lds_dwordx4 "
        "ds_read_b64_tr_b16 ds_read_b64_tr_b8"
    ),
    "test_lanes": (
        "ds_bpermute_b32 ds_permute_b32 ds_swizzle_b32 v_readfirstlane_b32 v_readlane_b32 v_writelane_b32 v_swap_b32 "
        "v_permlane16_swap_b32 v_permlane32_swap_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32"
    ),
}
#: Hints without an effect to observe, and the trap, which is refused.
WITHOUT_RESULT = {"ds_nop", "s_trap"}


@cache
def vector_cases() -> tuple[PcodeCase, ...]:
    """Lane cases of every vector instruction of the table that the pseudocode judges."""
    names = table_names() - set(OWN_STATEMENT) - set(" ".join(ELSEWHERE.values()).split())
    found = [case for case in lane_cases.cases(operations()) if case.operation.mnemonic in names]
    known = {arch: accepted(arch, [case.lane.text for case in found]) for arch in ARCHITECTURES}
    return tuple(case for i, case in enumerate(found) if any(good[i] for good in known.values()))


@cache
def scalar_cases() -> tuple[ScalarCase, ...]:
    """Wave cases of every scalar instruction of the table that the pseudocode judges."""
    return tuple(case for case in wave_cases.cases(operations()) if case.operation.mnemonic in table_names())


@cache
def memory_cases_of_table() -> tuple[MemoryCase, ...]:
    """Lane cases of every memory instruction of the table that the pseudocode judges."""
    return tuple(case for case in memory_cases.cases(operations()) if case.operation.mnemonic in table_names())


@cache
def judged_by_pseudocode() -> frozenset[str]:
    """Mnemonics with at least one case."""
    names = {case.operation.mnemonic for case in vector_cases()}
    names |= {case.operation.mnemonic for case in scalar_cases()}
    return frozenset(names | {case.operation.mnemonic for case in memory_cases_of_table()})


@cache
def assembles(arch: str) -> frozenset[str]:
    """Keys of the cases that the assembler accepts for an architecture."""
    lanes = [case.lane for case in vector_cases()] + [case.lane for case in memory_cases_of_table()]
    texts = {lane.key: lane.text.split("\n")[0] for lane in lanes}
    return frozenset(key for key, good in zip(texts, accepted(arch, list(texts.values())), strict=True) if good)
