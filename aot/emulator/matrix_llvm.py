"""Matrix handlers. Square single-block atoms are rank-1 updates over whole rows; the rest follow the lane maps by
shuffles.

A lane holds consecutive k of one row, so element j of all lanes is, per group of E lanes, one column of A: storing
the converted vectors side by side gives A[k][row] (and B[k][column]) with no transposition. Accumulator i of 16 lanes
is one piece of a row of D, so each k adds broadcast(A[k][row]) * B[k][columns] to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.emulator import layout
from aot.emulator.ops_llvm import Function
from aot.emulator.table_mfma import MatrixSpec
from aot.emulator.values import LANES, Value, fma, pack64

if TYPE_CHECKING:
    from aot.emulator.machine_llvm import LlvmMachine

_PIECE = 16


def write_matrix(m: LlvmMachine, spec: MatrixSpec) -> None:
    if spec.blocks == 1 and spec.m in (16, 32) and spec.accumulator == "f32":
        _rank_one(m, spec)
    else:
        _by_shuffles(m, spec)


def _elements(m: LlvmMachine, spec: MatrixSpec, slot: int) -> list[Value]:
    """Element j of all lanes, in the type of the product."""
    values: list[Value] = []
    for dword in range(spec.operand_dwords):
        word = m.vector(slot, dword)
        if spec.element == "bf16":
            values += [(word << 16).cast("f32"), (word & 0xFFFF0000).cast("f32")]
        elif spec.element == "f16":
            values += [word.to("u16").cast("f16").to("f32"), (word >> 16).to("u16").cast("f16").to("f32")]
        elif spec.element == "i8":
            values += [word.cast("i32") << (24 - 8 * byte) >> 24 for byte in range(4)]
        elif spec.element == "f64":
            if dword % 2 == 0:
                values.append(pack64(word, m.vector(slot, dword + 1)).cast("f64"))
        else:
            values.append(word.cast("f32"))
    return values


def _rank_one(m: LlvmMachine, spec: MatrixSpec) -> None:
    f: Function = m.f
    edge = spec.m
    staged = []
    for slot in (1, 2):
        buffer = f.alloca(4 * edge * spec.k)
        for j, value in enumerate(_elements(m, spec, slot)):
            for slab in range(LANES // edge):
                rows = f.shuffle(value, range(edge * slab, edge * slab + edge))
                f.store(rows, f.at(buffer, 4 * edge * (slab * spec.per_lane + j)))
        # A broadcast from memory is free beside the multiply-add; from a vector register it is two shuffles.
        f.settle(buffer)
        staged.append(buffer)
    a, b = staged
    constant = m.form.kinds[3] != "v"
    added = m.scalar(3).cast("f32") if constant else None
    source = m._place(3, 0, layout.REGISTER_BYTES) if not constant else None
    target = m._place(0, 0, layout.REGISTER_BYTES)
    # Four accumulator registers at a time: 16 pieces, which stay in vector registers over all k.
    with f.count(spec.accumulators // 4, type_="u64") as step:
        pieces: list[tuple[int, int, Value]] = []
        base = f.at(target, step, 4 * layout.REGISTER_BYTES)
        rows = f.at(a, step, 4 * 4 * (LANES // edge))
        total: list[Value] = []
        for i in range(4):
            for piece in range(LANES // _PIECE):
                _, row, column = spec.d_place(_PIECE * piece, i)
                pieces.append((row, column, f.at(base, layout.REGISTER_BYTES * i + 4 * _PIECE * piece)))
                if source is None:
                    assert added is not None
                    total.append(f.widen(added, _PIECE))
                else:
                    place = f.at(
                        f.at(source, step, 4 * layout.REGISTER_BYTES), layout.REGISTER_BYTES * i + 4 * _PIECE * piece
                    )
                    total.append(f.load("f32", place, _PIECE))
        for k in range(spec.k):
            columns = {c: f.load("f32", f.at(b, 4 * (edge * k + c)), _PIECE) for c in sorted({p[1] for p in pieces})}
            scalars: dict[int, Value] = {}
            for number, (row, column, _) in enumerate(pieces):
                if row not in scalars:
                    scalars[row] = f.widen(f.load("f32", f.at(rows, 4 * (edge * k + row))), _PIECE)
                total[number] = fma(scalars[row], columns[column], total[number])
        for (_, _, place), value in zip(pieces, total, strict=True):
            f.store(value, place, align=64)


def _by_shuffles(m: LlvmMachine, spec: MatrixSpec) -> None:
    f: Function = m.f
    a, b = _elements(m, spec, 1), _elements(m, spec, 2)
    homes = {spec.a_place(lane, j): (lane, j) for lane in range(LANES) for j in range(spec.per_lane)}
    wide = spec.accumulator == "f64"
    results = []
    for i in range(spec.accumulators):
        if m.form.kinds[3] != "v":
            low = m.scalar(3)
            total = f.splat(pack64(low, m.scalar(3, 1)).cast("f64") if wide else low.cast(spec.accumulator))
        elif wide:
            total = pack64(m.vector(3, 2 * i), m.vector(3, 2 * i + 1)).cast("f64")
        else:
            total = m.vector(3, i).cast(spec.accumulator)
        places = [spec.d_place(lane, i) for lane in range(LANES)]
        for k in range(spec.k):
            left = [homes[block, row, k] for block, row, _ in places]
            right = [homes[block, column, k] for block, _, column in places]
            j = left[0][1]
            x, y = f.shuffle(a[j], [p[0] for p in left]), f.shuffle(b[j], [p[0] for p in right])
            total = total + x * y if spec.accumulator == "i32" else fma(x, y, total)
        results.append(total)
    everything = m.constant_mask([True] * LANES)
    for i, total in enumerate(results):
        if wide:
            m.set_vector(0, 2 * i, total.bits().to("u32"), everything)
            m.set_vector(0, 2 * i + 1, (total.bits() >> 32).to("u32"), everything)
        else:
            m.set_vector(0, i, total.bits(), everything)
