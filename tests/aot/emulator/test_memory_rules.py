"""The exact rules of raw buffers and of direct loads, against statements in numpy, on both engines and
architectures."""

from __future__ import annotations

import numpy as np
import pytest

from tests.aot.emulator.program_text import program, run_program

ENGINES = ("llvm", "numpy")
WIDTHS = {"ubyte": 1, "ushort": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", WIDTHS)
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize(("records", "soffset"), [(203, 0), (204, 8), (64, 16), (4, 8), (0, 0)])
def test_loads_are_checked_per_dword(suffix: str, records: int, soffset: int, counts: bool, engine: str) -> None:
    """Lane l loads at 4*l+inst: each dword is there if it ends at or before records - soffset where soffset counts, or
    records where it does not, else 0; the address moves by soffset."""
    width, inst = WIDTHS[suffix], 4
    words = max(1, width // 4)
    registers = "v6" if words == 1 else f"v[6:{5 + words}]"
    stores = "".join(f"global_store_dword v2, v{6 + i}, s[2:3] offset:{4 * i}\n" for i in range(words))
    body = f"""
    s_movk_i32 s20, {soffset}
    s_movk_i32 s10, {records}
    buffer_load_{suffix} {registers}, v1, s[8:11], s20 offen offset:{inst}
    v_lshlrev_b32_e32 v2, 4, v0
    v_add_u32_e32 v2, 512, v2
    s_waitcnt vmcnt(0)
    {stores}
    """
    data = np.random.default_rng(7).integers(1, 256, 512 + 64 * 16).astype(np.uint8)
    before = data.copy()
    assert not run_program(program(body), data, engine=engine, scalar_counts=counts).faults
    piece, limit = min(4, width), records - soffset * counts
    for lane in range(64):
        want = np.zeros(16, np.uint8)
        for start in range(0, width, piece):
            offset = 4 * lane + inst + start
            if offset + piece <= limit:
                want[start : start + piece] = before[offset + soffset : offset + soffset + piece]
        got = data[512 + 16 * lane : 512 + 16 * lane + 4 * words]
        assert np.array_equal(got, want[: 4 * words]), lane


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("suffix", ["byte", "short", "dword", "dwordx2", "dwordx4"])
def test_stores_out_of_range_are_dropped(suffix: str, engine: str) -> None:
    """A store writes the dwords in range and drops the others, bytes beyond stay."""
    width = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx4": 16}[suffix]
    words = max(1, width // 4)
    registers = "v6" if words == 1 else f"v[6:{5 + words}]"
    moves = "".join(f"v_add_u32_e32 v{6 + i}, {i}, v1\n" for i in range(words))
    body = f"v_lshlrev_b32_e32 v2, 4, v0; s_movk_i32 s10, 513\n{moves}"
    body += f"buffer_store_{suffix} {registers}, v2, s[8:11], 0 offen"
    data = np.full(1024 + 16, 0xEE, np.uint8)
    assert not run_program(program(body), data, engine=engine).faults
    want = np.full_like(data, 0xEE)
    piece = min(4, width)
    for lane in range(64):
        row = (4 * lane + np.arange(words, dtype=np.uint32)).astype(np.uint32).view(np.uint8)
        for start in range(0, width, piece):
            if 16 * lane + start + piece <= 513:
                want[16 * lane + start : 16 * lane + start + piece] = row[start : start + piece]
    assert np.array_equal(data, want)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("kind", ["store", "atomic", "load", "lds"])
def test_scalar_offset_moves_past_the_end(kind: str, counts: bool, engine: str) -> None:
    """Where the scalar offset is left out of the range check, a lane that is in range without it reaches behind the
    buffer, and into memory that is nobody's: a fault. Where it counts, nothing happens."""
    operation = {
        "store": "buffer_store_dword v1, v1, s[8:11], s20 offen",
        "atomic": "buffer_atomic_add v1, v1, s[8:11], s20 offen",
        "load": "buffer_load_dword v5, v1, s[8:11], s20 offen",
        "lds": "s_mov_b32 m0, 0; buffer_load_dword v1, s[8:11], s20 offen lds",
    }[kind]
    data = np.zeros(64, np.uint32)
    report = run_program(program(f"s_movk_i32 s20, 16; {operation}"), data, engine=engine, scalar_counts=counts)
    assert [fault.kind for fault in report.faults] == ([] if counts else ["global access out of bounds"])
    assert all(fault.lane == 60 for fault in report.faults)


@pytest.mark.parametrize("engine", ENGINES)
def test_marks_are_out_of_range(engine: str) -> None:
    """Offsets that mark a lane, up to the last one of 32 bits, are out of range by either reading."""
    body = """
    v_bfrev_b32_e32 v2, 1
    v_bfrev_b32_e32 v3, -2
    v_mov_b32_e32 v4, -1
    s_movk_i32 s20, 8
    buffer_load_dword v5, v2, s[8:11], s20 offen offset:8
    buffer_load_dwordx2 v[6:7], v3, s[8:11], s20 offen offset:16
    buffer_load_dword v8, v4, s[8:11], s20 offen
    s_waitcnt vmcnt(0)
    v_or3_b32 v5, v5, v6, v7
    v_or_b32_e32 v5, v5, v8
    global_store_dword v1, v5, s[2:3]
    """
    for counts in (True, False):
        data = np.arange(1, 65, dtype=np.uint32)
        assert not run_program(program(body), data, engine=engine, scalar_counts=counts).faults
        assert not data.any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "operation",
    [
        "buffer_load_dword v5, v2, s[8:11], 0 offen offset:8",
        "buffer_load_ubyte v5, v2, s[8:11], 0 offen offset:4",
        "buffer_store_dwordx2 v[6:7], v2, s[8:11], 0 offen offset:4",
        "buffer_atomic_add v5, v2, s[8:11], 0 offen offset:4",
        "s_mov_b32 m0, 0; buffer_load_dword v2, s[8:11], 0 offen offset:4 lds",
    ],
)
def test_offsets_beyond_32_bits_are_a_fault(operation: str, engine: str) -> None:
    """VGPR and instruction offset are added in 32 bits before the range check: what passes them reaches the buffer's
    start, which no program means to. Inactive lanes do not count."""
    body = f"v_mov_b32_e32 v2, 4; s_mov_b64 exec, 0x20; v_mov_b32_e32 v2, -4; {{}}; {operation}"
    data = np.zeros(64, np.uint32)
    report = run_program(program(body.format("s_nop 0")), data, engine=engine)
    assert [(fault.kind, fault.lane) for fault in report.faults] == [("buffer offset beyond 32 bits", 5)]
    assert not run_program(program(body.format("s_not_b64 exec, exec")), data, engine=engine).faults


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["load", "store", "atomic", "lds"])
@pytest.mark.parametrize(
    ("word", "value", "accepted"),
    [
        ("s11", 0x00027000, True),
        ("s11", 0x00020000, True),  # another format of numbers: nothing to accesses without a format
        ("s11", 0x00027FAC, True),  # components that nobody selects
        ("s11", 0x00007000, False),  # no data format: no buffer
        ("s11", 0x00000000, False),
        ("s11", 0x00827000, False),  # ADD_TID_ENABLE
        ("s11", 0x00227000, False),  # index stride
        ("s11", 0x000A7000, False),  # user pages
        ("s11", 0x08027000, False),  # non-volatile
        ("s11", 0xC0027000, False),  # not a buffer
        ("s9", 0x00040000, False),  # stride
        ("s9", 0x80000000, False),  # swizzle
        ("s9", 0x40000000, False),  # cache swizzle
    ],
)
def test_descriptors_are_plain_raw_buffers(word: str, value: int, accepted: bool, kind: str, engine: str) -> None:
    """A descriptor that means more, or less, than a run of bytes is refused, whatever it is used for."""
    operation = {
        "store": "buffer_store_dword v1, v1, s[8:11], 0 offen",
        "atomic": "buffer_atomic_add v1, v1, s[8:11], 0 offen",
        "load": "buffer_load_dword v5, v1, s[8:11], 0 offen",
        "lds": "s_mov_b32 m0, 0; buffer_load_dword v1, s[8:11], 0 offen lds",
    }[kind]
    setting = f"s_mov_b32 s11, {value:#x}" if word == "s11" else f"s_or_b32 s9, s9, {value:#x}"
    report = run_program(program(f"{setting}; {operation}"), np.zeros(64, np.uint32), engine=engine)
    assert [fault.kind for fault in report.faults] == ([] if accepted else ["load of a bad buffer resource"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("space", ["buffer", "global"])
@pytest.mark.parametrize(
    ("suffix", "m0", "inst", "source", "right"),
    [
        ("dword", 4, 4, 0, True),
        ("dword", 2, 0, 0, False),
        ("dword", 2, 2, 0, False),
        ("dword", 0, 2, 2, False),
        ("dword", 0, 0, 2, False),
        ("dword", 0, 0, 1, False),
        ("ushort", 0, 0, 2, True),
        ("ushort", 0, 0, 1, False),
        ("ushort", 2, 0, 0, False),
        ("ubyte", 0, 0, 3, True),
        ("dwordx4", 16, 16, 4, True),
        ("dwordx4", 8, 8, 4, True),
        ("dwordx4", 8, 0, 0, False),
        ("dwordx4", 16, 0, 2, False),
        ("dwordx3", 4, 0, 4, True),
        ("dwordx3", 2, 0, 0, False),
    ],
)
def test_direct_loads_are_aligned(
    suffix: str, m0: int, inst: int, source: int, right: bool, space: str, engine: str
) -> None:
    """M0, the place in LDS and every global address are aligned; hardware drops the low bits, or does worse."""
    operation = f"buffer_load_{suffix} v2, s[8:11], 0 offen offset:{inst} lds"
    if space == "global":
        operation = f"global_load_lds_{suffix} v2, s[2:3] offset:{inst}"
    # The instruction offset moves both ends: the source alone is moved by the lane's.
    body = f"v_mov_b32_e32 v2, {64 - inst + source}; s_movk_i32 m0, {m0}; {operation}; s_waitcnt vmcnt(0)"
    report = run_program(program(body, lds=2048), np.zeros(64, np.uint32), engine=engine)
    assert [fault.kind for fault in report.faults] == ([] if right else ["misaligned direct-to-LDS load"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("arch", "suffix", "dwords"), [("gfx942", "dword", 1), ("gfx950", "dwordx3", 3), ("gfx950", "dwordx4", 4)]
)
def test_direct_loads_land_by_lane(arch: str, suffix: str, dwords: int, engine: str) -> None:
    """Lane l's bytes go to M0 + instruction offset + l*bytes; lanes out of range give zeros, inactive lanes write
    nothing."""
    size = 4 * dwords
    body = f"""
    v_mul_u32_u24_e32 v2, {size}, v0
    v_mov_b32_e32 v6, -1
    v_mov_b32_e32 v7, -1
    v_mov_b32_e32 v8, -1
    v_mov_b32_e32 v9, -1
    v_lshlrev_b32_e32 v3, 4, v0
    ds_write_b128 v3, v[6:9]
    ds_write_b128 v3, v[6:9] offset:1024
    s_waitcnt lgkmcnt(0)
    s_movk_i32 s10, {40 * size + 16}
    s_movk_i32 m0, 32
    s_mov_b32 exec_lo, 0xfffffff0
    buffer_load_{suffix} v2, s[8:11], 0 offen offset:16 lds
    s_mov_b32 exec_lo, -1
    s_waitcnt vmcnt(0)
    ds_read_b128 v[12:15], v3
    ds_read_b128 v[16:19], v3 offset:1024
    s_waitcnt lgkmcnt(0)
    global_store_dwordx4 v3, v[12:15], s[2:3] offset:0
    s_add_u32 s2, s2, 1024
    s_addc_u32 s3, s3, 0
    global_store_dwordx4 v3, v[16:19], s[2:3]
    """
    data = np.random.default_rng(8).integers(0, 256, 2048).astype(np.uint8)
    before = data.copy()
    assert not run_program(program(body, arch=arch, lds=2048), data, engine=engine).faults
    want = np.full(2048, 0xFF, np.uint8)
    for lane in range(4, 64):
        for start in range(0, size, 4):
            offset = size * lane + 16 + start
            place = 32 + 16 + size * lane + start
            want[place : place + 4] = before[offset : offset + 4] if offset + 4 <= 40 * size + 16 else 0
    assert np.array_equal(data, want)


def test_engines_agree_in_every_lane_order() -> None:
    """Results do not depend on the seed for a program whose waves only meet at barriers."""
    body = """
    v_xor_b32_e32 v2, 0x100, v1
    ds_write_b32 v1, v1
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_read_b32 v5, v2
    s_waitcnt lgkmcnt(0)
    s_lshl_b32 s12, s12, 10
    v_add_u32_e32 v1, s12, v1
    global_store_dword v1, v5, s[2:3]
    """
    results = []
    for engine in ENGINES:
        for seed in range(3):
            data = np.zeros(3 * 256, np.uint32)
            report = run_program(program(body), data, threads=256, groups=3, seed=seed, engine=engine)
            assert not report.faults
            results.append(
                (data.tobytes(), tuple(sorted(report.instructions.items())), tuple(sorted(report.executed.items())))
            )
    assert len(set(results)) == 1
