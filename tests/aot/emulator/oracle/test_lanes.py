"""Instructions that look across lanes or select parts of registers: DPP, SDWA, op_sel, permutes, lane reads and swaps.

Each is stated here as an index map or a bit selection over a whole wave; what the selected operands then compute comes
from the pseudocode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from tests.aot.emulator.oracle import lane_cases, pcode_run
from tests.aot.emulator.oracle.compare import wrong_lanes
from tests.aot.emulator.oracle.engines import ARCHITECTURES, ENGINES
from tests.aot.emulator.oracle.floats import F32, is_nan
from tests.aot.emulator.oracle.lane_cases import PcodeCase
from tests.aot.emulator.oracle.machine import ALL_LANES, LANES, MASK_OUT, LaneCase, Words, run_lane_cases
from tests.aot.emulator.oracle.pcode_table import operations
from tests.aot.emulator.oracle.pcode_values import Cell, Environment, u32

MASKS = (ALL_LANES, 0xFFFF_0000_FFFF_FFFE, 0x0123_4567_89AB_CDEF, 0x8000_0000_0000_0001)
Wave = npt.NDArray[np.uint32]
#: Result of a wave from its sources, old result and EXEC.
WaveStatement = Callable[[list[Wave], Wave, int], Wave]


def active(mask: int) -> npt.NDArray[np.bool_]:
    return np.array([mask >> lane & 1 for lane in range(LANES)], bool)


def random_planes(case: LaneCase, seed: int) -> Words:
    rng = np.random.default_rng([seed, *case.key.encode()])
    return rng.integers(0, 1 << 32, (len(MASKS), case.planes_in, LANES), dtype=np.uint32)


def check_waves(arch: str, engine: str, stated: Sequence[tuple[LaneCase, WaveStatement]], planes: list[Words]) -> None:
    """Runs cases whose only output is one result plane and compares whole waves."""
    results = run_lane_cases(arch, [case for case, _ in stated], planes, MASKS, engine=engine)
    failures = []
    for (case, statement), given, got in zip(stated, planes, results, strict=True):
        for group, mask in enumerate(MASKS):
            sources = list(given[group, : len(case.sources)])
            want = statement(sources, given[group, len(case.sources)], mask)
            bad = np.flatnonzero(got[group, 0] != want)
            if len(bad):
                shown = f"got {got[group, 0, bad[0]]:#x} want {want[bad[0]]:#x}"
                failures.append(f"{case.text} mask {mask:#x} lanes {bad.tolist()} {shown}")
                break
    assert not failures, "\n".join(failures)


# ---- DPP: the lane that each lane reads, -1 where there is none

DPP: dict[str, Callable[[int], int]] = {
    "quad_perm:[1,0,3,2]": lambda i: i & ~3 | (1, 0, 3, 2)[i & 3],
    "quad_perm:[3,3,0,1]": lambda i: i & ~3 | (3, 3, 0, 1)[i & 3],
    "row_shl:1": lambda i: i + 1 if i % 16 < 15 else -1,
    "row_shl:5": lambda i: i + 5 if i % 16 < 11 else -1,
    "row_shr:1": lambda i: i - 1 if i % 16 >= 1 else -1,
    "row_shr:15": lambda i: i - 15 if i % 16 >= 15 else -1,
    "row_ror:3": lambda i: i & ~15 | (i - 3) & 15,
    "row_ror:8": lambda i: i & ~15 | (i - 8) & 15,
    "wave_shl:1": lambda i: i + 1 if i < 63 else -1,
    "wave_rol:1": lambda i: (i + 1) % 64,
    "wave_shr:1": lambda i: i - 1,
    "wave_ror:1": lambda i: (i - 1) % 64,
    "row_mirror": lambda i: i ^ 15,
    "row_half_mirror": lambda i: i ^ 7,
    "row_bcast:15": lambda i: (i & ~15) - 1,
    "row_bcast:31": lambda i: 31 if i >= 32 else -1,
    "row_newbcast:5": lambda i: i & ~15 | 5,
}  # fmt: skip


def dpp(
    control: str, row_mask: int, bank_mask: int, bound_zero: bool, compute: Callable[[int, int], int]
) -> WaveStatement:
    """The first source through the lane map. A lane that is masked, or that has no source, keeps its result.

    A source lane that is off counts as none; with bound_ctrl the lane then reads 0 instead.
    """

    def statement(sources: list[Wave], old: Wave, mask: int) -> Wave:
        result = old.copy()
        for lane in range(LANES):
            if not (mask >> lane & 1 and row_mask >> lane // 16 & 1 and bank_mask >> lane % 16 // 4 & 1):
                continue
            source = DPP[control](lane)
            valid = source >= 0 and bool(mask >> source & 1)
            if not (valid or bound_zero):
                continue
            first = int(sources[0][source]) if valid else 0
            result[lane] = compute(first, int(sources[1][lane])) & 0xFFFFFFFF
        return result

    return statement


def dpp_cases() -> list[tuple[LaneCase, WaveStatement]]:
    found = []
    for control in DPP:
        for row_mask, bank_mask, zero in ((15, 15, True), (15, 15, False), (0b1010, 15, False), (15, 0b0110, True)):
            tail = f"{control} row_mask:{row_mask:#x} bank_mask:{bank_mask:#x}" + (" bound_ctrl:0" if zero else "")
            for text, compute in (
                ("v_mov_b32_dpp v16, v4", lambda a, _b: a),
                ("v_sub_u32_dpp v16, v4, v8", lambda a, b: a - b),
            ):
                case = LaneCase(key=f"{text} {tail}", text=f"{text} {tail}", sources=(1, 1), result=1)
                found.append((case, dpp(control, row_mask, bank_mask, zero, compute)))
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_dpp(arch: str, engine: str) -> None:
    """Every DPP control with row and bank masks, with and without bound_ctrl, under ragged EXEC masks."""
    stated = dpp_cases()
    check_waves(arch, engine, stated, [random_planes(case, 31) for case, _ in stated])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_dpp_in_place(arch: str, engine: str) -> None:
    """When the destination is the source, every lane reads what was there before the instruction."""
    stated = []
    for control in DPP:
        text = f"v_add_u32_dpp v16, v16, v8 {control} row_mask:0xf bank_mask:0xf"
        case = LaneCase(key=text, text=text, sources=(1, 1), result=1)
        inner = dpp(control, 15, 15, False, lambda a, b: a + b)
        stated.append((case, lambda s, old, mask, inner=inner: inner([old, s[1]], old, mask)))
    check_waves(arch, engine, stated, [random_planes(case, 32) for case, _ in stated])


# ---- permutes and lane access


def bpermute(sources: list[Wave], old: Wave, mask: int, offset: int = 0) -> Wave:
    """Lane i reads the data of lane (address + offset) / 4; a lane that is off supplies 0."""
    lanes = (sources[0].astype(np.int64) + offset) // 4 % LANES
    values = np.where(active(mask), sources[1], np.uint32(0))[lanes]
    return np.where(active(mask), values, old).astype(np.uint32)


def permute(sources: list[Wave], old: Wave, mask: int) -> Wave:
    """Lane i sends its data to lane address / 4; the highest sender wins, a lane without one gets 0."""
    received = np.zeros(LANES, np.uint32)
    for lane in np.flatnonzero(active(mask)):
        received[int(sources[0][lane]) // 4 % LANES] = sources[1][lane]
    return np.where(active(mask), received, old).astype(np.uint32)


def swizzle(pattern: int) -> WaveStatement:
    """Quad mode (bit 15): the four lanes of a quad by two bits each; else within 32: (i & and | or) ^ xor."""

    def source(lane: int) -> int:
        if pattern & 0x8000:
            return lane & ~3 | pattern >> 2 * (lane & 3) & 3
        within = (lane & 31 & (pattern & 31) | pattern >> 5 & 31) ^ (pattern >> 10 & 31)
        return lane & 32 | within

    def statement(sources: list[Wave], old: Wave, mask: int) -> Wave:
        on = active(mask)
        lanes = np.array([source(lane) for lane in range(LANES)])
        return np.where(on, np.where(on, sources[0], np.uint32(0))[lanes], old).astype(np.uint32)

    return statement


def first_lane(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_permutes_and_lane_access(arch: str, engine: str) -> None:
    """ds_permute, ds_bpermute, ds_swizzle, readlane, readfirstlane and writelane under ragged masks."""
    wait = "\ns_waitcnt lgkmcnt(0)"
    spread = "v_mov_b32_e32 v16, s30"

    def case(text: str, sources: tuple[int, ...], teardown: str = "") -> LaneCase:
        return LaneCase(key=text, text=text, sources=sources, result=1, teardown=teardown)

    def everywhere(value: int) -> Wave:
        return np.full(LANES, value, np.uint32)

    stated: list[tuple[LaneCase, WaveStatement]] = [
        (case(f"ds_bpermute_b32 v16, v4, v8{wait}", (1, 1)), bpermute),
        (case(f"ds_bpermute_b32 v16, v4, v8 offset:20{wait}", (1, 1)), lambda s, o, m: bpermute(s, o, m, 20)),
        (case(f"ds_permute_b32 v16, v4, v8{wait}", (1, 1)), permute),
        (case("v_readfirstlane_b32 s30, v4", (1,), spread), lambda s, _o, m: everywhere(int(s[0][first_lane(m)]))),
        (case("v_readlane_b32 s30, v4, 37", (1,), spread), lambda s, _o, _m: everywhere(int(s[0][37]))),
        (
            case("s_mov_b32 s29, 0x45\nv_readlane_b32 s30, v4, s29", (1,), spread),
            lambda s, _o, _m: everywhere(int(s[0][5])),
        ),
        (
            case("s_mov_b32 s29, 0xabcd\nv_writelane_b32 v16, s29, 9", (1,)),
            lambda _s, o, _m: np.where(np.arange(LANES) == 9, np.uint32(0xABCD), o).astype(np.uint32),
        ),
    ]
    patterns = (0x8000 | 0b00_01_10_11, 0x8000 | 0b11_11_00_10, 0x041F, 0x7C1F, 0x03E0, 0x1C15)
    stated += [(case(f"ds_swizzle_b32 v16, v4 offset:{p:#x}{wait}", (1,)), swizzle(p)) for p in patterns]
    check_waves(arch, engine, stated, [random_planes(entry, 33) for entry, _ in stated])


@pytest.mark.parametrize("engine", ENGINES)
def test_swaps_follow_the_pseudocode(engine: str) -> None:
    """v_swap, v_permlane16_swap and v_permlane32_swap exchange both registers as the manual's loops say (gfx950)."""
    for mnemonic in ("v_permlane16_swap_b32", "v_permlane32_swap_b32", "v_swap_b32"):
        text = f"{mnemonic}_e32 v16, v4" if mnemonic == "v_swap_b32" else f"{mnemonic} v16, v4"
        case = LaneCase(key=text, text=text, sources=(1,), result=1, extra=1, teardown="v_mov_b32_e32 v40, v4")
        planes = random_planes(case, 34)
        (got,) = run_lane_cases("gfx950", [case], [planes], [ALL_LANES] * len(MASKS), engine=engine)
        for group in range(len(MASKS)):
            source, old = planes[group]
            cells = [[Cell(32, int(source[i])), Cell(32, int(old[i]))] for i in range(LANES)]
            environment: Environment = {
                "VGPR": cells,
                "SRC0": u32(0),
                "VDST": u32(1),
            }
            if mnemonic == "v_swap_b32":
                want_source, want = old, source
            else:
                pcode_run.run(operations()[mnemonic, "VOP1Op"].text, environment)
                want_source, want = (np.array([row[i].bits for row in cells], np.uint32) for i in (0, 1))
            assert np.array_equal(got[group, 0], want), mnemonic
            assert np.array_equal(got[group, 1], want_source), mnemonic


@pytest.mark.parametrize("engine", ENGINES)
def test_wave_pseudocode_agrees_with_the_index_maps(engine: str) -> None:
    """The manual's loops over VGPR lanes for ds_permute and ds_bpermute say what the maps above say."""
    assert engine in ENGINES
    rng = np.random.default_rng(35)
    for mnemonic, statement in (("ds_bpermute_b32", bpermute), ("ds_permute_b32", permute)):
        sources = [rng.integers(0, 1 << 32, LANES, dtype=np.uint32) for _ in range(2)]
        old = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)
        for mask in MASKS:
            cells = [[Cell(32, int(w[i])) for w in (sources[0], sources[1], old)] for i in range(LANES)]
            environment: Environment = {
                "VGPR": cells, "ADDR": u32(0), "DATA0": u32(1), "VDST": u32(2),
                "OFFSET": u32(0), "EXEC": Cell(64, mask),
            }  # fmt: skip
            pcode_run.run(operations()[mnemonic, "DSOp"].text, environment)
            assert [row[2].bits for row in cells] == statement(sources, old, mask).tolist()


# ---- SDWA and op_sel: parts of operands around the pseudocode

SELECTIONS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16),
              "WORD_1": (16, 16), "DWORD": (0, 32)}  # fmt: skip


def selected(value: int, selection: str, *, signed: bool = False) -> int:
    low, width = SELECTIONS[selection]
    part = value >> low & ((1 << width) - 1)
    if signed and part >> (width - 1):
        part |= 0xFFFFFFFF << width & 0xFFFFFFFF
    return part


def placed(result: int, old: int, selection: str, unused: str) -> int:
    """The result put into the selected part; what is left is 0, the sign of the part (above it), or preserved."""
    low, width = SELECTIONS[selection]
    mask = (1 << width) - 1
    part = result & mask
    if unused == "UNUSED_PRESERVE":
        return old & ~(mask << low) & 0xFFFFFFFF | part << low
    if unused == "UNUSED_SEXT" and part >> (width - 1):
        return (0xFFFFFFFF << (low + width) | part << low) & 0xFFFFFFFF
    return part << low


SDWA_OPERATIONS = (
    ("v_add_u32", "VOP2Op"), ("v_lshlrev_b32", "VOP2Op"), ("v_or_b32", "VOP2Op"), ("v_mul_u32_u24", "VOP2Op"),
    ("v_add_f16", "VOP2Op"), ("v_max_f16", "VOP2Op"), ("v_mul_f32", "VOP2Op"), ("v_sub_u16", "VOP2Op"),
    ("v_mov_b32", "VOP1Op"), ("v_cvt_f32_u32", "VOP1Op"), ("v_cvt_f32_f16", "VOP1Op"), ("v_cvt_f16_f32", "VOP1Op"),
    ("v_cmp_lt_u32", "VOPCOp"), ("v_cmp_gt_i32", "VOPCOp"), ("v_cmp_eq_f16", "VOPCOp"), ("v_cmp_ne_u16", "VOPCOp"),
)  # fmt: skip
SDWA_FORMS = (
    ("BYTE_0", "UNUSED_PAD", "WORD_1", "BYTE_3", False), ("WORD_1", "UNUSED_PRESERVE", "WORD_1", "WORD_1", False),
    ("DWORD", "UNUSED_PAD", "BYTE_2", "DWORD", True), ("WORD_0", "UNUSED_PRESERVE", "DWORD", "WORD_0", False),
    ("BYTE_2", "UNUSED_SEXT", "WORD_0", "BYTE_1", True), ("WORD_1", "UNUSED_PAD", "WORD_0", "WORD_1", False),
)  # fmt: skip


def sdwa_case(
    mnemonic: str, encoding: str, form: tuple[str, str, str, str, bool]
) -> tuple[PcodeCase, tuple[str, ...]] | None:
    """An SDWA case; integer operands may be sign-extended, and float ones select words only."""
    target, unused, first, second, signed = form
    plain = lane_cases.lane_case(operations()[mnemonic, encoding], wide=True)
    assert plain is not None
    case = PcodeCase(plain, operations()[mnemonic, encoding])
    integer = all(kind[0] == "i" or kind[0] == "u" for kind in case.source_kinds)
    if not integer and ("BYTE" in first or "BYTE" in second):
        return None
    wrap = "sext({})" if signed and integer else "{}"
    sources = [wrap.format(name) for name in ("v4", "v8")[: len(plain.sources)]]
    destination = MASK_OUT if encoding == "VOPCOp" else "v16"
    text = f"{mnemonic}_sdwa {destination}, {', '.join(sources)}"
    if encoding != "VOPCOp":
        text += f" dst_sel:{target} dst_unused:{unused}"
    text += "".join(f" src{i}_sel:{name}" for i, name in enumerate((first, second)[: len(sources)]))
    mask_out = MASK_OUT if encoding == "VOPCOp" else ""
    lane = replace(plain, key=text, text=text, mask_out=mask_out)
    return replace(case, lane=lane), (target, unused, first, second, "s" if signed and integer else "")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_sdwa(arch: str, engine: str) -> None:
    """Byte and word selections of sources and results, with padding, sign extension and preservation."""
    chosen = [sdwa_case(*operation, form) for operation in SDWA_OPERATIONS for form in SDWA_FORMS]
    cases = [entry for entry in chosen if entry is not None]
    planes = [lane_cases.operands(case, 1, 36) for case, _ in cases]
    results = run_lane_cases(arch, [case.lane for case, _ in cases], planes, [ALL_LANES], engine=engine)
    failures = []
    for (case, (target, unused, first, second, sign)), given, got in zip(cases, planes, results, strict=True):
        changed = given[0].copy()
        for i, selection in enumerate((first, second)[: len(case.lane.sources)]):
            changed[i] = [selected(int(word), selection, signed=bool(sign)) for word in given[0, i]]
        want = lane_cases.expected(case, changed, ALL_LANES)
        nans = {lane for lane in range(LANES) if case.result_kind == "f32" and is_nan(F32, int(want[0, lane]))}
        if case.lane.result:
            width = case.operation.width("vdst")
            old = given[0, len(case.lane.sources)]
            # A result of 16 bits is extended like any other value that is narrower than the selected part.
            values = [int(word) & ((1 << width) - 1) for word in want[0]]
            want[0] = [placed(v, int(o), target, unused) for v, o in zip(values, old, strict=True)]
        kind = "f16" if case.result_kind == "f16" and target.startswith("WORD") else "u32"
        kind = case.result_kind if target == "DWORD" else kind
        bad = wrong_lanes(kind, case.lane.result, got[0], want)
        # The payload of an f32 NaN is free, and a part of it is no NaN any more.
        bad = [lane for lane in bad if lane not in nans]
        if bad:
            at = bad[0]
            failures.append(
                f"{case.lane.text}: {len(bad)} lanes, {[hex(int(w)) for w in given[0, :, at]]} "
                f"got {hex(int(got[0, 0, at]))} want {hex(int(want[0, at]))}"
            )
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_op_sel_of_sixteen_bit_operations(arch: str, engine: str) -> None:
    """op_sel takes the upper half of a source, and puts the result into the upper half of the destination."""
    names = ("v_fma_f16", "v_mad_u16", "v_mad_i16", "v_min3_f16", "v_max3_i16", "v_med3_u16", "v_div_fixup_f16")
    selections = (0b0001, 0b0110, 0b1000, 0b1111)
    cases, shapes = [], []
    for name in names:
        plain = lane_cases.lane_case(operations()[name, "VOP3Op"], wide=False)
        assert plain is not None
        for op_sel in selections:
            bits = ",".join(str(op_sel >> i & 1) for i in range(4))
            text = f"{plain.text} op_sel:[{bits}]"
            cases.append(PcodeCase(replace(plain, key=text, text=text), operations()[name, "VOP3Op"]))
            shapes.append(op_sel)
    planes = [lane_cases.operands(case, 1, 37) for case in cases]
    results = run_lane_cases(arch, [case.lane for case in cases], planes, [ALL_LANES], engine=engine)
    failures = []
    for case, op_sel, given, got in zip(cases, shapes, planes, results, strict=True):
        changed = given[0].copy()
        for i in range(3):
            changed[i] = given[0, i] >> (16 if op_sel >> i & 1 else 0)
        want = lane_cases.expected(case, changed, ALL_LANES)[0] & np.uint32(0xFFFF)
        old = given[0, 3]
        upper = op_sel >> 3 & 1
        whole = (old & np.uint32(0xFFFF)) | want << np.uint32(16) if upper else want
        result = got[0, 0] if upper else got[0, 0] & np.uint32(0xFFFF)
        bad = wrong_lanes(case.result_kind, 1, result[None], whole[None])
        if bad:
            at = bad[0]
            operands = [hex(int(word)) for word in given[0, :, at]]
            failures.append(f"{case.lane.text}: {operands} got {int(result[at]):#x} want {int(whole[at]):#x}")
    assert not failures, "\n".join(failures)
