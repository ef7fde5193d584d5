"""Programs of a few instructions: branches, loops, barriers, mode registers, program counter, waits and caches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.aot.emulator.oracle.engines import ARCHITECTURES, ENGINES
from tests.aot.emulator.oracle.machine import (
    LANES,
    PROLOGUE,
    WaveCase,
    assembly,
    execute,
    run_wave_cases,
)

#: Outputs of a program from its inputs, one workgroup.
Expectation = Callable[[list[int]], list[int]]


def _branch(condition: str, setup: str) -> str:
    """Writes 1 to s60 if the branch is taken, 2 if not, and leaves EXEC full."""
    label = f"taken_{condition}_{abs(hash(setup)) % 10**6}"
    return f"{setup}\ns_mov_b32 s60, 2\ns_nop 0\n{condition} {label}\ns_branch {label}_end\n" + (
        f"{label}:\ns_mov_b32 s60, 1\n{label}_end:\ns_mov_b64 exec, -1"
    )


def _taken(test: Callable[[int], bool]) -> Expectation:
    return lambda v: [1 if test(v[0]) else 2]


SCC = "s_cmp_lg_u32 s40, 0"
VCC = "s_mov_b32 vcc_lo, s40\ns_mov_b32 vcc_hi, 0"
EXEC = "s_mov_b32 exec_lo, s40\ns_mov_b32 exec_hi, 0"

PROGRAMS: list[tuple[str, str, int, int, Expectation]] = [
    ("scc0", _branch("s_cbranch_scc0", SCC), 1, 1, _taken(lambda x: x == 0)),
    ("scc1", _branch("s_cbranch_scc1", SCC), 1, 1, _taken(lambda x: x != 0)),
    ("vccz", _branch("s_cbranch_vccz", VCC), 1, 1, _taken(lambda x: x == 0)),
    ("vccnz", _branch("s_cbranch_vccnz", VCC), 1, 1, _taken(lambda x: x != 0)),
    ("execz", _branch("s_cbranch_execz", EXEC), 1, 1, _taken(lambda x: x == 0)),
    ("execnz", _branch("s_cbranch_execnz", EXEC), 1, 1, _taken(lambda x: x != 0)),
    (
        # The sum 1 + 2 + ... + n by a loop that goes backwards.
        "loop",
        "s_and_b32 s50, s40, 31\ns_mov_b32 s60, 0\n"
        "loop_head:\ns_cmp_eq_u32 s50, 0\ns_cbranch_scc1 loop_done\n"
        "s_add_u32 s60, s60, s50\ns_sub_u32 s50, s50, 1\ns_branch loop_head\nloop_done:",
        1, 1, lambda v: [(v[0] & 31) * ((v[0] & 31) + 1) // 2],
    ),
    (
        # s_getpc gives the address of the next instruction: two of them are as far apart as the code between.
        "getpc",
        "s_getpc_b64 s[50:51]\ns_nop 0\ns_getpc_b64 s[52:53]\ns_sub_u32 s60, s52, s50",
        1, 1, lambda _v: [8],
    ),
    (
        "hints",
        "s_nop 3\ns_sleep 1\ns_setprio 2\ns_waitcnt vmcnt(0) lgkmcnt(0) expcnt(0)\ns_icache_inv\ns_dcache_wb\n"
        "s_dcache_inv\ns_waitcnt lgkmcnt(0)\nbuffer_inv sc1\nbuffer_wbl2 sc1\ns_waitcnt vmcnt(0)\n"
        "s_add_u32 s60, s40, 1",
        1, 1, lambda v: [(v[0] + 1) & 0xFFFFFFFF],
    ),
    (
        # Time goes on; its value is nobody's business.
        "clock",
        "s_memtime s[50:51]\ns_waitcnt lgkmcnt(0)\ns_memtime s[52:53]\ns_waitcnt lgkmcnt(0)\ns_memrealtime s[54:55]\n"
        "s_waitcnt lgkmcnt(0)\ns_sub_u32 s50, s52, s50\ns_subb_u32 s51, s53, s51\ns_lshr_b32 s60, s51, 31",
        1, 1, lambda _v: [0],
    ),
    (
        # MODE bits 4 and 5 choose whether f32 denormals are flushed; the program starts with them kept.
        "denormal mode",
        "v_mov_b32_e32 v10, 0x400000\nv_add_f32_e32 v11, v10, v10\nv_mul_f32_e32 v12, 1.0, v10\n"
        "v_readfirstlane_b32 s60, v11\nv_readfirstlane_b32 s61, v12\n"
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mul_f32_e32 v12, 1.0, v10\nv_readfirstlane_b32 s62, v12\n"
        "s_getreg_b32 s63, hwreg(HW_REG_MODE, 4, 4)\ns_mov_b32 s50, 3\ns_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s50\n"
        "v_mul_f32_e32 v12, 1.0, v10\nv_readfirstlane_b32 s64, v12\ns_getreg_b32 s65, hwreg(HW_REG_MODE, 4, 4)",
        1, 6, lambda _v: [0x800000, 0x400000, 0, 0b1100, 0x400000, 0b1111],
    ),
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_programs(arch: str, engine: str) -> None:
    """Every branch in both directions, loops, mode changes and instructions without a result."""
    rng = np.random.default_rng(41)
    values = np.concatenate([[0, 1, 0x80000000, 0xFFFFFFFF], rng.integers(0, 1 << 32, 12)]).astype(np.uint32)
    cases = [WaveCase(name, text, inputs, outputs) for name, text, inputs, outputs, _ in PROGRAMS]
    operands = [np.stack([np.roll(values, i) for i in range(case.inputs)], axis=1) for case in cases]
    results = run_wave_cases(arch, cases, operands, engine=engine)
    for (name, _, _, _, expectation), given, got in zip(PROGRAMS, operands, results, strict=True):
        for row, result in zip(given.tolist(), got.tolist(), strict=True):
            assert result == expectation(row), (name, row)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(4))
def test_barrier_orders_four_waves(engine: str, seed: int) -> None:
    """Each wave writes a row of LDS and after the barrier reads the row of another, in any order of the waves."""
    lanes = 4 * LANES
    body = PROLOGUE + (
        "global_load_dword v4, v0, s[4:5]\n"
        "s_waitcnt vmcnt(0)\n"
        "ds_write_b32 v0, v4\n"
        "s_waitcnt lgkmcnt(0)\n"
        "s_barrier\n"
        f"v_xor_b32_e32 v5, {4 * (lanes - 1)}, v0\n"
        "ds_read_b32 v6, v5\n"
        "s_waitcnt lgkmcnt(0)\n"
        "global_store_dword v0, v6, s[6:7]"
    )
    rng = np.random.default_rng(42)
    data = rng.integers(0, 1 << 32, (3, lanes), dtype=np.uint32)
    inputs = np.concatenate([np.zeros((3, 16), np.uint32), data], axis=1)
    source = assembly(body, lds_bytes=4 * lanes, block=lanes)
    got = execute("gfx942", source, inputs, lanes, engine=engine, block=lanes, seed=seed)
    assert np.array_equal(got, data[:, ::-1])
