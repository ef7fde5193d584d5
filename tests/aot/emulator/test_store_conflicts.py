"""Stores that nothing orders must agree: waves, workgroups and lanes that store to one byte, in both engines."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from aot.emulator import Memory, Report, run
from tests.aot.emulator.program_text import program, run_program

ENGINES = ("llvm", "numpy")
WIDTHS = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
CONFLICT = "conflicting stores"

#: v2 = 16 * lane within the wave, v[4:7] the same in all waves, v20 the wave, s20 the workgroup.
SETUP = """
v_and_b32_e32 v3, 63, v0
v_lshlrev_b32_e32 v2, 4, v3
v_lshrrev_b32_e32 v20, 6, v0
s_mov_b32 s20, s12
v_add_u32_e32 v4, 0x01010101, v3
v_mov_b32_e32 v5, v4
v_mov_b32_e32 v6, v4
v_mov_b32_e32 v7, v4
v_mov_b32_e32 v8, s2
v_mov_b32_e32 v9, s3
v_add_co_u32_e32 v8, vcc, v8, v2
v_addc_co_u32_e32 v9, vcc, 0, v9, vcc
"""
BY_WAVE = "v_add_u32_e32 v4, v20, v4\n"
EQUAL = "".join(f"v_mov_b32_e32 v{register}, 7\n" for register in range(4, 8))
BY_GROUP = "v_add_u32_e32 v4, s20, v4\n"


def _store(space: str, suffix: str) -> str:
    registers = "v4" if WIDTHS[suffix] <= 4 else f"v[4:{3 + WIDTHS[suffix] // 4}]"
    return {
        "global": f"global_store_{suffix} v2, {registers}, s[2:3]\n",
        "buffer": f"buffer_store_{suffix} {registers}, v2, s[8:11], 0 offen\n",
        "flat": f"flat_store_{suffix} v[8:9], {registers}\n",
    }[space]


def _run(body: str, engine: str, threads: int = 64, groups: int = 1, seed: int = 0) -> Report:
    data = np.zeros(2048, np.uint8)
    return run_program(program(SETUP + body), data, threads=threads, groups=groups, engine=engine, seed=seed)


def _kinds(report: Report) -> list[str]:
    return [fault.kind for fault in report.faults]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("space", ["global", "buffer", "flat"])
@pytest.mark.parametrize("suffix", WIDTHS)
def test_waves_and_workgroups_must_agree(space: str, suffix: str, engine: str) -> None:
    """Equal values from everywhere are clean; one wave, or one workgroup, with another value is a fault at a store,
    in any order of the waves."""
    store = _store(space, suffix)
    for seed in range(2):
        assert not _run(store, engine, 128, 2, seed).faults
        for different, threads, groups in ((BY_WAVE, 128, 1), (BY_GROUP, 64, 2)):
            report = _run(different + store, engine, threads, groups, seed)
            assert _kinds(report) == [CONFLICT]
            assert report.faults[0].instruction.startswith(f"{space}_store_{suffix}")
            assert 0 <= report.faults[0].address & 0xFFFFF < 1024


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("space", ["global", "buffer", "flat"])
@pytest.mark.parametrize("suffix", WIDTHS)
def test_lanes_must_agree(space: str, suffix: str, engine: str) -> None:
    """Two lanes of one instruction to one place: equal values are clean, others a fault, also where only the last
    byte of one is the first byte of the other."""
    lone = "v_and_b32_e32 v2, 0xffffffef, v2\nv_and_b32_e32 v8, 0xffffffef, v8\n"
    assert not _run(lone + EQUAL + _store(space, suffix), engine).faults
    assert _kinds(_run(lone + _store(space, suffix), engine)) == [CONFLICT]
    width = WIDTHS[suffix]
    if width > 1:
        # Lane 1 begins at the last byte of lane 0.
        near = f"v_mul_u32_u24_e32 v2, {width - 1}, v3\n"
        near += "v_mov_b32_e32 v8, s2\nv_add_u32_e32 v8, v8, v2\nv_mov_b32_e32 v4, 0x01020304\nv_mov_b32_e32 v5, v4\n"
        near += "v_mov_b32_e32 v6, v4\nv_mov_b32_e32 v7, v4\n"
        if space != "buffer":
            assert _kinds(_run(near + _store(space, suffix), engine)) == [CONFLICT]


@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_of_one_lds_store_must_agree(engine: str) -> None:
    """The same in LDS, for every width."""
    for suffix, registers in (("b8", "v4"), ("b16", "v4"), ("b32", "v4"), ("b64", "v[4:5]"), ("b128", "v[4:7]")):
        lone = "v_and_b32_e32 v2, 0xffffffef, v2\n"
        store = f"ds_write_{suffix} v2, {registers}\n"
        assert not _run(store, engine).faults
        assert not _run(lone + EQUAL + store, engine).faults
        report = _run(lone + store, engine)
        assert _kinds(report) == [CONFLICT], suffix
        assert report.faults[0].instruction.startswith(f"ds_write_{suffix}")


REWRITE = _store("global", "dword")


@pytest.mark.parametrize("engine", ENGINES)
def test_order_makes_stores_clean(engine: str) -> None:
    """A wave may store again; another wave may once a barrier lies between and the first has waited for its stores."""
    assert not _run(REWRITE + "v_add_u32_e32 v4, 1, v4\n" + REWRITE, engine).faults
    # In its turn each wave stores, waits or not, and meets the other at the barrier.
    turns = """
    v_readfirstlane_b32 s21, v20
    v_add_u32_e32 v4, v20, v4
    s_cmp_lg_u32 s21, 0
    s_cbranch_scc1 .Lfirst
    {store}
    .Lfirst:
    {wait}
    s_barrier
    s_cmp_lg_u32 s21, 1
    s_cbranch_scc1 .Lsecond
    {store}
    .Lsecond:
    """
    for seed in range(2):
        waited = turns.format(store=REWRITE, wait="s_waitcnt vmcnt(0)")
        assert not _run(waited, engine, 128, 1, seed).faults
        assert _kinds(_run(turns.format(store=REWRITE, wait=""), engine, 128, 1, seed)) == [CONFLICT]
        # What is ordered within workgroups is not between them.
        assert _kinds(_run(BY_GROUP + waited, engine, 128, 2, seed)) == [CONFLICT]


@pytest.mark.parametrize("engine", ENGINES)
def test_agreement_is_remembered(engine: str) -> None:
    """Two waves store the same; whichever of them then stores something else clashes with the other."""
    for wave in range(2):
        body = f"""
        {REWRITE}
        v_readfirstlane_b32 s21, v20
        s_cmp_lg_u32 s21, {wave}
        s_cbranch_scc1 .Lend1
        v_add_u32_e32 v4, 1, v4
        {REWRITE}
        .Lend1:
        """
        for seed in range(3):
            assert _kinds(_run(body, engine, 128, 1, seed)) == [CONFLICT]


@pytest.mark.parametrize("engine", ENGINES)
def test_workgroups_that_agreed_and_launches(engine: str) -> None:
    """Three workgroups store the same and one of them something else afterwards; what an earlier launch stored, in
    whatever way, is nobody's concern."""
    later = f"""
    s_cmp_lg_u32 s20, {{}}
    s_cbranch_scc1 .Lend2
    v_add_u32_e32 v4, 1, v4
    {REWRITE}
    .Lend2:
    """
    for group in range(3):
        for seed in range(3):
            alone = _run(REWRITE, engine, 64, 3, seed)
            assert not alone.faults
            report = _run(REWRITE + later.format(group), engine, 64, 3, seed)
            assert _kinds(report) == [CONFLICT]
            assert not _run("v_mov_b32_e32 v4, 9\n" + REWRITE, engine, 64, 3, seed).faults


@pytest.mark.parametrize("engine", ENGINES)
def test_neighbours_and_atomics_are_clean(engine: str) -> None:
    """Waves that share a dword but no byte, and atomics of all waves on one place, are no conflict."""
    halves = BY_WAVE + "v_lshlrev_b32_e32 v21, 1, v20\nv_add_u32_e32 v2, v2, v21\n" + _store("global", "short")
    assert not _run(halves, engine, 128, 1).faults
    assert not _run(
        "global_atomic_add v2, v20, s[2:3]\nbuffer_atomic_add v20, v2, s[8:11], 0 offen\n", engine, 128, 2
    ).faults


@pytest.mark.parametrize("engine", ENGINES)
def test_buffer_store_over_the_limit_is_tracked(engine: str) -> None:
    """The dwords of a store that reaches over the range limit count like others."""
    store = "s_movk_i32 s10, 1016\n" + _store("buffer", "dwordx4")
    assert not _run(store, engine, 128, 2).faults
    last = "s_mov_b32 exec_lo, 0\ns_brev_b32 exec_hi, 1\n"
    assert _kinds(_run(BY_WAVE + last + store, engine, 128, 1)) == [CONFLICT]


@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_in_several_buffers(engine: str) -> None:
    """One flat or global store whose lanes go to two buffers is tracked in both."""
    body = """
    v_mov_b32_e32 v10, s4
    s_load_dword s5, s[0:1], 0xc
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v11, s5
    v_cmp_gt_u32_e32 vcc, 32, v3
    v_cndmask_b32_e32 v12, v10, v8, vcc
    v_cndmask_b32_e32 v13, v11, v9, vcc
    """
    for kind in ("global_store_dword v[12:13], v4, off", "flat_store_dword v[12:13], v4"):
        for more, expected in (("", []), (BY_WAVE + "s_mov_b32 exec_lo, 0\n", [CONFLICT])):
            # The second buffer takes the lanes from 32 on, all to one place with one value by lane 63 alone.
            tail = "v_mov_b32_e32 v4, 3\n" if not more else "v_mov_b32_e32 v4, v20\n"
            code = program(SETUP + body + tail + more.removeprefix(BY_WAVE) + kind)
            memory = Memory()
            first, second = np.zeros(2048, np.uint8), np.zeros(64, np.uint8)
            kernarg = struct.pack("<QQ", memory.add("first", first), memory.add("second", second))
            report = run(code, "k", grid=(1, 1, 1), block=(128, 1, 1), kernarg=kernarg, memory=memory, engine=engine)
            assert _kinds(report) == expected
            if not expected:
                assert second[0] == 3
                assert first[16] == 3
