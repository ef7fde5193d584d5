"""Memory instructions that the pseudocode leaves open: scalar loads, direct-to-LDS loads, transposed reads, bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tests.aot.emulator.oracle.engines import ARCHITECTURES, ENGINES, table_names, table_targets
from tests.aot.emulator.oracle.machine import (
    ALL_LANES,
    LANES,
    LaneCase,
    WaveCase,
    Words,
    run_lane_cases,
    run_wave_cases,
)

RESOURCE = "s_mov_b32 s28, {low}\ns_and_b32 s29, {high}, 0xffff\ns_mov_b32 s30, {size}\ns_mov_b32 s31, 0x27000"


def random_planes(case: LaneCase, groups: int = 2) -> Words:
    rng = np.random.default_rng([51, *case.key.encode()])
    return rng.integers(0, 1 << 32, (groups, case.planes_in, LANES), dtype=np.uint32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_scalar_loads(arch: str, engine: str) -> None:
    """s_load and s_buffer_load of every width and offset form; behind num_records a buffer reads 0."""
    rng = np.random.default_rng(52)
    cases, wanted = [], []
    for count in (1, 2, 4, 8, 16):
        name = "dword" if count == 1 else f"dwordx{count}"
        target = "s60" if count == 1 else f"s[60:{59 + count}]"
        skip = 16 - count
        wait = "\ns_waitcnt lgkmcnt(0)"
        cases.append(WaveCase(f"load{count}", f"s_load_{name} {target}, s[4:5], {4 * skip:#x}{wait}", 16, count))
        wanted.append((skip, count, 16))
        text = f"s_mov_b32 s20, {4 * skip}\ns_load_{name} {target}, s[4:5], s20{wait}"
        cases.append(WaveCase(f"load{count}s", text, 16, count))
        wanted.append((skip, count, 16))
        for records in (16, 4):
            setup = RESOURCE.format(low="s4", high="s5", size=4 * records)
            text = f"{setup}\ns_buffer_load_{name} {target}, s[28:31], 0x8{wait}"
            cases.append(WaveCase(f"buffer{count}of{records}", text, 18, count))
            wanted.append((2, count, records))
    operands = [rng.integers(0, 1 << 32, (3, case.inputs), dtype=np.uint32) for case in cases]
    results = run_wave_cases(arch, cases, operands, engine=engine)
    for case, (first, count, records), given, got in zip(cases, wanted, operands, results, strict=True):
        memory = given.copy()
        if case.key.startswith("buffer"):
            memory[:, records:] = 0
        assert np.array_equal(got, memory[:, first : first + count]), case.key


#: dword of LDS, and how the loaded bytes fill it, by the suffix of a direct-to-LDS load.
TO_LDS: dict[str, tuple[int, Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint32]]]] = {
    "dword": (1, lambda words: words),
    "dwordx3": (3, lambda words: words),
    "dwordx4": (4, lambda words: words),
    "ubyte": (1, lambda words: words & np.uint32(0xFF)),
    "ushort": (1, lambda words: words & np.uint32(0xFFFF)),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("form", ["global", "buffer"])
def test_loads_to_lds(arch: str, engine: str, form: str) -> None:
    """Lane i's data lands at M0 + offset + i * size, wherever in memory it comes from; EXEC keeps lanes out."""
    cases, widths = [], []
    for suffix, (dwords, _) in TO_LDS.items():
        name = f"{form}_load_lds_{suffix}" if form == "global" else f"buffer_load_{suffix}"
        table_name = f"{form}_load_lds_{suffix}"
        if table_name not in table_names() or arch not in table_targets(table_name):
            continue
        # Every lane reads the region of another: lane i ^ 21. Regions are 16 bytes, in the result buffer; the offset of
        # the instruction counts in memory and in LDS.
        setup = ["v_xor_b32_e32 v2, 84, v0", "v_lshlrev_b32_e32 v2, 2, v2", "v_lshlrev_b32_e32 v3, 2, v0"]
        setup += [f"global_store_dword v3, v{4 + i}, s[6:7] offset:{16 + 4 * i}" for i in range(4)]
        setup += ["v_mov_b32_e32 v30, 0", f"v_mul_u32_u24_e32 v31, {dwords}, v0"]
        setup += [f"ds_write_b32 v31, v30 offset:{64 + 4 * i}" for i in range(dwords)]
        setup += [RESOURCE.format(low="s6", high="s7", size=4096), "s_mov_b32 m0, 48"]
        setup += ["s_waitcnt vmcnt(0) lgkmcnt(0)"]
        address = "v2, s[6:7] offset:16" if form == "global" else "v2, s[28:31], 0 offen offset:16 lds"
        teardown = [f"ds_read_b32 v{16 + i}, v31 offset:{64 + 4 * i}" for i in range(dwords)]
        # Further planes only make the result buffer large enough for the regions.
        teardown += [f"v_mov_b32_e32 v{40 + i}, 0" for i in range(5)]
        cases.append(
            LaneCase(
                key=name, text=f"{name} {address}\ns_waitcnt vmcnt(0)", sources=(4,), result=dwords, extra=5,
                setup="\n".join(setup), teardown="\n".join([*teardown, "s_waitcnt lgkmcnt(0)"]),
            )
        )  # fmt: skip
        widths.append((suffix, dwords))
    assert cases
    masks = [ALL_LANES, 0x0F0F_FFFF_0000_00FF]
    planes = [random_planes(case) for case in cases]
    results = run_lane_cases(arch, cases, planes, masks, engine=engine, lds_bytes=4096)
    lanes = np.arange(LANES)
    for case, (suffix, dwords), given, got in zip(cases, widths, planes, results, strict=True):
        for group, mask in enumerate(masks):
            active = (np.uint64(mask) >> lanes.astype(np.uint64)) & np.uint64(1)
            moved = TO_LDS[suffix][1](given[group, :dwords][:, lanes ^ 21])
            assert np.array_equal(got[group, :dwords], np.where(active, moved, 0)), case.key


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("bits", "name"), [(16, "ds_read_b64_tr_b16"), (8, "ds_read_b64_tr_b8")])
def test_transposed_reads(bits: int, name: str, engine: str) -> None:
    """Sixteen lanes read rows of 16 elements, several lanes to a row, and each gets a column (gfx950)."""
    per_lane = 64 // bits
    wait = "\ns_waitcnt lgkmcnt(0)"
    setup = "v_lshlrev_b32_e32 v2, 1, v0\nds_write_b64 v2, v[4:5]\ns_waitcnt lgkmcnt(0)"
    case = LaneCase(key=name, text=f"{name} v[16:17], v2{wait}", sources=(2,), result=2, setup=setup)
    planes = random_planes(case, 1)
    (got,) = run_lane_cases("gfx950", [case], [planes], [ALL_LANES], engine=engine, lds_bytes=512)
    kind = np.uint16 if bits == 16 else np.uint8
    elements = np.ascontiguousarray(planes[0, :2].T).view(kind).reshape(4, 16, per_lane)
    read = np.ascontiguousarray(got[0, :2].T).view(kind).reshape(4, 16, per_lane)
    rows = elements.reshape(4, per_lane, 16)
    assert np.array_equal(read, rows.transpose(0, 2, 1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_buffer_bounds(arch: str, engine: str) -> None:
    """Raw buffers: a load behind num_records gives 0, a store or atomic there does nothing; offsets add up."""
    size = 4 * 40
    setup = RESOURCE.format(low="s6", high="s7", size=size) + "\nv_mov_b32_e32 v2, v0\ns_mov_b32 s33, 8"
    fill = "\nglobal_store_dword v0, v4, s[6:7]\nglobal_store_dword v0, v8, s[6:7] offset:256\ns_waitcnt vmcnt(0)"
    wait = "\ns_waitcnt vmcnt(0)"
    back = f"global_load_dword v40, v0, s[6:7]{wait}"
    operation = "v2, s[28:31], s33 offen offset:4"
    texts = {
        "load": f"buffer_load_dword v16, {operation}",
        "store": f"buffer_store_dword v12, {operation}",
        "atomic": f"buffer_atomic_add v12, {operation}",
    }
    cases = [
        LaneCase(key=key, text=text + wait, sources=(1, 1, 1), result=1, setup=setup + fill, teardown=back, extra=1)
        for key, text in texts.items()
    ]
    planes = [random_planes(case, 1) for case in cases]
    results = run_lane_cases(arch, cases, planes, [ALL_LANES], engine=engine)
    for case, given, got in zip(cases, planes, results, strict=True):
        memory = np.concatenate([given[0, 0], given[0, 1]])
        result, after = given[0, 3].copy(), memory.copy()
        for lane in range(LANES):
            at = lane + 3
            if case.key == "load":
                result[lane] = memory[at] if at < size // 4 else 0
            elif at < size // 4:
                added = int(memory[at]) + int(given[0, 2, lane]) & 0xFFFFFFFF
                after[at] = given[0, 2, lane] if case.key == "store" else added
        assert np.array_equal(got[0, 0], result), case.key
        assert np.array_equal(got[0, 1], after[:LANES]), case.key
