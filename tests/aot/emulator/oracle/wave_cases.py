"""Scalar instructions that the pseudocode covers: assembly, operands and expected results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.aot.emulator.oracle import operand_pools, pcode_run, pcode_values
from tests.aot.emulator.oracle.lane_cases import dwords, kind_of_source
from tests.aot.emulator.oracle.machine import WaveCase, Words, register
from tests.aot.emulator.oracle.pcode_table import Operation

SCALAR_ENCODINGS = ("SOP1Op", "SOP2Op", "SOPCOp", "SOPKOp")
IMMEDIATES = (0, 1, -1, 2, 31, 1234, -1234, 0x7FFF, -0x8000)
#: Operations on machine state that the single-instruction kernels do not set up.
STATE = re.compile(r"\bPC\b|SGPR|WAVE_|HW_REGISTERS|M0|VSKIP|PRIV")
#: Input dwords of every case: S0, S1, old D0, SCC, EXEC.
INPUTS = 9
OUTPUTS = 5


@dataclass(frozen=True)
class ScalarCase:
    """A wave case with the operation that predicts it; `immediate` is the SOPK constant."""

    wave: WaveCase
    operation: Operation
    immediate: int | None = None


def cases(operations: dict[tuple[str, str], Operation]) -> Iterator[ScalarCase]:
    for (mnemonic, encoding), operation in operations.items():
        if encoding not in SCALAR_ENCODINGS or STATE.search(operation.text):
            continue
        if encoding != "SOPKOp":
            sources = [
                register(first, dwords(operation.width(field)), "s")
                for first, field in ((40, "ssrc0"), (42, "ssrc1"))
                if operation.width(field)
            ]
            yield _case(operation, mnemonic, sources, None)
            continue
        for immediate in IMMEDIATES:
            # The unsigned compares take the constant zero-extended and the assembler wants it so.
            shown = immediate & 0xFFFF if mnemonic.startswith("s_cmpk") and mnemonic.endswith("u32") else immediate
            sources = ["s40", str(shown)] if mnemonic.startswith("s_cmpk") else [str(shown)]
            yield _case(operation, f"{mnemonic}:{immediate}", sources, immediate)


def _case(operation: Operation, key: str, sources: list[str], immediate: int | None) -> ScalarCase:
    width = dwords(operation.width("sdst")) if not operation.mnemonic.startswith("s_cmp") else 0
    operands = ([register(44, width, "s")] if width else []) + sources
    text = f"""\
s_mov_b64 exec, s[48:49]
s_cmp_lg_u32 s46, 0
{operation.mnemonic} {", ".join(operands)}
s_cselect_b32 s62, 1, 0
s_mov_b64 s[64:65], exec
s_mov_b64 exec, -1
s_mov_b64 s[60:61], s[44:45]
s_mov_b32 s63, s64
s_mov_b32 s64, s65"""
    return ScalarCase(WaveCase(key, text, INPUTS + 1, OUTPUTS), operation, immediate)


def operands(case: ScalarCase, groups: int, seed: int) -> Words:
    """Rows of S0, S1, D0, SCC, a spare and EXEC; EXEC is never empty by chance alone."""
    rng = np.random.default_rng([seed, *case.wave.key.encode()])
    rows = np.zeros((groups, INPUTS + 1), np.uint32)
    for column, name in ((0, "S0"), (2, "S1"), (4, "D0")):
        kind = kind_of_source(case.operation.text, name)
        if kind[0] not in "ui":
            kind = "u32"
        drawn = operand_pools.draw(rng, kind, 64, groups)
        rows[:, column] = drawn & np.uint64(0xFFFFFFFF)
        rows[:, column + 1] = drawn >> np.uint64(32)
    rows[:, 6] = rng.integers(0, 2, groups)
    drawn = operand_pools.draw(rng, "u64", 64, groups)
    rows[:, 8] = drawn & np.uint64(0xFFFFFFFF)
    rows[:, 9] = drawn >> np.uint64(32)
    return rows


def expected(case: ScalarCase, row: Words) -> list[int]:
    """D0 (two dwords), SCC and EXEC (two dwords) after the instruction."""
    values = [int(word) for word in row]
    s0, s1, d0, exec_mask = (values[at] | values[at + 1] << 32 for at in (0, 2, 4, 8))
    operation = case.operation
    width = 32 * dwords(operation.width("sdst")) if not operation.mnemonic.startswith("s_cmp") else 64
    destination = pcode_values.Cell(width, d0)
    # SOPK reads its constant as S0, the compares as S1.
    first = s0 if case.immediate is None or operation.mnemonic.startswith("s_cmpk") else case.immediate
    second = s1 if case.immediate is None else case.immediate
    environment: pcode_values.Environment = {
        "S0": pcode_values.Cell(64, first),
        "S1": pcode_values.Cell(64, second),
        "D0": destination,
        "SCC": pcode_values.Cell(1, values[6]),
        "EXEC": pcode_values.Cell(64, exec_mask),
    }
    pcode_run.run(operation.text, environment)
    scc, mask = environment["SCC"], environment["EXEC"]
    assert isinstance(scc, pcode_values.Cell)
    assert isinstance(mask, pcode_values.Cell)
    result = destination.bits | (d0 >> width << width)
    return [result & 0xFFFFFFFF, result >> 32, scc.bits, mask.bits & 0xFFFFFFFF, mask.bits >> 32]
