"""NaNs of any sign, payload and kind through every float instruction: both engines give the same bits, and the rule."""

from __future__ import annotations

import numpy as np
import pytest

from tests.aot.emulator.oracle import floats, memory_cases, operand_pools
from tests.aot.emulator.oracle.compare import ULPS
from tests.aot.emulator.oracle.coverage import memory_cases_of_table, vector_cases
from tests.aot.emulator.oracle.floats import F16, F32, F64
from tests.aot.emulator.oracle.judge import on_arch
from tests.aot.emulator.oracle.lane_cases import PcodeCase
from tests.aot.emulator.oracle.machine import ALL_LANES, LANES, LaneCase, Words, run_lane_cases
from tests.aot.emulator.oracle.memory_cases import LDS_BYTES, SCRATCH_BYTES, MemoryCase
from tests.aot.emulator.oracle.own_statements import OWN_CASES

ARCH = "gfx950"
GROUPS = 1
PARTS = 3


def with_nans(rng: np.random.Generator, kind: str, words: int, count: int) -> operand_pools.Bits:
    """Operands of a type, half of whose float elements are NaNs with a random sign, quiet bit and payload."""
    drawn = operand_pools.draw(rng, kind, 32 * words, count)
    if kind not in floats.FORMATS:
        return drawn
    form = floats.FORMATS[kind]
    for low in range(0, 32 * words, form.width):
        payload = rng.integers(1, form.mantissa_mask + 1, count, dtype=np.uint64)
        sign = rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(form.width - 1)
        nan = payload | sign | np.uint64(form.infinity)
        element = np.uint64(((1 << form.width) - 1) << low)
        chosen = rng.random(count) < 0.5
        drawn = np.where(chosen, (drawn & ~element) | (nan << np.uint64(low)), drawn)
    return drawn


def planes_of(key: str, kinds: list[str], words: list[int], mask_in: bool) -> Words:
    rng = np.random.default_rng([11, *key.encode()])
    count = GROUPS * LANES
    planes = []
    for kind, number in zip(kinds, words, strict=True):
        drawn = with_nans(rng, kind, number, count) if number else np.zeros(count, np.uint64)
        planes += [(drawn >> np.uint64(32 * i)).astype(np.uint32).reshape(GROUPS, LANES) for i in range(number)]
    if mask_in:
        planes.append(rng.integers(0, 2, (GROUPS, LANES), dtype=np.uint32))
    return np.stack(planes, axis=1)


def both_engines(cases: list[LaneCase], planes: list[Words], **options: int) -> list[tuple[Words, Words]]:
    masks = [ALL_LANES] * GROUPS
    fast, slow = (
        run_lane_cases(ARCH, cases, planes, masks, engine=engine, **options)  # type: ignore[arg-type]
        for engine in ("llvm", "numpy")
    )
    return list(zip(fast, slow, strict=True))


def float_cases() -> list[tuple[str, LaneCase, list[str]]]:
    """(mnemonic, case, kinds of the sources and the result) of everything that touches a float."""
    found = [
        (case.operation.mnemonic, case.lane, [*case.source_kinds, case.result_kind])
        for case in (vector_cases()[i] for i in on_arch(ARCH, vector_cases()))
        if isinstance(case, PcodeCase)
    ]
    found += [(case.mnemonic, case.lane, [*case.kinds, case.result_kind]) for case in OWN_CASES]
    return [each for each in found if set(each[2]) & set(floats.FORMATS)]


@pytest.mark.parametrize("part", range(PARTS))
def test_engines_agree_on_every_bit(part: int) -> None:
    """All vector instructions with a float operand or result, with their modifiers."""
    chosen = float_cases()[part::PARTS]
    assert len(chosen) > 100
    planes = [planes_of(lane.key, kinds, [*lane.sources, lane.result], lane.mask_in) for _, lane, kinds in chosen]
    failures = []
    for (mnemonic, lane, kinds), given, (fast, slow) in zip(
        chosen, planes, both_engines([lane for _, lane, _ in chosen], planes), strict=True
    ):
        differ = [
            (group, column)
            for group, column in np.argwhere((fast != slow).any(axis=1)).tolist()
            if not _close(mnemonic, kinds[-1], fast[group, :, column], slow[group, :, column])
        ]
        if differ:
            group, column = differ[0]
            shown = [[f"{word:x}" for word in part_[group, :, column].tolist()] for part_ in (given, fast, slow)]
            failures.append(f"{lane.text}: {len(differ)} lanes, operands {shown[0]}: llvm {shown[1]} numpy {shown[2]}")
    assert not failures, "\n".join(failures)


def _close(mnemonic: str, kind: str, fast: Words, slow: Words) -> bool:
    """Numbers of an approximation may differ by the last place, as two hosts' libraries do; NaNs may not."""
    if mnemonic not in ULPS or kind not in floats.FORMATS:
        return False
    form = floats.FORMATS[kind]
    mask = (1 << form.width) - 1
    a, b = (sum(int(word) << 32 * i for i, word in enumerate(words)) & mask for words in (fast, slow))
    return not floats.is_nan(form, a) and not floats.is_nan(form, b) and floats.ulps_apart(form, a, b) <= 1


def test_engines_agree_on_float_atomics() -> None:
    """The same for atomics: what they return and what they leave."""
    every = memory_cases_of_table()
    chosen = [
        case
        for case in (every[i] for i in on_arch(ARCH, every))
        if isinstance(case, MemoryCase) and memory_cases.memory_kind(case) in floats.FORMATS
    ]
    assert len(chosen) > 20
    planes = []
    for case in chosen:
        drawn = memory_cases.operands(case, GROUPS, 11)
        form = floats.FORMATS[memory_cases.memory_kind(case)]
        hit = np.random.default_rng([12, *case.lane.key.encode()]).random(drawn.shape) < 0.3
        # An exponent of all ones over any mantissa, in every element; that of an f64 is in its upper word.
        ones = form.infinity >> 32 if form.width == 64 else form.infinity * (1 | (form.width == 16) << 16)
        hit[:, 0::2] &= form.width != 64
        planes.append(np.where(hit, drawn | np.uint32(ones), drawn))
    failures = [
        case.lane.text
        for case, (fast, slow) in zip(
            chosen,
            both_engines([case.lane for case in chosen], planes, lds_bytes=LDS_BYTES, scratch_bytes=SCRATCH_BYTES),
            strict=True,
        )
        if not np.array_equal(fast, slow)
    ]
    assert not failures


ARITHMETIC = {
    f"v_{name}_{form.name}{'' if name == 'fma' or form is F64 else '_e64'}": (form, count)
    for form in (F16, F32, F64)
    for name, count in (("add", 2), ("mul", 2), ("sub", 2), ("fma", 3))
    if not (name == "sub" and form is F64)
}


@pytest.mark.parametrize("engine", ["llvm", "numpy"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_first_nan_is_the_result(name: str, engine: str) -> None:
    """Sums and products: the first operand that is a NaN, made quiet; of none, an invalid operation's negative one."""
    form, count = ARITHMETIC[name]
    words = form.width // 32 or 1
    registers = [f"v{r}" if words == 1 else f"v[{r}:{r + 1}]" for r in (16, 4, 8, 12)[: count + 1]]
    lane = LaneCase(key=name, text=f"{name} {', '.join(registers)}", sources=(words,) * count, result=words)
    planes = planes_of(name, [form.name] * (count + 1), [words] * (count + 1), False)
    (got,) = run_lane_cases("gfx942", [lane], [planes], [ALL_LANES] * GROUPS, engine=engine)
    nans = 0
    for group, column in np.ndindex(GROUPS, LANES):
        bits = [
            sum(int(planes[group, words * i + w, column]) << 32 * w for w in range(words)) & ((1 << form.width) - 1)
            for i in range(count)
        ]
        result = sum(int(got[group, w, column]) << 32 * w for w in range(words)) & ((1 << form.width) - 1)
        first = next((b | form.quiet_bit for b in bits if floats.is_nan(form, b)), None)
        if first is not None:
            nans += 1
            assert result == first, (name, [f"{b:x}" for b in bits], f"{result:x}")
        elif floats.is_nan(form, result):
            assert result == form.quiet_nan | form.sign_bit
    assert nans > LANES // 3
