"""The emulator's instruction table against AMD's own pseudocode, bit for bit, on corner and random operands.

Each case runs on both engines, and on both architectures where they have the instruction; the expectation is evaluated
once. The normal run takes 128 operand sets per case, the exhaustive one 2,048.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pytest

from tests.aot.emulator.oracle import lane_cases, memory_cases, wave_cases
from tests.aot.emulator.oracle.compare import ULPS, same, wrong_lanes
from tests.aot.emulator.oracle.coverage import (
    ELSEWHERE,
    NO_ENCODING,
    OWN_STATEMENT,
    WITHOUT_RESULT,
    assembles,
    memory_cases_of_table,
    scalar_cases,
    vector_cases,
)
from tests.aot.emulator.oracle.engines import ARCHITECTURES, ENGINES, table_names, table_targets
from tests.aot.emulator.oracle.lane_cases import PcodeCase
from tests.aot.emulator.oracle.machine import ALL_LANES, LANES, Words, accepted, run_lane_cases, run_wave_cases
from tests.aot.emulator.oracle.memory_cases import LDS_BYTES, SCRATCH_BYTES, MemoryCase
from tests.aot.emulator.oracle.pcode_table import operations
from tests.aot.emulator.oracle.wave_cases import ScalarCase

#: Workgroups alternate between all lanes and a ragged mask.
MASKS = (ALL_LANES, 0x8F0F_5A5A_FFFF_0001)
#: Cases per kernel: many, so that few kernels are assembled, and few enough to name the culprit quickly.
CHUNK = 100
PARTS = 4

Case = TypeVar("Case", PcodeCase, ScalarCase, MemoryCase)


def chunks(cases: Sequence[Case]) -> list[Sequence[Case]]:
    return [cases[start : start + CHUNK] for start in range(0, len(cases), CHUNK)]


def on_arch(arch: str, cases: Sequence[Case]) -> list[int]:
    """Indices of the cases whose instruction the table and the assembler have for the architecture."""
    known = assembles(arch)
    return [
        i
        for i, case in enumerate(cases)
        if arch in table_targets(case.operation.mnemonic) and (isinstance(case, ScalarCase) or case.lane.key in known)
    ]


def with_upper_half(case: PcodeCase, got: Words, want: Words) -> Words:
    """The expectation with the upper half of a 16-bit result as the hardware leaves it.

    The manual states 16 bits only. VOP1 and VOP2 results clear the rest, and LLVM relies on it (and on v_med3_f16 doing
    so); v_fma_f16, v_mad_u16 and their kind keep it. For the other three-operand forms nothing is promised.
    """
    operation = case.operation
    if case.lane.result != 1 or operation.width("vdst") != 16 or "D0 =" in operation.text:
        return want
    short = any((operation.mnemonic, encoding) in operations() for encoding in ("VOP1Op", "VOP2Op"))
    if operation.mnemonic in ("v_fma_f16", "v_mad_u16", "v_mad_i16", "v_div_fixup_f16"):
        return want
    upper = np.uint32(0) if short or operation.mnemonic == "v_med3_f16" else got[0] & np.uint32(0xFFFF0000)
    return np.concatenate([((want[0] & np.uint32(0xFFFF)) | upper)[None], want[1:]])


def lane_failure(text: str, planes: Words, got: Words, want: Words, bad: list[int]) -> str:
    """One line that reproduces the first wrong lane."""
    at = bad[0]
    shown = [[f"{int(word):#x}" for word in part[:, at]] for part in (planes, got, want)]
    return f"{text}: {len(bad)} lanes, first {at}: operands {shown[0]} got {shown[1]} want {shown[2]}"


def check_vector(cases: Sequence[PcodeCase], groups: int, seed: int) -> list[str]:
    masks = [MASKS[group % len(MASKS)] for group in range(groups)]
    operands = [lane_cases.operands(case, groups, seed) for case in cases]
    wanted = [
        [lane_cases.expected(case, planes[group], mask) for group, mask in enumerate(masks)]
        for case, planes in zip(cases, operands, strict=True)
    ]
    failures = []
    for arch in ARCHITECTURES:
        chosen = on_arch(arch, cases)
        for engine in ENGINES:
            results = run_lane_cases(
                arch, [cases[i].lane for i in chosen], [operands[i] for i in chosen], masks, engine=engine
            )
            for i, got in zip(chosen, results, strict=True):
                case = cases[i]
                for group, mask in enumerate(masks):
                    active = np.array([mask >> lane & 1 for lane in range(LANES)], bool)
                    stated = wanted[i][group]
                    want = np.where(active, with_upper_half(case, got[group], stated), stated)
                    ulps = ULPS.get(case.operation.mnemonic, 0)
                    bad = wrong_lanes(case.result_kind, case.lane.result, got[group], want, ulps)
                    if bad:
                        failures.append(
                            f"{arch} {engine} {lane_failure(case.lane.text, operands[i][group], got[group], want, bad)}"
                        )
                        break
    return failures


def check_scalar(cases: Sequence[ScalarCase], groups: int, seed: int) -> list[str]:
    operands = [wave_cases.operands(case, groups, seed) for case in cases]
    wanted = [
        np.array([wave_cases.expected(case, row) for row in rows]) for case, rows in zip(cases, operands, strict=True)
    ]
    failures = []
    for arch in ARCHITECTURES:
        chosen = on_arch(arch, cases)
        for engine in ENGINES:
            results = run_wave_cases(
                arch, [cases[i].wave for i in chosen], [operands[i] for i in chosen], engine=engine
            )
            for i, got in zip(chosen, results, strict=True):
                bad = np.flatnonzero((got != wanted[i]).any(axis=1))
                if len(bad):
                    shown = [[f"{int(word):#x}" for word in part[bad[0]]] for part in (operands[i], got, wanted[i])]
                    failures.append(f"{arch} {engine} {cases[i].wave.key}: {len(bad)} sets: {shown[0]} {shown[1:]}")
    return failures


def check_memory(cases: Sequence[MemoryCase], groups: int, seed: int) -> list[str]:
    masks = [MASKS[group % len(MASKS)] for group in range(groups)]
    operands = [memory_cases.operands(case, groups, seed) for case in cases]
    wanted = [
        [memory_cases.expected(case, planes[group], mask) for group, mask in enumerate(masks)]
        for case, planes in zip(cases, operands, strict=True)
    ]
    failures = []
    for arch in ARCHITECTURES:
        chosen = on_arch(arch, cases)
        for engine in ENGINES:
            results = run_lane_cases(
                arch, [cases[i].lane for i in chosen], [operands[i] for i in chosen], masks, engine=engine,
                lds_bytes=LDS_BYTES, scratch_bytes=SCRATCH_BYTES,
            )  # fmt: skip
            for i, got in zip(chosen, results, strict=True):
                case = cases[i]
                kind = memory_cases.memory_kind(case)
                for group in range(groups):
                    want = wanted[i][group]
                    bad = [
                        lane
                        for lane in range(LANES)
                        if not all(
                            same(kind, number(got[group], part, lane), number(want, part, lane), 32 * len(part))
                            for part in (range(case.lane.result), range(case.lane.result, case.lane.planes_out))
                        )
                    ]
                    if bad:
                        failures.append(
                            f"{arch} {engine} {lane_failure(case.lane.text, operands[i][group], got[group], want, bad)}"
                        )
                        break
    return failures


def number(planes: Words, part: range, lane: int) -> int:
    """The dwords of some planes of a lane as one number."""
    return sum(int(planes[plane, lane]) << 32 * i for i, plane in enumerate(part))


def report(failures: list[str]) -> None:
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures)


def test_every_instruction_is_judged_by_something() -> None:
    """Each entry of the table is covered by the pseudocode or by a named test of our own, and no name is stale."""
    judged = {case.operation.mnemonic for case in (*vector_cases(), *scalar_cases(), *memory_cases_of_table())}
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()} | set(OWN_STATEMENT) | WITHOUT_RESULT
    assert judged.isdisjoint(elsewhere), judged & elsewhere
    matrix = {name for name in table_names() if name.startswith("v_mfma")}
    assert table_names() - judged - elsewhere - matrix - NO_ENCODING == set()
    assert elsewhere - table_names() == set()
    assert len(judged) > 800


def test_what_has_no_encoding_is_refused_by_the_assembler() -> None:
    """The names that are exempt because no program can hold them really have no encoding."""
    forms = ["{}", "{} v1, v2", "{} v1, v2, v3", "{} v1, v2, v3, v4", "{} v1, v2, 0x3fc00000, v3"]
    for arch in ARCHITECTURES:
        for name in NO_ENCODING:
            lines = [form.format(name + suffix) for form in forms for suffix in ("", "_e32", "_e64")]
            assert not any(accepted(arch, lines)), name


@pytest.mark.parametrize("part", range(PARTS))
def test_vector_instructions(part: int) -> None:
    """Vector instructions with their source modifiers, packed selections, clamp and masks."""
    report([f for chunk in chunks(vector_cases()[part::PARTS]) for f in check_vector(chunk, groups=2, seed=1)])


def test_scalar_instructions() -> None:
    """Scalar instructions with SCC and EXEC in and out."""
    report([f for chunk in chunks(scalar_cases()) for f in check_scalar(chunk, groups=48, seed=1)])


def test_memory_instructions() -> None:
    """LDS, global, flat, buffer and scratch accesses and atomics, with what they return and what they leave."""
    report([f for chunk in chunks(memory_cases_of_table()) for f in check_memory(chunk, groups=2, seed=1)])


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 10))
def test_exhaustive(seed: int) -> None:
    """The same over many more operands."""
    failures = [f for chunk in chunks(vector_cases()) for f in check_vector(chunk, groups=4, seed=seed)]
    failures += [f for chunk in chunks(scalar_cases()) for f in check_scalar(chunk, groups=256, seed=seed)]
    failures += [f for chunk in chunks(memory_cases_of_table()) for f in check_memory(chunk, groups=4, seed=seed)]
    report(failures)
