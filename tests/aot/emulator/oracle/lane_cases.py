"""Vector instructions that the pseudocode covers: their assembly text, operands and expected results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tests.aot.emulator.oracle import floats, operand_pools, pcode_run, pcode_values
from tests.aot.emulator.oracle.machine import LANES, MASK_IN, MASK_OUT, LaneCase, Words, register
from tests.aot.emulator.oracle.pcode_table import Operation

VECTOR_ENCODINGS = ("VOP1Op", "VOP2Op", "VOP3Op", "VOP3POp", "VOP3SDOp", "VOPCOp")
REGISTERS = (4, 8, 12)
WAVE_WIDE = re.compile(r"VGPR\[|EXEC\[|SRC0|^D = A", re.MULTILINE)
#: These flush f32 denormals whatever the mode says, as LLVM knows when it scales their operands and results.
FLUSHING = {"v_exp_f32", "v_log_f32", "v_rcp_f32", "v_rcp_iflag_f32", "v_rsq_f32", "v_sqrt_f32"}
#: The truth tables that v_bitop3 is tried with.
BITOP3_TABLES = (0x00, 0xFF, 0x6A, 0x96, 0xE8, 0x1B, 0x80, 0x01)


@dataclass(frozen=True)
class Modifiers:
    """Source and result modifiers of one case. `neg`/`abs` hold a bit per source, `op_sel` as in the encoding."""

    neg: int = 0
    absolute: int = 0
    clamp: bool = False
    op_sel: int = 0
    op_sel_hi: int = 0b111
    neg_hi: int = 0
    bitop3: int = 0


@dataclass(frozen=True)
class PcodeCase:
    """A lane case with what the evaluator needs to predict it."""

    lane: LaneCase
    operation: Operation
    modifiers: Modifiers = Modifiers()

    @property
    def source_kinds(self) -> tuple[str, ...]:
        return tuple(kind_of_source(self.operation.text, f"S{i}") for i in range(len(self.lane.sources)))

    @property
    def result_kind(self) -> str:
        """The type of the elements of D0, for comparing NaNs."""
        return kind_of_source(self.operation.text, "D0") if self.lane.result else "b32"


def kind_of_source(text: str, name: str) -> str:
    """The type in which the pseudocode reads or writes an operand, through temporaries for D0."""
    plain = re.search(rf"\b{name}\.((?:bf|[uif])\d+)", text)
    sliced = re.search(rf"\b{name}\[[^\]]*\]\.((?:bf|[uif])\d+)", text)
    if sliced is not None and plain is None:
        kind = sliced.group(1)
    elif plain is not None:
        kind = plain.group(1)
    elif name == "D0" and re.search(r"tmp\[[^\]]*\]\.((?:bf|[uif])\d+)\s*=", text):
        kind = re.findall(r"tmp\[[^\]]*\]\.((?:bf|[uif])\d+)\s*=", text)[0]
    elif name == "D0" and re.search(r"tmp\.((?:bf|[uif])\d+)", text):
        kind = re.findall(r"tmp\.((?:bf|[uif])\d+)", text)[0]
    else:
        return "u32"
    return kind if kind in floats.FORMATS or kind[1:] in ("8", "16", "32", "64") else "u32"


def dwords(bits: int) -> int:
    return (bits + 31) // 32


def lane_case(operation: Operation, wide: bool) -> LaneCase | None:
    """The plain case of an operation in one encoding; None when it works on the wave or has operands not modelled."""
    mnemonic, encoding = operation.mnemonic, operation.encoding
    if WAVE_WIDE.search(operation.text) or "S0.b32 = tmp" in operation.text:
        return None
    widths = [operation.width("src0"), operation.width("src1") or operation.width("vsrc1"), operation.width("src2")]
    compare = encoding == "VOPCOp" or mnemonic.startswith("v_cmp")
    mask_source = widths[2] == 64 and "S2" not in operation.text
    if max(widths) > 64 or operation.width("vdst") > 64:
        return None
    sources = tuple(dwords(width) for i, width in enumerate(widths) if width and not (i == 2 and mask_source))
    result = 0 if compare else dwords(operation.width("vdst"))
    suffix = {"VOP1Op": "_e32", "VOP2Op": "_e32", "VOPCOp": "_e32"}.get(encoding, "_e64" if wide else "")
    operands = [] if compare else [register(16, result)]
    reads_vcc = "VCC.u64[laneId]" in operation.text and not mask_source
    writes_mask = re.search(r"VCC\.u64\[laneId\] =|VCC = |D1\.", operation.text) is not None
    mask_out = ""
    if compare or writes_mask:
        mask_out = MASK_OUT if encoding in ("VOP3Op", "VOP3SDOp") and not mnemonic.startswith("v_div_scale") else "vcc"
        operands.append(mask_out)
    operands += [register(first, count) for first, count in zip(REGISTERS, sources, strict=False)]
    carry_in = re.search(r"[+\-] VCC\.u64\[laneId\]|VCC\.u64\[laneId\] \?", operation.text) is not None
    if mask_source:
        operands.append(MASK_IN)
    elif encoding == "VOP2Op" and carry_in:
        operands.append("vcc")
    return LaneCase(
        key=f"{mnemonic}{suffix}",
        text=f"{mnemonic}{suffix} {', '.join(operands)}",
        sources=sources,
        result=result,
        mask_in=mask_source or reads_vcc or carry_in,
        mask_out=mask_out,
        exec_out=mnemonic.startswith("v_cmpx"),
    )


def cases(operations: dict[tuple[str, str], Operation]) -> Iterator[PcodeCase]:
    """Plain cases of every vector operation, then the modifier variants."""
    short = {mnemonic for mnemonic, encoding in operations if encoding in ("VOP1Op", "VOP2Op", "VOPCOp")}
    for (mnemonic, encoding), operation in operations.items():
        if encoding not in VECTOR_ENCODINGS:
            continue
        lane = lane_case(operation, wide=mnemonic in short)
        if lane is None:
            continue
        if mnemonic.startswith("v_bitop3"):
            for table in BITOP3_TABLES:
                text = f"{lane.text} bitop3:{table:#x}"
                yield PcodeCase(
                    replace(lane, key=f"{lane.key}:{table:02x}", text=text), operation, Modifiers(bitop3=table)
                )
            continue
        yield PcodeCase(lane, operation)
        yield from modified(PcodeCase(lane, operation))


def modified(case: PcodeCase) -> Iterator[PcodeCase]:
    """Variants with negated and absolute sources, op_sel and packed modifiers, where the encoding has them."""
    operation, lane = case.operation, case.lane
    if operation.encoding == "VOP3POp" and operation.mnemonic.startswith("v_pk_") and "mov" not in operation.mnemonic:
        count = len(lane.sources)
        packed_float = case.source_kinds[0] in ("f16", "f32")
        for op_sel, op_sel_hi, neg, neg_hi in ((1, 0b110, 0, 0), (0b111, 0, 0b10, 0b101), (0b010, 0b111, 0b111, 0b011)):
            full = (1 << count) - 1
            chosen = Modifiers(op_sel=op_sel & full, op_sel_hi=op_sel_hi & full)
            text = f"{lane.text} op_sel:{_bits(chosen.op_sel, count)} op_sel_hi:{_bits(chosen.op_sel_hi, count)}"
            if packed_float:
                chosen = replace(chosen, neg=neg & full, neg_hi=neg_hi & full)
                text += f" neg_lo:{_bits(chosen.neg, count)} neg_hi:{_bits(chosen.neg_hi, count)}"
            yield PcodeCase(
                replace(lane, key=f"{lane.key}:{op_sel}{op_sel_hi}{neg}{neg_hi}", text=text), operation, chosen
            )
    if operation.encoding in ("VOP3Op", "VOP3SDOp") and all(kind in floats.FORMATS for kind in case.source_kinds):
        halves = any(
            dwords(operation.width(f"src{i}")) * 32 > floats.FORMATS[kind].width and "[" in operation.text
            for i, kind in enumerate(case.source_kinds)
        )
        if operation.mnemonic.startswith("v_div_scale") or halves:
            return
        for neg, absolute in ((0b001, 0), (0b110, 0b001), (0b010, 0b111)):
            text = lane.text
            for i, (first, count) in enumerate(zip(REGISTERS, lane.sources, strict=False)):
                name = register(first, count)
                changed = f"|{name}|" if absolute >> i & 1 else name
                changed = f"-{changed}" if neg >> i & 1 else changed
                text = re.sub(rf"(?<![\w|\[]){re.escape(name)}(?!\w)", changed, text)
            if text != lane.text:
                key = f"{lane.key}:neg{neg}abs{absolute}"
                yield PcodeCase(replace(lane, key=key, text=text), operation, Modifiers(neg=neg, absolute=absolute))
        whole = case.result_kind in floats.FORMATS and operation.width("vdst") == floats.FORMATS[case.result_kind].width
        if whole and "[" not in operation.text and "ldexp" not in operation.mnemonic:
            yield PcodeCase(
                replace(lane, key=f"{lane.key}:clamp", text=f"{lane.text} clamp"), operation, Modifiers(clamp=True)
            )


def _bits(value: int, count: int) -> str:
    return "[" + ",".join(str(value >> i & 1) for i in range(count)) + "]"


def operands(case: PcodeCase, groups: int, seed: int) -> Words:
    """Operand planes (groups, planes_in, 64) of a case; the same key and seed give the same operands."""
    rng = np.random.default_rng([seed, *case.lane.key.encode()])
    count = groups * LANES
    planes: list[np.ndarray[tuple[int, ...], np.dtype[np.uint32]]] = []
    kinds = [*case.source_kinds, case.result_kind]
    for kind, words in zip(kinds, [*case.lane.sources, case.lane.result], strict=True):
        if not words:
            continue
        drawn = operand_pools.draw(rng, kind, 32 * words, count)
        planes += [((drawn >> np.uint64(32 * i)) & np.uint64(0xFFFFFFFF)).astype(np.uint32) for i in range(words)]
    if case.lane.mask_in:
        planes.append(rng.integers(0, 2, count, dtype=np.uint32))
    return np.stack([plane.reshape(groups, LANES) for plane in planes], axis=1)


def expected(case: PcodeCase, planes: Words, mask: int) -> Words:
    """Result planes (planes_out, 64) of one workgroup whose lanes in `mask` are on."""
    lane_def = case.lane
    out = np.zeros((lane_def.planes_out, LANES), np.uint32)
    first_result = sum(lane_def.sources)
    for lane in range(LANES):
        column = [int(word) for word in planes[:, lane]]
        values: list[int] = []
        at = 0
        for words in lane_def.sources:
            values.append(sum(column[at + i] << (32 * i) for i in range(words)))
            at += words
        old = sum(column[first_result + i] << (32 * i) for i in range(lane_def.result))
        carry = column[-1] & 1 if lane_def.mask_in else 0
        result, flag = old, 0
        if mask >> lane & 1:
            result, flag = evaluate(case, values, old, carry, lane)
        for i in range(lane_def.result):
            out[i, lane] = result >> (32 * i) & 0xFFFFFFFF
        row = lane_def.result
        if lane_def.mask_out:
            out[row, lane] = flag
            row += 1
        if lane_def.exec_out:
            out[row, lane] = flag
    return out


def evaluate(case: PcodeCase, values: list[int], old: int, carry: int, lane: int) -> tuple[int, int]:
    """D0 and the mask bit of one lane by the pseudocode."""
    modifiers = case.modifiers
    kinds = case.source_kinds
    environment: pcode_values.Environment = {
        f"S{i}": pcode_values.Cell(32 * case.lane.sources[i], modify(value, kinds[i], i, case))
        for i, value in enumerate(values)
    }
    destination = pcode_values.Cell(64 if case.lane.result == 0 else 32 * case.lane.result, old)
    mask = pcode_values.Cell(64, carry << lane)
    environment |= {
        "D0": destination,
        "D": destination,
        "D1": pcode_values.Cell(1),
        "VCC": mask,
        "EXEC": pcode_values.Cell(64, (1 << 64) - 1),
        "laneId": pcode_values.integer("i", 32, lane),
        "OPSEL": pcode_values.integer("u", 4, 0),
        "ROUND_MODE": pcode_values.integer("u", 2, 0),
        "WAVE_MODE.IEEE": pcode_values.integer("u", 1, 1),
        "INST.OMOD": pcode_values.integer("u", 2, modifiers.bitop3 >> 6),
        "INST.ABS": pcode_values.integer("u", 3, modifiers.bitop3 >> 3 & 7),
        "INST.NEG": pcode_values.integer("u", 3, modifiers.bitop3 & 7),
    }
    pcode_run.run(case.operation.text, environment)
    result = environment["D0"]
    assert isinstance(result, pcode_values.Cell)
    flag = 0
    if case.lane.mask_out and not case.lane.result:
        flag = result.bits >> lane & 1
    elif case.lane.mask_out:
        carried = environment["D1"] if "D1." in case.operation.text else mask
        assert isinstance(carried, pcode_values.Cell)
        flag = carried.bits & 1 if carried.width == 1 else carried.bits >> lane & 1
    bits = result.bits
    if case.operation.mnemonic in FLUSHING:
        bits = floats.flushed(floats.F32, bits)
    if modifiers.clamp:
        bits = clamped(bits, case.result_kind)
    return bits, flag


def modify(value: int, kind: str, source: int, case: PcodeCase) -> int:
    """Applies the source modifiers of one operand to its bits."""
    modifiers = case.modifiers
    if case.operation.encoding == "VOP3POp":
        half = 32 * case.lane.sources[source] // 2
        halves = (value & ((1 << half) - 1), value >> half)
        low, high = halves[modifiers.op_sel >> source & 1], halves[modifiers.op_sel_hi >> source & 1]
        sign = 1 << (half - 1)
        low ^= sign if modifiers.neg >> source & 1 else 0
        high ^= sign if modifiers.neg_hi >> source & 1 else 0
        return low | high << half
    if kind in floats.FORMATS:
        sign = floats.FORMATS[kind].sign_bit
        value = value & ~sign if modifiers.absolute >> source & 1 else value
        value = value ^ sign if modifiers.neg >> source & 1 else value
    if case.operation.mnemonic in FLUSHING:
        value = floats.flushed(floats.F32, value)
    return value


def clamped(bits: int, kind: str) -> int:
    """The result limited to [0, 1], a NaN to 0 (DX10_CLAMP is on by default)."""
    form = floats.FORMATS[kind]
    kept = bits >> form.width << form.width
    low = bits & ((1 << form.width) - 1)
    one = floats.encode(form, 1.0)
    if floats.is_nan(form, low) or low & form.sign_bit:
        return kept
    return kept | min(low, one)
