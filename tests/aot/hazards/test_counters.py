"""Missing waits are found on every path, and the same code with the wait is clean."""

from __future__ import annotations

import pytest

from aot.hazards import check_code
from aot.hazards.counters import (
    COUNTER_RULES,
    DIRECT_AT_BARRIER,
    DIRECT_AT_END,
    DIRECT_OVERTAKEN,
    IN_FLIGHT,
    LDS_AT_BARRIER,
    TILE_RULES,
)
from aot.hazards.exec_mask import EXEC_RULES, PARTIAL_BARRIER, PARTIAL_TRANSPOSE
from tests.aot.emulator.program_text import program

_LOAD = "buffer_load_dword v5, v1, s[8:11], 0 offen"
_OTHER = "buffer_load_dword v6, v1, s[8:11], 0 offen"
_DIRECT = "s_mov_b32 m0, 0; s_nop 0; buffer_load_dword v1, s[8:11], 0 offen lds"
_END = "s_waitcnt vmcnt(0) lgkmcnt(0)"
VM_0, LGKM_0, NOP, BACK = (
    "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_nop 0", "s_or_b64 exec, exec, s[20:21]",
)  # fmt: skip
_IF = "v_cmp_gt_u32 vcc, 9, v0; s_and_saveexec_b64 s[20:21], vcc"

#: (rule, code with WAIT where the fault is planted, what WAIT is in the faulty code, and in the clean one)
FAULTS = (
    (IN_FLIGHT, f"{_LOAD}; WAIT; v_mov_b32 v7, v5", NOP, VM_0),
    (IN_FLIGHT, f"{_LOAD}; WAIT; v_mov_b32 v5, 0", NOP, VM_0),
    (IN_FLIGHT, f"{_LOAD}; WAIT; buffer_store_dword v5, v1, s[8:11], 0 offen", LGKM_0, VM_0),
    (IN_FLIGHT, f"{_LOAD}; {_OTHER}; WAIT; v_mov_b32 v7, v5", "s_waitcnt vmcnt(2)", "s_waitcnt vmcnt(1)"),
    (IN_FLIGHT, f"{_OTHER}; {_LOAD}; WAIT; v_mov_b32 v7, v5", "s_waitcnt vmcnt(1)", VM_0),
    # A store counts too, so the load may be waited for with one store behind it.
    (IN_FLIGHT, f"{_LOAD}; buffer_store_dword v1, v1, s[8:11], 0 offen; WAIT; v_mov_b32 v7, v5",
     "s_waitcnt vmcnt(2)", "s_waitcnt vmcnt(1)"),
    (IN_FLIGHT, "buffer_atomic_add v5, v1, s[8:11], 0 offen sc0; WAIT; v_mov_b32 v7, v5", NOP, VM_0),
    (IN_FLIGHT, "ds_read_b32 v5, v1; WAIT; v_mov_b32 v7, v5", NOP, LGKM_0),
    (IN_FLIGHT, "ds_read_b64_tr_b16 v[4:5], v1; WAIT; v_mov_b32 v7, v5", NOP, LGKM_0),
    (IN_FLIGHT, "ds_read_b32 v5, v1; ds_write_b32 v1, v2; WAIT; v_mov_b32 v7, v5",
     "s_waitcnt lgkmcnt(2)", "s_waitcnt lgkmcnt(1)"),
    (IN_FLIGHT, "ds_bpermute_b32 v5, v1, v2; WAIT; v_mov_b32 v7, v5", VM_0, LGKM_0),
    # Scalar loads come in any order: only zero will do.
    (IN_FLIGHT, "s_load_dword s20, s[0:1], 0x0; s_load_dword s21, s[0:1], 0x4; WAIT; s_mov_b32 s22, s20",
     "s_waitcnt lgkmcnt(1)", LGKM_0),
    (IN_FLIGHT, "s_memtime s[20:21]; WAIT; s_mov_b32 s22, s20", NOP, LGKM_0),
    # Flat accesses count in both counters.
    (IN_FLIGHT, "flat_load_dword v5, v[10:11]; WAIT; v_mov_b32 v7, v5", VM_0, _END),
    (IN_FLIGHT, "flat_load_dword v5, v[10:11]; WAIT; v_mov_b32 v7, v5", LGKM_0, _END),
    # On one path only, and around a back edge only.
    (IN_FLIGHT, f"{_LOAD}; s_cbranch_scc0 1f; WAIT; v_mov_b32 v7, v5", f"{VM_0}; 1: s_nop 0", f"1: {VM_0}"),
    (IN_FLIGHT, f"1: v_mov_b32 v7, v5; {_LOAD}; WAIT; s_cbranch_scc0 1b", NOP, VM_0),
    # Paths with another number of younger loads: the fewest count.
    (IN_FLIGHT, f"{_LOAD}; s_cbranch_scc0 1f; {_OTHER}; 1: WAIT; v_mov_b32 v7, v5", "s_waitcnt vmcnt(1)", VM_0),
    (LDS_AT_BARRIER, "ds_write_b32 v1, v2; WAIT; s_barrier", NOP, LGKM_0),
    (LDS_AT_BARRIER, "ds_read_b32 v5, v1; WAIT; s_barrier", NOP, LGKM_0),
    (LDS_AT_BARRIER, "ds_add_u32 v1, v2; WAIT; s_barrier", VM_0, LGKM_0),
    (LDS_AT_BARRIER, "1: s_barrier; ds_write_b32 v1, v2; WAIT; s_cbranch_scc0 1b", NOP, LGKM_0),
    (LDS_AT_BARRIER, "WAIT",
     "s_waitcnt lgkmcnt(0); ds_write_b32 v1, v2; s_barrier", "ds_write_b32 v1, v2; s_waitcnt lgkmcnt(0); s_barrier"),
    (DIRECT_AT_BARRIER, f"{_DIRECT}; WAIT; s_barrier; ds_read_b32 v5, v1", NOP, VM_0),
    (DIRECT_AT_BARRIER, f"{_DIRECT}; {_DIRECT}; WAIT; s_barrier; ds_read_b32 v5, v1", "s_waitcnt vmcnt(1)", VM_0),
    (DIRECT_OVERTAKEN, f"{_DIRECT}; ds_read_b32 v5, v1; WAIT; {_DIRECT}; ds_read_b32 v6, v1", NOP, VM_0),
    (DIRECT_AT_END, f"{_DIRECT}; WAIT; s_endpgm", NOP, VM_0),
    (PARTIAL_BARRIER, f"{_IF}; v_mov_b32 v7, 0; WAIT; s_barrier", NOP, BACK),
    (PARTIAL_BARRIER, f"{_IF}; s_cbranch_execz 1f; WAIT; 1: s_or_b64 exec, exec, s[20:21]", "s_barrier", NOP),
    # if and else: the saved mask is what is left, and comes back at the end.
    (PARTIAL_BARRIER, f"{_IF}; s_xor_b64 s[20:21], exec, s[20:21]; "
     "s_andn2_saveexec_b64 s[20:21], s[20:21]; WAIT; s_barrier",
     NOP, BACK),
    (PARTIAL_BARRIER, f"{_IF}; s_xor_b64 s[20:21], exec, s[20:21]; s_or_saveexec_b64 s[22:23], s[20:21]; "
     "s_xor_b64 exec, exec, s[22:23]; WAIT; s_barrier", NOP, "s_or_b64 exec, exec, s[22:23]"),
    # A loop that lanes leave one by one.
    (PARTIAL_BARRIER, "s_mov_b64 s[20:21], 0; 1: v_cmp_gt_u32 vcc, 9, v0; s_or_b64 s[20:21], vcc, s[20:21]; "
     "s_andn2_b64 exec, exec, s[20:21]; s_cbranch_execnz 1b; WAIT; s_barrier", NOP, BACK),
    # Nested: the inner mask gives back the outer one only.
    (PARTIAL_BARRIER, f"{_IF}; s_and_saveexec_b64 s[22:23], vcc; s_or_b64 exec, exec, s[22:23]; WAIT; s_barrier",
     NOP, BACK),
    # What was saved is overwritten.
    (PARTIAL_BARRIER, f"{_IF}; WAIT; s_or_b64 exec, exec, s[20:21]; s_barrier", "s_mov_b64 s[20:21], vcc", NOP),
    (PARTIAL_BARRIER, "WAIT; s_barrier", "v_cmpx_eq_u32_e32 vcc, v1, v2", "s_mov_b64 exec, -1"),
    (PARTIAL_TRANSPOSE, f"{_IF}; WAIT; ds_read_b64_tr_b16 v[4:5], v1", NOP, "s_mov_b64 exec, s[20:21]"),
)  # fmt: skip


def test_every_rule_has_a_planted_fault_and_a_source() -> None:
    """A rule that no planted fault breaks shows nothing."""
    rules = dict([*COUNTER_RULES, *TILE_RULES, *EXEC_RULES])
    assert {rule for rule, *_ in FAULTS} == set(rules)
    assert all(rules.values())


@pytest.mark.parametrize(("rule", "body", "faulty", "clean"), FAULTS)
def test_planted_faults(rule: str, body: str, faulty: str, clean: str) -> None:
    """The faulty code gives exactly findings of the rule, its clean twin none."""
    assert {finding.rule for finding in check_code(program(f"{body.replace('WAIT', faulty)}; {_tail(rule)}"), 64)} == {
        rule
    }
    findings = check_code(program(f"{body.replace('WAIT', clean)}; {_END}"), 64)
    assert not findings, findings


def _tail(rule: str) -> str:
    return "s_nop 0" if rule == DIRECT_AT_END else _END


def test_a_wave_that_starts_in_part_has_no_full_exec() -> None:
    """Workgroups of 96 threads: lanes of the second wave are off from the start."""
    code = program("s_barrier")
    assert not check_code(code, 128)
    assert {finding.rule for finding in check_code(code, 96)} == {PARTIAL_BARRIER}


def test_foreign_kernels_are_not_held_to_our_order_of_tiles() -> None:
    """They may keep loads to LDS in flight over a barrier, but not to the end."""
    code = program(f"{_DIRECT}; s_barrier; ds_read_b32 v5, v1; s_nop 0")
    assert {finding.rule for finding in check_code(code, 64)} == {DIRECT_AT_BARRIER, DIRECT_AT_END}
    assert {finding.rule for finding in check_code(code, 64, foreign=True)} == {DIRECT_AT_END}


def test_sixty_four_loads_in_flight() -> None:
    """More operations than the counter holds: a wait for 63 completes the oldest."""
    loads = "; ".join([_LOAD, *[f"buffer_load_dword v{10 + i}, v1, s[8:11], 0 offen" for i in range(40)]])
    many = "; ".join(["buffer_store_dword v1, v1, s[8:11], 0 offen"] * 24)
    assert check_code(program(f"{loads}; {many}; v_mov_b32 v7, v5; {_END}"), 64)
    assert not check_code(program(f"{loads}; {many}; s_waitcnt vmcnt(63); v_mov_b32 v7, v5; {_END}"), 64)
