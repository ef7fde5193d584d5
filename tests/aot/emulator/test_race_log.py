"""The log of LDS accesses that races are searched in never ends a run, however long an interval between barriers is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from aot.emulator import Report
from aot.emulator.state import layout
from tests.aot.emulator.program_text import program, run_program
from tests.aot.emulator.test_sanitizer import CASES, STORE

TURNS = layout.LOG_RECORDS // 2 + 100
BUDGET = 10_000_000


def _run(body: str, threads: int, seed: int = 0) -> tuple[Report, npt.NDArray[np.uint32]]:
    data = np.arange(128, dtype=np.uint32)
    report = run_program(program(body + "\n" + STORE), data, threads=threads, seed=seed, budget=BUDGET)
    return report, data


def _loop(body: str, turns: int = TURNS) -> str:
    return f"""
    s_mov_b32 s20, {turns}
    .Lloop:
    {body}
    s_sub_u32 s20, s20, 1
    s_cmp_lg_u32 s20, 0
    s_cbranch_scc1 .Lloop
    """


STEP = "ds_write_b32 v1, v5; ds_read_b32 v5, v1; s_waitcnt lgkmcnt(0); v_add_u32_e32 v5, 1, v5;"
CROSS = "v_mov_b32_e32 v5, v0; v_xor_b32_e32 v2, 0x100, v1; ds_write_b32 v1, v0; s_waitcnt lgkmcnt(0); s_barrier;"


@pytest.mark.parametrize("threads", [64, 128])
def test_long_intervals_are_clean(threads: int) -> None:
    """More accesses than the log holds, by one wave or by two that keep apart, are no fault; the sums are right."""
    report, data = _run("v_mov_b32_e32 v5, v0;" + _loop(STEP), threads)
    assert not report.faults
    assert np.array_equal(data[:threads], np.arange(threads) + TURNS)


@pytest.mark.parametrize("seed", range(4))
def test_race_with_a_folded_access_is_found(seed: int) -> None:
    """A wave that reads or overwrites what the other one wrote, or read, long before in the same interval."""
    for late in ("ds_read_b32 v6, v2;", "ds_write_b32 v2, v5;", "ds_add_u32 v2, v5;"):
        for early in ("ds_write_b32 v1, v5;", "ds_read_b32 v6, v1;", "ds_add_u32 v1, v5;"):
            if early[:6] == late[:6] and "write" not in early:
                continue  # Reads do not race with reads, nor atomics with atomics.
            work = "v_lshlrev_b32_e32 v3, 2, v0; v_add_u32_e32 v3, 0x200, v3; v_add_u32_e32 v5, 7, v5;" + early
            work += _loop(STEP.replace("v1", "v3"), TURNS)
            report, _ = _run(CROSS + work + late + "s_waitcnt lgkmcnt(0);", 128, seed)
            assert [fault.kind for fault in report.faults] == ["LDS race"], (early, late)


def test_atomics_of_long_intervals_do_not_race() -> None:
    """Folded atomics of two waves on one cell are no race with each other."""
    body = "v_mov_b32_e32 v2, 0; v_mov_b32_e32 v3, 1; ds_write_b32 v2, v2; s_waitcnt lgkmcnt(0); s_barrier;"
    body += _loop("ds_add_u32 v2, v3; s_waitcnt lgkmcnt(0);")
    report, data = _run(body + "s_barrier; ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0);", 128)
    assert not report.faults
    assert np.array_equal(data, np.full(128, 128 * TURNS))


def test_folded_access_still_outstanding_at_a_barrier_races() -> None:
    """Folding keeps what no wait has completed: it reaches into the interval behind the barrier."""
    body = "v_lshlrev_b32_e32 v3, 2, v0; v_add_u32_e32 v3, 0x200, v3; ds_write_b32 v3, v0; s_waitcnt lgkmcnt(0);"
    # Vector-memory waits complete in order, so the direct load stays outstanding through a loop of LDS accesses.
    direct = "v_readfirstlane_b32 s21, v1; s_mov_b32 m0, s21; global_load_lds_dword v1, s[2:3];"
    loop = _loop(STEP.replace("v1", "v3"))
    barrier = "s_barrier; ds_read_b32 v5, v2; s_waitcnt lgkmcnt(0); s_waitcnt vmcnt(0);"
    late, _ = _run(CROSS + body + direct + loop + barrier, 128)
    assert [fault.kind in ("LDS race", "LDS read in flight") for fault in late.faults] == [True]
    done, data = _run(CROSS + body + direct + loop + "s_waitcnt vmcnt(0);" + barrier, 128)
    assert not done.faults
    assert np.array_equal(data, np.arange(128) ^ 64)


@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_short_logs_judge_alike(name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a log that is folded at every access or so, the same programs are faulty and the same are clean."""
    monkeypatch.setattr(layout, "FOLD_AT", room)
    kind, _, faulty, repaired, threads = CASES[name]
    for body, expected in ((faulty, [kind]), (repaired, [])):
        data = np.arange(256, dtype=np.uint32)[: 256 if threads > 64 else 128]
        report = run_program(program(body + "\n" + STORE), data, threads=threads, seed=room)
        assert [fault.kind for fault in report.faults] == expected
