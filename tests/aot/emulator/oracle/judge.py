"""Runs cases on the emulator and lists where it departs from the pseudocode, each as a line that reproduces it.

The expectation is evaluated once per case and operand set. The fast engine runs everything on both architectures; the
plain engine, which reads the same table, runs the first workgroups on the architecture with more instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.aot.emulator.oracle import lane_cases, memory_cases, wave_cases
from tests.aot.emulator.oracle.compare import ULPS, same, wrong_lanes
from tests.aot.emulator.oracle.coverage import assembles
from tests.aot.emulator.oracle.engines import table_targets
from tests.aot.emulator.oracle.lane_cases import PcodeCase
from tests.aot.emulator.oracle.machine import ALL_LANES, LANES, Words, run_lane_cases, run_wave_cases
from tests.aot.emulator.oracle.memory_cases import LDS_BYTES, SCRATCH_BYTES, MemoryCase
from tests.aot.emulator.oracle.pcode_table import operations
from tests.aot.emulator.oracle.wave_cases import ScalarCase

RUNS = (("gfx942", "llvm"), ("gfx950", "llvm"), ("gfx950", "numpy"))
#: Workgroups alternate between all lanes and a ragged mask.
MASKS = (ALL_LANES, 0x8F0F_5A5A_FFFF_0001)
PLAIN_LANE_GROUPS, PLAIN_WAVE_GROUPS = 2, 6


def on_arch(arch: str, cases: Sequence[PcodeCase | ScalarCase | MemoryCase]) -> list[int]:
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


def check_vector(cases: Sequence[PcodeCase], groups: int, seed: int) -> list[str]:
    """Vector instructions over `groups` workgroups of 64 operand sets."""
    masks = [MASKS[group % len(MASKS)] for group in range(groups)]
    active = [np.array([mask >> lane & 1 for lane in range(LANES)], bool) for mask in masks]
    operands = [lane_cases.operands(case, groups, seed) for case in cases]
    wanted = [
        [lane_cases.expected(case, planes[group], mask) for group, mask in enumerate(masks)]
        for case, planes in zip(cases, operands, strict=True)
    ]
    failures = []
    for arch, engine in RUNS:
        used = groups if engine == "llvm" else min(groups, PLAIN_LANE_GROUPS)
        chosen = on_arch(arch, cases)
        given = [operands[i][:used] for i in chosen]
        results = run_lane_cases(arch, [cases[i].lane for i in chosen], given, masks[:used], engine=engine)
        for i, got in zip(chosen, results, strict=True):
            case = cases[i]
            for group in range(used):
                stated = wanted[i][group]
                want = np.where(active[group], with_upper_half(case, got[group], stated), stated)
                ulps = ULPS.get(case.operation.mnemonic, 0)
                bad = wrong_lanes(case.result_kind, case.lane.result, got[group], want, ulps)
                if bad:
                    shown = lane_failure(case.lane.text, operands[i][group], got[group], want, bad)
                    failures.append(f"{arch} {engine} {shown}")
                    break
    return failures


def check_scalar(cases: Sequence[ScalarCase], groups: int, seed: int) -> list[str]:
    """Scalar instructions over `groups` operand sets."""
    operands = [wave_cases.operands(case, groups, seed) for case in cases]
    wanted = [
        np.array([wave_cases.expected(case, row) for row in rows], np.uint32)
        for case, rows in zip(cases, operands, strict=True)
    ]
    failures = []
    for arch, engine in RUNS:
        used = groups if engine == "llvm" else min(groups, PLAIN_WAVE_GROUPS)
        chosen = on_arch(arch, cases)
        given = [operands[i][:used] for i in chosen]
        results = run_wave_cases(arch, [cases[i].wave for i in chosen], given, engine=engine)
        for i, got in zip(chosen, results, strict=True):
            bad = np.flatnonzero((got != wanted[i][:used]).any(axis=1))
            if len(bad):
                rows = [part[bad[0]].tolist() for part in (operands[i], got, wanted[i])]
                failures.append(f"{arch} {engine} {cases[i].wave.key}: {len(bad)} sets: {shown_words(rows)}")
    return failures


def check_memory(cases: Sequence[MemoryCase], groups: int, seed: int) -> list[str]:
    """Memory instructions over `groups` workgroups of 64 operand sets."""
    masks = [MASKS[group % len(MASKS)] for group in range(groups)]
    operands = [memory_cases.operands(case, groups, seed) for case in cases]
    wanted = [
        [memory_cases.expected(case, planes[group], mask) for group, mask in enumerate(masks)]
        for case, planes in zip(cases, operands, strict=True)
    ]
    failures = []
    for arch, engine in RUNS:
        used = groups if engine == "llvm" else min(groups, PLAIN_LANE_GROUPS)
        chosen = on_arch(arch, cases)
        given = [operands[i][:used] for i in chosen]
        results = run_lane_cases(
            arch, [cases[i].lane for i in chosen], given, masks[:used], engine=engine,
            lds_bytes=LDS_BYTES, scratch_bytes=SCRATCH_BYTES,
        )  # fmt: skip
        for i, got in zip(chosen, results, strict=True):
            for group in range(used):
                bad = wrong_memory_lanes(cases[i], got[group], wanted[i][group])
                if bad:
                    shown = lane_failure(cases[i].lane.text, operands[i][group], got[group], wanted[i][group], bad)
                    failures.append(f"{arch} {engine} {shown}")
                    break
    return failures


def wrong_memory_lanes(case: MemoryCase, got: Words, want: Words) -> list[int]:
    """Lanes in which the returned value or the region differs, both in the type of the memory."""
    kind = memory_cases.memory_kind(case)
    parts = (range(case.lane.result), range(case.lane.result, case.lane.planes_out))

    def number(planes: Words, part: range, lane: int) -> int:
        return sum(int(planes[plane, lane]) << 32 * i for i, plane in enumerate(part))

    return [
        lane
        for lane in range(LANES)
        if not all(same(kind, number(got, part, lane), number(want, part, lane), 32 * len(part)) for part in parts)
    ]


def lane_failure(text: str, planes: Words, got: Words, want: Words, bad: list[int]) -> str:
    """One line that reproduces the first wrong lane."""
    columns = [part[:, bad[0]].tolist() for part in (planes, got, want)]
    return f"{text!r}: {len(bad)} lanes, first {bad[0]}: {shown_words(columns)}"


def shown_words(rows: list[list[int]]) -> str:
    given, got, want = ("[" + " ".join(f"{word:x}" for word in row) + "]" for row in rows)
    return f"operands {given} got {got} want {want}"
