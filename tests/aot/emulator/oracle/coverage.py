"""Which instruction of the emulator's table is judged by what: the pseudocode, or a statement of our own."""

from __future__ import annotations

from functools import cache

from tests.aot.emulator.oracle import lane_cases, memory_cases, wave_cases
from tests.aot.emulator.oracle.engines import table_names
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
    "v_fmac_f16": "not in the manual",
    "v_fma_mix_f32": "the manual has only the unfused v_mad_mix",
    "v_fma_mixlo_f16": "as v_fma_mix_f32",
    "v_fma_mixhi_f16": "as v_fma_mix_f32",
    "v_fmamk_f32": "the constant stands in the instruction",
    "v_fmaak_f32": "as v_fmamk_f32",
}

#: Judged as whole programs or waves by other tests, by the file that does it.
ELSEWHERE: dict[str, str] = {}


@cache
def vector_cases() -> tuple[PcodeCase, ...]:
    """Lane cases of every vector instruction of the table that the pseudocode judges."""
    names = table_names() - set(OWN_STATEMENT)
    return tuple(case for case in lane_cases.cases(operations()) if case.operation.mnemonic in names)


@cache
def scalar_cases() -> tuple[ScalarCase, ...]:
    return tuple(case for case in wave_cases.cases(operations()) if case.operation.mnemonic in table_names())


@cache
def memory_cases_of_table() -> tuple[MemoryCase, ...]:
    return tuple(case for case in memory_cases.cases(operations()) if case.operation.mnemonic in table_names())


@cache
def assembles(arch: str) -> frozenset[str]:
    """Keys of the cases that the assembler accepts for an architecture."""
    texts = {case.lane.key: case.lane.text.split("\n")[0] for case in (*vector_cases(), *memory_cases_of_table())}
    return frozenset(key for key, good in zip(texts, accepted(arch, list(texts.values())), strict=True) if good)
