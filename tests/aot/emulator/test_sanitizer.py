"""Every kind of fault is found, by both engines, at the right instruction; the repaired program is clean."""

from __future__ import annotations

import numpy as np
import pytest

from aot.emulator import Report
from tests.aot.emulator.program_text import program, run_program

ENGINES = ("llvm", "numpy")
STORE = "global_store_dword v1, v5, s[2:3]\n"

# Name: (kind of fault, mnemonic at fault, faulty body, repaired body, threads).
CASES: dict[str, tuple[str, str, str, str, int]] = {
    "global load read too early": (
        "register in flight",
        "v_add_u32_e32",
        "global_load_dword v5, v1, s[2:3]; v_add_u32_e32 v5, 1, v5;",
        "global_load_dword v5, v1, s[2:3]; s_waitcnt vmcnt(0); v_add_u32_e32 v5, 1, v5;",
        64,
    ),
    "wait count one too high": (
        "register in flight",
        "v_add_u32_e32",
        "global_load_dword v5, v1, s[2:3]; global_load_dword v6, v1, s[2:3]; s_waitcnt vmcnt(1); "
        "v_add_u32_e32 v5, v6, v5;",
        "global_load_dword v5, v1, s[2:3]; global_load_dword v6, v1, s[2:3]; s_waitcnt vmcnt(1); "
        "v_add_u32_e32 v5, 1, v5;",
        64,
    ),
    "loaded register overwritten in flight": (
        "register in flight",
        "v_mov_b32_e32",
        "global_load_dword v5, v1, s[2:3]; v_mov_b32_e32 v5, 0;",
        "global_load_dword v5, v1, s[2:3]; s_waitcnt vmcnt(0); v_mov_b32_e32 v5, 0;",
        64,
    ),
    "scalar load read too early": (
        "register in flight",
        "v_mov_b32_e32",
        "s_load_dword s20, s[2:3], 0x0; v_mov_b32_e32 v5, s20;",
        "s_load_dword s20, s[2:3], 0x0; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, s20;",
        64,
    ),
    "scalar loads come in any order": (
        "register in flight",
        "v_mov_b32_e32",
        "s_load_dword s20, s[2:3], 0x0; s_load_dword s21, s[2:3], 0x4; s_waitcnt lgkmcnt(1); v_mov_b32_e32 v5, s20;",
        "s_load_dword s20, s[2:3], 0x0; s_load_dword s21, s[2:3], 0x4; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, s20;",
        64,
    ),
    "LDS read used too early": (
        "register in flight",
        "v_add_u32_e32",
        "ds_write_b32 v1, v0; ds_read_b32 v5, v1; v_add_u32_e32 v5, 1, v5;",
        "ds_write_b32 v1, v0; ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0); v_add_u32_e32 v5, 1, v5;",
        64,
    ),
    "LDS written and read without a barrier": (
        "LDS race",
        "ds_read_b32",
        "v_xor_b32_e32 v2, 0x100, v1; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); s_barrier; "
        "ds_write_b32 v1, v1; s_waitcnt lgkmcnt(0); ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0);",
        "v_xor_b32_e32 v2, 0x100, v1; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); s_barrier; "
        "ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0);",
        128,
    ),
    "barrier before the LDS write has completed": (
        "LDS race",
        "ds_read_b32",
        "v_xor_b32_e32 v2, 0x100, v1; ds_write_b32 v1, v0; s_barrier; ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0);",
        "v_xor_b32_e32 v2, 0x100, v1; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); s_barrier; "
        "ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0);",
        128,
    ),
    "two waves write different values to one place": (
        "LDS race",
        "ds_write_b32",
        "v_and_b32_e32 v2, 0xfc, v1; ds_write_b32 v2, v0; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, 0;",
        "v_and_b32_e32 v2, 0xfc, v1; v_and_b32_e32 v3, 63, v0; ds_write_b32 v2, v3; "
        "s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, 0;",
        128,
    ),
    "overwritten while another wave still reads": (
        "LDS race",
        "ds_read_b32",
        "v_xor_b32_e32 v2, 0x100, v1; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); s_barrier; "
        "ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0); ds_write_b32 v1, v5;",
        "v_xor_b32_e32 v2, 0x100, v1; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); s_barrier; "
        "ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0); s_barrier; ds_write_b32 v1, v5;",
        128,
    ),
    "global load past the buffer": (
        "global access out of bounds",
        "global_load_dword",
        "global_load_dword v5, v1, s[2:3] offset:512; s_waitcnt vmcnt(0);",
        "global_load_dword v5, v1, s[2:3] offset:256; s_waitcnt vmcnt(0);",
        64,
    ),
    "global store before the buffer": (
        "global access out of bounds",
        "global_store_dword",
        "v_mov_b32_e32 v5, 0; global_store_dword v1, v5, s[2:3] offset:-4;",
        "v_mov_b32_e32 v5, 0; global_store_dword v1, v5, s[2:3] offset:4;",
        64,
    ),
    "buffer resource larger than its buffer": (
        "global access out of bounds",
        "buffer_load_dword",
        "s_mov_b32 s10, 0x10000; buffer_load_dword v5, v1, s[8:11], 0 offen offset:512; s_waitcnt vmcnt(0);",
        "buffer_load_dword v5, v1, s[8:11], 0 offen offset:512; s_waitcnt vmcnt(0);",
        64,
    ),
    "buffer with a stride": (
        "load of a bad buffer resource",
        "buffer_load_dword",
        "s_or_b32 s9, s9, 0x100000; buffer_load_dword v5, v1, s[8:11], 0 offen; s_waitcnt vmcnt(0);",
        "buffer_load_dword v5, v1, s[8:11], 0 offen; s_waitcnt vmcnt(0);",
        64,
    ),
    "LDS write past the allocation": (
        "LDS access out of bounds",
        "ds_write_b32",
        "ds_write_b32 v1, v0 offset:772; v_mov_b32_e32 v5, 0;",
        "ds_write_b32 v1, v0 offset:768; v_mov_b32_e32 v5, 0;",
        64,
    ),
    "LDS read never written": (
        "LDS read never written",
        "ds_read_b32",
        "ds_write_b32 v1, v0; ds_read_b32 v5, v1 offset:4; s_waitcnt lgkmcnt(0);",
        "ds_write_b32 v1, v0 offset:4; ds_write_b32 v1, v0; ds_read_b32 v5, v1 offset:4; s_waitcnt lgkmcnt(0);",
        64,
    ),
    "half of a dword never written": (
        "LDS read never written",
        "ds_read_b32",
        "ds_write_b16 v1, v0; ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0);",
        "ds_write_b16 v1, v0; ds_write_b16 v1, v0 offset:2; ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0);",
        64,
    ),
    "byte of a dword never written": (
        "LDS read never written",
        "ds_read_b32",
        "ds_write_b16 v1, v0; ds_write_b8 v1, v0 offset:2; ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0);",
        "ds_write_b16 v1, v0; ds_write_b8 v1, v0 offset:2; ds_write_b8 v1, v0 offset:3; "
        "ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0);",
        64,
    ),
    "direct load read before its wait": (
        "LDS read in flight",
        "ds_read_b32",
        "s_mov_b32 m0, 0; buffer_load_dword v1, s[8:11], 0 offen lds; ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0);",
        "s_mov_b32 m0, 0; buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0); "
        "ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0);",
        64,
    ),
    "direct load of another wave not waited for": (
        "LDS read in flight",
        "ds_read_b32",
        "v_readfirstlane_b32 s20, v1; s_mov_b32 m0, s20; v_xor_b32_e32 v2, 0x100, v1; "
        "buffer_load_dword v1, s[8:11], 0 offen lds; s_barrier; ds_read_b32 v5, v2; "
        "s_waitcnt lgkmcnt(0);",
        "v_readfirstlane_b32 s20, v1; s_mov_b32 m0, s20; v_xor_b32_e32 v2, 0x100, v1; "
        "buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0); s_barrier; ds_read_b32 v5, v2; "
        "s_waitcnt lgkmcnt(0);",
        128,
    ),
    "direct load overwritten in flight": (
        "in-flight LDS overwritten",
        "buffer_load_dword",
        "s_mov_b32 m0, 0; buffer_load_dword v1, s[8:11], 0 offen lds; ds_write_b32 v1, v0; "
        "s_waitcnt vmcnt(0); v_mov_b32_e32 v5, 0;",
        "s_mov_b32 m0, 0; buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0); "
        "ds_write_b32 v1, v0; v_mov_b32_e32 v5, 0;",
        64,
    ),
    "direct load over an LDS read not waited for": (
        "LDS access overtaken by a direct load",
        "buffer_load_dword",
        "s_mov_b32 m0, 0; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); ds_read_b32 v5, v1; "
        "buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0) lgkmcnt(0);",
        "s_mov_b32 m0, 0; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0); "
        "buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0);",
        64,
    ),
    "direct load over an LDS write not waited for": (
        "LDS access overtaken by a direct load",
        "global_load_lds_dword",
        "s_mov_b32 m0, 0; v_mov_b32_e32 v5, 0; ds_write_b32 v1, v0 offset:252; global_load_lds_dword v1, s[2:3]; "
        "s_waitcnt vmcnt(0) lgkmcnt(0);",
        "s_mov_b32 m0, 0; v_mov_b32_e32 v5, 0; ds_write_b32 v1, v0 offset:256; global_load_lds_dword v1, s[2:3]; "
        "s_waitcnt vmcnt(0) lgkmcnt(0);",
        64,
    ),
    "direct load over the older of two LDS reads": (
        "LDS access overtaken by a direct load",
        "buffer_load_dword",
        "v_lshlrev_b32_e32 v2, 4, v0; s_mov_b32 m0, 0; ds_write_b32 v1, v0; ds_write_b32 v1, v0 offset:512; "
        "s_waitcnt lgkmcnt(0); ds_read2_b32 v[6:7], v1 offset1:128; ds_read_b32 v5, v1 offset:512; "
        "s_waitcnt lgkmcnt(2); buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0) lgkmcnt(0);",
        "v_lshlrev_b32_e32 v2, 4, v0; s_mov_b32 m0, 0; ds_write_b32 v1, v0; ds_write_b32 v1, v0 offset:512; "
        "s_waitcnt lgkmcnt(0); ds_read2_b32 v[6:7], v1 offset1:128; ds_read_b32 v5, v1 offset:512; "
        "s_waitcnt lgkmcnt(1); buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0) lgkmcnt(0);",
        64,
    ),
    "direct load over an own LDS read, past a barrier": (
        "LDS access overtaken by a direct load",
        "buffer_load_dword",
        "v_readfirstlane_b32 s20, v1; s_mov_b32 m0, s20; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); "
        "ds_read_b32 v5, v1; s_barrier; buffer_load_dword v1, s[8:11], 0 offen lds; s_waitcnt vmcnt(0) lgkmcnt(0);",
        "v_readfirstlane_b32 s20, v1; s_mov_b32 m0, s20; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); "
        "ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0); s_barrier; buffer_load_dword v1, s[8:11], 0 offen lds; "
        "s_waitcnt vmcnt(0);",
        128,
    ),
    "direct load overwritten and never waited for": (
        "in-flight LDS overwritten",
        "buffer_load_dword",
        "s_mov_b32 m0, 0; v_mov_b32_e32 v5, 0; buffer_load_dword v1, s[8:11], 0 offen lds; ds_write_b32 v1, v0;",
        "s_mov_b32 m0, 0; v_mov_b32_e32 v5, 0; buffer_load_dword v1, s[8:11], 0 offen lds; "
        "ds_write_b32 v1, v0 offset:256;",
        64,
    ),
    "transposed read with lanes masked off": (
        "lanes exchanged under a partial EXEC",
        "ds_read_b64_tr_b16",
        "v_lshlrev_b32_e32 v2, 3, v0; v_mov_b32_e32 v3, v0; ds_write_b64 v2, v[2:3]; s_waitcnt lgkmcnt(0); "
        "s_mov_b32 exec_hi, 0x7fffffff; ds_read_b64_tr_b16 v[6:7], v2; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, v6;",
        "v_lshlrev_b32_e32 v2, 3, v0; v_mov_b32_e32 v3, v0; ds_write_b64 v2, v[2:3]; s_waitcnt lgkmcnt(0); "
        "ds_read_b64_tr_b16 v[6:7], v2; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, v6;",
        64,
    ),
    "rows swapped with lanes masked off": (
        "lanes exchanged under a partial EXEC",
        "v_permlane16_swap_b32",
        "v_mov_b32_e32 v5, v0; v_mov_b32_e32 v6, v0; s_mov_b32 exec_lo, -2; v_permlane16_swap_b32_e32 v5, v6;",
        "v_mov_b32_e32 v5, v0; v_mov_b32_e32 v6, v0; v_permlane16_swap_b32_e32 v5, v6;",
        64,
    ),
    "scalar buffer with a stride": (
        "load of a bad buffer resource",
        "s_buffer_load_dword",
        "s_or_b32 s9, s9, 0x40000; s_buffer_load_dword s20, s[8:11], 0x0; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, s20;",
        "s_buffer_load_dword s20, s[8:11], 0x0; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v5, s20;",
        64,
    ),
    "misaligned packed atomic": (
        "misaligned atomic",
        "global_atomic_pk_add_f16",
        "v_mov_b32_e32 v5, 0; global_atomic_pk_add_f16 v1, v5, s[2:3] offset:2;",
        "v_mov_b32_e32 v5, 0; global_atomic_pk_add_f16 v1, v5, s[2:3] offset:4;",
        64,
    ),
    "a trap": (
        "trap",
        "s_trap",
        "s_trap 2; v_mov_b32_e32 v5, 0;",
        "v_mov_b32_e32 v5, 0;",
        64,
    ),
    "IEEE mode switched off": (
        "unmodelled state",
        "s_setreg_imm32_b32",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 9, 1), 0; v_mov_b32_e32 v5, 0;",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 9, 1), 1; v_mov_b32_e32 v5, 0;",
        64,
    ),
    "denormals flushed on one side": (
        "unmodelled state",
        "s_setreg_imm32_b32",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 1; v_mov_b32_e32 v5, 0;",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 0; v_mov_b32_e32 v5, 0;",
        64,
    ),
    "a rounding mode": (
        "unmodelled state",
        "s_setreg_imm32_b32",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1; v_mov_b32_e32 v5, 0;",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3; v_mov_b32_e32 v5, 0;",
        64,
    ),
}


def _run(body: str, threads: int, engine: str, seed: int = 3) -> Report:
    data = np.arange(256, dtype=np.uint32)[: 256 if threads > 64 else 128]
    return run_program(program(body + "\n" + STORE), data, threads=threads, engine=engine, seed=seed)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_fault_is_found_and_its_repair_is_clean(name: str, engine: str) -> None:
    """A faulty program is stopped with the kind and at the instruction of its fault; the repaired one runs through."""
    kind, mnemonic, faulty, repaired, threads = CASES[name]
    report = _run(faulty, threads, engine)
    assert [fault.kind for fault in report.faults] == [kind], report.faults
    fault = report.faults[0]
    assert fault.instruction.startswith(mnemonic)
    assert fault.kernel == "k"
    assert fault.pc >= 0
    assert not _run(repaired, threads, engine).faults


@pytest.mark.parametrize("engine", ENGINES)
def test_fault_names_lane_and_address(engine: str) -> None:
    """The first lane out of bounds and its address, and the register in flight, stand in the fault."""
    report = _run("global_load_dword v5, v1, s[2:3] offset:268; s_waitcnt vmcnt(0)", 64, engine)
    assert report.faults[0].lane == 61
    assert report.faults[0].address & 0xFFFFF == 512
    early = _run(CASES["global load read too early"][2], 64, engine)
    assert early.faults[0].register == "v5"


@pytest.mark.parametrize("engine", ENGINES)
def test_scratch_faults(engine: str) -> None:
    """Scratch is private to a lane, bounded, and may not be read before it is written."""
    data = np.zeros(64, np.uint32)
    good = """
    v_mov_b32_e32 v2, 0
    scratch_store_dword v2, v0, off offset:12
    scratch_load_dword v5, v2, off offset:12
    s_waitcnt vmcnt(0)
    """
    assert not run_program(program(good + STORE, scratch=16), data, engine=engine).faults
    assert np.array_equal(data, np.arange(64))
    for body, kind in (
        (good.replace("offset:12", "offset:16"), "scratch access out of bounds"),
        (good.replace("v0, off offset:12", "v0, off offset:8"), "scratch read never written"),
    ):
        report = run_program(program(body + STORE, scratch=16), data, engine=engine)
        assert [fault.kind for fault in report.faults] == [kind]


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics_do_not_race_with_each_other(engine: str) -> None:
    """LDS atomics of several waves to one cell are no race and lose nothing."""
    body = """
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v3, 1
    v_mov_b32_e32 v5, 0
    ds_write_b32 v2, v2
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_add_u32 v2, v3
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_read_b32 v5, v2
    s_waitcnt lgkmcnt(0)
    """
    data = np.zeros(256, np.uint32)
    assert not run_program(program(body + "\n" + STORE), data, threads=256, engine=engine).faults
    assert np.array_equal(data, np.full(256, 256))
