"""Memory instructions that the pseudocode covers: every lane owns a few dwords of LDS, global or scratch memory.

Each case fills the lane's region, executes the instruction under the workgroup's mask, and returns the register result
and the region. Address arithmetic of the buffer and scratch forms is stated here, the effect comes from the pseudocode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.aot.emulator.oracle import floats, operand_pools, pcode_run, pcode_values
from tests.aot.emulator.oracle.lane_cases import dwords, kind_of_source
from tests.aot.emulator.oracle.machine import LANES, LaneCase, Words, register
from tests.aot.emulator.oracle.pcode_table import Operation

#: Dwords of memory that each lane owns, loaded into v[32..] and returned from v[40..].
REGION = 8
#: What the kernels declare, in bytes: 64 regions, or 8 planes of 64 elements of 8 bytes for the stride-64 forms.
LDS_BYTES = 8 * 64 * REGION
SCRATCH_BYTES = 64
DATA, DATA2, INITIAL = 4, 8, 32
#: Written as DX10-style resource words: no swizzle, 32-bit format.
RESOURCE_FLAGS = 0x00027000


@dataclass(frozen=True)
class MemoryCase:
    """A lane case on memory. `offsets` are the instruction's; `planar` is the element size of stride-64 forms."""

    lane: LaneCase
    operation: Operation
    offsets: tuple[int, ...]
    returns: bool
    data: int
    planar: int = 0


def cases(operations: dict[tuple[str, str], Operation]) -> Iterator[MemoryCase]:
    for (mnemonic, encoding), operation in operations.items():
        if re.search(r"format|addtid|condxchg|permute|swizzle|scratch_load_lds|lds_", mnemonic):
            continue
        if encoding == "DSOp" and "ADDR" in operation.text:
            yield lds_case(operation)
        elif encoding in ("GLOBALOp", "FLATOp", "MUBUFOp", "SCRATCHOp") and "MEM[" in operation.text:
            yield from vector_cases(operation, encoding)


def lds_case(operation: Operation) -> MemoryCase:
    mnemonic = operation.mnemonic
    result = dwords(operation.width("vdst"))
    fields = [operation.width(name) for name in ("data0", "data1")]
    data = [register(first, dwords(width)) for first, width in zip((DATA, DATA2), fields, strict=True) if width]
    planar = 0
    offsets: tuple[int, ...] = (8,)
    shown = "offset:8"
    if "st64" in mnemonic:
        planar = 8 if "b64" in mnemonic else 4
        offsets, shown = (3, 1), "offset0:3 offset1:1"
    elif "ADDR_BASE" in operation.text or re.search(r"read2|write2", mnemonic):
        offsets, shown = (2, 0), "offset0:2"
    operands = ([register(16, result)] if result else []) + ["v2", *data]
    text = f"{mnemonic} {', '.join(operands)} {shown}\ns_waitcnt lgkmcnt(0)"
    step = 64 * planar if planar else 4
    scale = f"v_lshlrev_b32_e32 v2, {planar.bit_length() - 3 if planar else 3}, v0"
    places = [_planar_at(i, planar) if planar else 4 * i for i in range(REGION)]
    assert step
    setup = [scale, *(f"ds_write_b32 v2, v{INITIAL + i} offset:{at}" for i, at in enumerate(places))]
    teardown = [f"ds_read_b32 v{40 + i}, v2 offset:{at}" for i, at in enumerate(places)]
    wait = "s_waitcnt lgkmcnt(0)"
    return _case(operation, mnemonic, text, setup, teardown, wait, (offsets, bool(result), planar), result)


def _planar_at(i: int, planar: int) -> int:
    """LDS offset of dword i of a lane when elements of `planar` bytes of the 64 lanes stand side by side."""
    element, byte = divmod(4 * i, planar)
    return 64 * planar * element + byte


def vector_cases(operation: Operation, encoding: str) -> Iterator[MemoryCase]:
    mnemonic = operation.mnemonic
    atomic = "atomic" in mnemonic
    names = ("vdst", "vdata", "data")
    load = "load" in mnemonic
    width = max(operation.width(name) for name in (("data", "vdata") if not load else names))
    if atomic:
        result = dwords(width) // 2 if "cmpswap" in mnemonic else dwords(width)
    else:
        result = dwords(width) if load else 0
    data = register(DATA, dwords(width))
    bound = {"GLOBALOp": "global", "FLATOp": "flat", "MUBUFOp": "buffer", "SCRATCHOp": "scratch"}[encoding]
    for returns in (False, True) if atomic else (load,):
        target = register(16, result)
        if bound == "buffer":
            # A buffer atomic returns in its data register: the result is copied from there.
            value = target if load else data
            text = f"{mnemonic} {value}, v2, s[28:31], 0 offen offset:8"
            if atomic and returns:
                text += " sc0"
        else:
            address = {"global": "v2", "flat": "v[2:3]", "scratch": "v2"}[bound]
            saddr = {"global": ", s[6:7]", "flat": "", "scratch": ", off"}[bound]
            if load:
                text = f"{mnemonic} {target}, {address}{saddr} offset:8"
            elif returns:
                text = f"{mnemonic} {target}, {address}, {data}{saddr} offset:8 sc0"
            else:
                text = f"{mnemonic} {address}, {data}{saddr} offset:8"
        text += "\ns_waitcnt vmcnt(0) lgkmcnt(0)"
        if bound == "buffer" and atomic and returns:
            text += "".join(f"\nv_mov_b32_e32 v{16 + i}, v{DATA + i}" for i in range(result))
        setup, teardown = _region(bound)
        key = f"{mnemonic}{':sc0' if atomic and returns else ''}"
        yield _case(
            operation, key, text, setup, teardown, "s_waitcnt vmcnt(0)", ((8,), returns, 0), result if returns else 0
        )


def _region(bound: str) -> tuple[list[str], list[str]]:
    """Code that fills the lane's region and that reads it back."""
    if bound == "scratch":
        address = ["v_mov_b32_e32 v2, 4"]
        store = [f"scratch_store_dword v2, v{INITIAL + i}, off offset:{4 * i}" for i in range(REGION)]
        load = [f"scratch_load_dword v{40 + i}, v2, off offset:{4 * i}" for i in range(REGION)]
        return [*address, *store, "s_waitcnt vmcnt(0)"], load
    address = ["v_lshlrev_b32_e32 v2, 3, v0"]
    store = [f"global_store_dword v2, v{INITIAL + i}, s[6:7] offset:{4 * i}" for i in range(REGION)]
    load = [f"global_load_dword v{40 + i}, v2, s[6:7] offset:{4 * i}" for i in range(REGION)]
    setup = [*address, *store]
    if bound == "flat":
        setup += ["v_mov_b32_e32 v3, s7", "v_add_co_u32_e32 v2, vcc, s6, v2", "v_addc_co_u32_e32 v3, vcc, 0, v3, vcc"]
        load = address + load
    if bound == "buffer":
        setup += ["s_mov_b32 s28, s6", "s_and_b32 s29, s7, 0xffff"]
        setup += [f"s_movk_i32 s30, {256 * REGION}", f"s_mov_b32 s31, {RESOURCE_FLAGS:#x}"]
    return [*setup, "s_waitcnt vmcnt(0)"], load


def _case(
    operation: Operation,
    key: str,
    text: str,
    setup: list[str],
    teardown: list[str],
    wait: str,
    shape: tuple[tuple[int, ...], bool, int],
    result: int,
) -> MemoryCase:
    offsets, returns, planar = shape
    lane = LaneCase(
        key=key,
        text=text,
        sources=(4, 4, REGION),
        result=result,
        setup="\n".join([*setup, wait]),
        teardown="\n".join([*teardown, wait]),
        extra=REGION,
        registers=(DATA, DATA2, INITIAL),
    )
    return MemoryCase(lane, operation, offsets, returns, result, planar)


def operands(case: MemoryCase, groups: int, seed: int) -> Words:
    """Planes of the two data operands, the region and the old result; float memory gets float operands."""
    rng = np.random.default_rng([seed, *case.lane.key.encode()])
    count = groups * LANES
    kind = memory_kind(case)
    planes: list[npt.NDArray[np.uint32]] = []
    for words in (4, 4, REGION, case.lane.result):
        for _ in range(0, words, 2):
            drawn = operand_pools.draw(rng, kind, 64, count)
            planes += [(drawn >> np.uint64(shift)).astype(np.uint32) for shift in (0, 32)]
        planes = planes[: len(planes) - (words % 2)]
    if "cmpst" in case.operation.mnemonic or "cmpswap" in case.operation.mnemonic:
        _make_some_equal(rng, case, planes)
    return np.stack([plane.reshape(groups, LANES) for plane in planes], axis=1)


def memory_kind(case: MemoryCase) -> str:
    text = case.operation.text
    for name in ("MEM", "dst", "DATA"):
        for kind in ("f64", "f32", "bf16", "f16", "u64", "i64"):
            if re.search(rf"{name}\[[^\]]*\]\.{kind}\b", text):
                return kind
    return "u32"


def _make_some_equal(rng: np.random.Generator, case: MemoryCase, planes: list[npt.NDArray[np.uint32]]) -> None:
    """Half of the lanes of a compare-and-swap find what they compare with."""
    mnemonic = case.operation.mnemonic
    words = 2 if mnemonic.endswith(("x2", "64")) else 1
    first = 0 if mnemonic.startswith("ds_") else words
    equal = rng.random(planes[0].shape) < 0.5
    for i in range(words):
        at = 8 + case.offsets[0] // 4 + i
        planes[first + i] = np.where(equal, planes[at], planes[first + i])


def expected(case: MemoryCase, planes: Words, mask: int) -> Words:
    """Result planes and region planes of one workgroup."""
    out = np.zeros((case.lane.planes_out, LANES), np.uint32)
    result = case.lane.result
    for lane in range(LANES):
        column = [int(word) for word in planes[:, lane]]
        old = column[8 + REGION : 8 + REGION + result]
        region = column[8 : 8 + REGION]
        if mask >> lane & 1:
            bits, region = evaluate(case, column, region, sum(word << 32 * i for i, word in enumerate(old)), lane)
            old = [bits >> 32 * i & 0xFFFFFFFF for i in range(result)]
        out[:, lane] = [*old, *region]
    return out


def evaluate(case: MemoryCase, column: list[int], region: list[int], old: int, lane: int) -> tuple[int, list[int]]:
    """The returned bits and the region after the operation, one lane."""
    content: dict[int, int] = {}
    places = [_planar_at(i, case.planar) if case.planar else 4 * i for i in range(REGION)]
    for at, word in zip(places, region, strict=True):
        content |= {at + byte: word >> 8 * byte & 0xFF for byte in range(4)}
    memory = pcode_values.Memory(content)
    offset = case.offsets[0]
    computed = "Calc" in case.operation.text or "ADDR_BASE" in case.operation.text
    base = 0 if computed else offset
    data = sum(word << 32 * i for i, word in enumerate(column[:4]))
    returned = pcode_values.Cell(max(32 * case.lane.result, 32), old)
    # Of a 32-bit memory operand only as many bits exist as the instruction names.
    environment: pcode_values.Environment = {
        "MEM": memory,
        "ADDR": pcode_values.Cell(64, base),
        "ADDR_BASE": pcode_values.Cell(64, base),
        "VADDR": pcode_values.Cell(64, base),
        "ADDRESS": pcode_values.integer("u", 64, offset),
        **{name: pcode_values.Cell(128) for name in ("SADDR", "SRSRC", "SOFFSET")},
        "OFFSET": pcode_values.Cell(16, offset),
        "OFFSET0": pcode_values.Cell(8, offset & 0xFF),
        "OFFSET1": pcode_values.Cell(8, case.offsets[1] if len(case.offsets) > 1 else offset >> 8),
        "DATA": pcode_values.Cell(128, data),
        "DATA2": pcode_values.Cell(128, sum(word << 32 * i for i, word in enumerate(column[4:8]))),
        "VDATA": returned if "load" in case.operation.mnemonic else pcode_values.Cell(128, data),
        "RETURN_DATA": returned,
        "laneID": pcode_values.integer("i", 32, lane),
    }
    pcode_run.run(case.operation.text, environment)
    after = [memory.read(at, 32) for at in places]
    return returned.bits if case.returns else old, after


def result_kinds(case: MemoryCase) -> tuple[str, str]:
    """Types for comparing NaNs in the result and in the region."""
    kind = memory_kind(case)
    return kind, kind if kind in floats.FORMATS else kind_of_source(case.operation.text, "MEM")
