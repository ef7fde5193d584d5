"""Matrix handlers. Square single-block atoms are rank-1 updates over whole rows; the rest follow the lane maps by
shuffles.

A lane holds consecutive k of one row, so element j of all lanes is, per group of E lanes, one column of A: storing
the converted vectors side by side gives A[k][row] (and B[k][column]) with no transposition. Accumulator i of 16 lanes
is one piece of a row of D, so each k adds broadcast(A[k][row]) * B[k][columns] to it.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm

from aot.emulator.engine_llvm.ops import Function
from aot.emulator.engine_llvm.wave import LlvmWave
from aot.emulator.isa.mfma import MatrixSpec
from aot.emulator.isa.values import LANES, Value, pack64, settled
from aot.emulator.state import layout

_PIECE = 16


def write_matrix(m: LlvmWave, spec: MatrixSpec) -> None:
    if spec.blocks == 1 and spec.m in (16, 32) and spec.accumulator == "f32":
        _rank_one(m, spec)
    else:
        _by_shuffles(m, spec)


def _elements(m: LlvmWave, spec: MatrixSpec, slot: int) -> list[Value]:
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


def _rank_one(m: LlvmWave, spec: MatrixSpec) -> None:
    if spec.element == "bf16" and host_has_bf16_dot():
        with m.f.when(_dot_is_exact(m, spec)):
            _update(m, spec, _stage(m, spec, _words), pairs=True)
            m.next()
    _update(m, spec, _stage(m, spec, _elements), pairs=False)


def _words(m: LlvmWave, spec: MatrixSpec, slot: int) -> list[Value]:
    """The register words themselves: pairs of 16-bit elements."""
    return [m.vector(slot, dword) for dword in range(spec.operand_dwords)]


def _stage(m: LlvmWave, spec: MatrixSpec, values_of: Callable[[LlvmWave, MatrixSpec, int], list[Value]]) -> list[Value]:
    """A and B in memory: [k or pair of k][row or column], 4 bytes each."""
    f, edge = m.f, spec.m
    staged = []
    for slot in (1, 2):
        values = values_of(m, spec, slot)
        buffer = f.alloca(4 * LANES * len(values))
        for j, value in enumerate(values):
            for slab in range(LANES // edge):
                rows = f.shuffle(value, range(edge * slab, edge * slab + edge))
                f.store(rows, f.at(buffer, 4 * edge * (slab * len(values) + j)))
        # A broadcast from memory is free beside the multiply-add; from a vector register it is two shuffles.
        f.settle(buffer)
        staged.append(buffer)
    return staged


def _update(m: LlvmWave, spec: MatrixSpec, staged: list[Value], pairs: bool) -> None:
    """Four accumulator registers at a time: 16 pieces, which stay in vector registers over all k."""
    f, edge = m.f, spec.m
    a, b = staged
    constant = m.form.kinds[3] != "v"
    added = m.scalar(3).cast("f32") if constant else None
    source = m.place(3, 0, layout.REGISTER_BYTES) if not constant else None
    target = m.place(0, 0, layout.REGISTER_BYTES)
    steps = list(range(spec.k // 2)) if pairs else spec.k_order
    # A NaN in any result makes this sum one; so may opposite infinities, which costs time and changes nothing.
    witness = f.variable(f.widen(f.const(0.0, "f32"), _PIECE))
    with f.count(spec.accumulators // 4, type_="u64") as step:
        pieces: list[tuple[int, int, Value]] = []
        base = f.at(target, step, 4 * layout.REGISTER_BYTES)
        rows = f.at(a, step, 4 * 4 * (LANES // edge))
        total: list[Value] = []
        for i in range(4):
            for piece in range(LANES // _PIECE):
                _, row, column = spec.d_place(_PIECE * piece, i)
                offset = layout.REGISTER_BYTES * i + 4 * _PIECE * piece
                pieces.append((row, column, f.at(base, offset)))
                if source is None:
                    assert added is not None
                    total.append(f.widen(added, _PIECE))
                else:
                    place = f.at(f.at(source, step, 4 * layout.REGISTER_BYTES), offset)
                    total.append(f.load("f32", place, _PIECE))
        for k in steps:
            columns = {c: f.load("f32", f.at(b, 4 * (edge * k + c)), _PIECE) for c in sorted({p[1] for p in pieces})}
            scalars: dict[int, Value] = {}
            for number, (row, column, _) in enumerate(pieces):
                if row not in scalars:
                    scalars[row] = f.widen(f.load("f32", f.at(rows, 4 * (edge * k + row))), _PIECE)
                if pairs:
                    total[number] = _dot(f, total[number], columns[column], scalars[row])
                else:
                    total[number] = f.fma(scalars[row], columns[column], total[number])
        for (_, _, place), value in zip(pieces, total, strict=True):
            f.store(value, place, align=64)
        while len(total) > 1:
            total = [f.binary("fadd", *total[i : i + 2]) for i in range(0, len(total), 2)]
        witness.set(f.binary("fadd", witness.get(), total[0]))
    seen = witness.get().is_nan()
    with f.when(f.reduce("or", seen), unlikely=True), f.count(spec.accumulators, type_="u64") as register:
        for piece in range(LANES // _PIECE):
            place = f.at(f.at(target, register, layout.REGISTER_BYTES), 4 * _PIECE * piece)
            f.store(settled(f.load("f32", place, _PIECE)), place, align=64)


def host_has_bf16_dot() -> bool:
    return "+avx512bf16" in llvm.get_host_cpu_features().flatten().split(",")


def _dot(f: Function, total: Value, b: Value, a: Value) -> Value:
    """total + b.odd*a.odd + b.even*a.even, in this order, each a fused multiply-add that takes and gives denormals as
    0."""
    halves = [
        f.assign(f"bitcast <{_PIECE} x float> {v.ref} to <{2 * _PIECE} x bfloat>", "bf16", 2 * _PIECE) for v in (b, a)
    ]
    return f.call("llvm.x86.avx512bf16.dpbf16ps.512", "f32", _PIECE, [total, *halves])


def _dot_is_exact(m: LlvmWave, spec: MatrixSpec) -> Value:
    """Whether no denormal can occur: factors are 0 or at least 2^-50 (so products and sums of them are multiples of
    2^-124 at least), addends are 0 or normal."""
    f = m.f
    least: Value | None = None
    for slot in (1, 2):
        for word in _words(m, spec, slot):
            halves = f.assign(f"bitcast <{LANES} x i32> {word.ref} to <{2 * LANES} x i16>", "u16", 2 * LANES)
            # One less: 0 becomes the largest.
            size = (halves & 0x7FFF) - 1
            least = size if least is None else least.min(size)
    assert least is not None
    exact = f.reduce("umin", least) >= ((127 - 50) << 7) - 1
    if m.form.kinds[3] != "v":
        return exact & (((m.scalar(3) << 1) - 1) >= (1 << 24) - 1)
    addends: Value | None = None
    for dword in range(spec.accumulators):
        size = (m.vector(3, dword) << 1) - 1
        addends = size if addends is None else addends.min(size)
    assert addends is not None
    return exact & (f.reduce("umin", addends) >= (1 << 24) - 1)


def _by_shuffles(m: LlvmWave, spec: MatrixSpec) -> None:
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
        for k in spec.k_order:
            left = [homes[block, row, k] for block, row, _ in places]
            right = [homes[block, column, k] for block, _, column in places]
            j = left[0][1]
            x, y = f.shuffle(a[j], [p[0] for p in left]), f.shuffle(b[j], [p[0] for p in right])
            total = total + x * y if spec.accumulator == "i32" else f.fma(x, y, total)
        results.append(total if spec.accumulator == "i32" else settled(total))
    everything = m.constant_mask([True] * LANES)
    for i, total in enumerate(results):
        if wide:
            m.set_vector(0, 2 * i, total.bits().to("u32"), everything)
            m.set_vector(0, 2 * i + 1, (total.bits() >> 32).to("u32"), everything)
        else:
            m.set_vector(0, i, total.bits(), everything)
