"""The runtime of generated code: loads and stores of 64 lanes, with bounds, shadow and race log.

Data registers are consecutive vectors of 64 dwords; memory holds the dwords of a lane side by side. A load
transposes them in vector registers; a store goes through a staging area.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aot.emulator import faults
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.engine_llvm.runtime.core import call, call_or_stop, context_of, helper, stop
from aot.emulator.engine_llvm.runtime.names import WIDTHS
from aot.emulator.engine_llvm.runtime.stores import commit, piece_types
from aot.emulator.isa.values import LANES, Value, select
from aot.emulator.state import layout
from aot.emulator.state.memory import LEAD, MAX_BUFFERS, PRIVATE_APERTURE, SHARED_APERTURE, WINDOW_BITS

GROUP = 16  # lanes per transposition
UNROLL = 8


def row_bytes(width: int) -> int:
    """Bytes of a lane's row in a staging area."""
    return max(4, width)


def load_lanes(f: Function, pointer: Callable[[int], Value], width: int) -> Iterator[tuple[int, int, Value]]:
    """(group, dword, vector of 16 lanes) of the bytes at a pointer per lane, transposed in vector registers.

    With the lanes of a group dealt to four registers like cards (lane 4c+r in 128-bit chunk c of register r), two
    rounds of interleaving within chunks give each dword of the 16 lanes in order.
    """
    dwords = max(1, width // 4)
    for group in range(LANES // GROUP):
        rows = [_row(f, pointer(GROUP * group + lane), width) for lane in range(GROUP)]
        if dwords == 1:
            flat = Value(f, "u32", GROUP, "poison")
            for lane, row in enumerate(rows):
                flat = f.assign(f"insertelement <{GROUP} x i32> {flat.ref}, i32 {row.ref}, i32 {lane}", "u32", GROUP)
            yield group, 0, flat
        elif dwords == 2:
            dealt = [_join(f, [rows[4 * c + 2 * r + i] for c in range(4) for i in range(2)]) for r in range(2)]
            for dword in range(2):
                order = [4 * c + 2 * i + dword + half for c in range(4) for half in (0, GROUP) for i in range(2)]
                yield group, dword, f.shuffle(dealt[0], order, dealt[1])
        else:
            dealt = [_join(f, [rows[4 * c + r] for c in range(4)]) for r in range(4)]
            pairs = [f.shuffle(dealt[i], _interleave(1, high), dealt[i + 1]) for i in (0, 2) for high in (0, 1)]
            for dword in range(dwords):
                high, odd = divmod(dword, 2)
                yield group, dword, f.shuffle(pairs[high], _interleave(2, odd), pairs[2 + high])


def _row(f: Function, pointer: Value, width: int) -> Value:
    """A lane's bytes: one u32, or two or four (the last of three unused)."""
    if width < 4:
        return widened(f, f.load("u8" if width == 1 else "u16", pointer, align=1))
    row = f.load("u32", pointer, width // 4, align=1)
    return f.shuffle(row, [0, 1, 2, 2]) if width == 12 else row


def _join(f: Function, parts: list[Value]) -> Value:
    """Vectors side by side."""
    while len(parts) > 1:
        size = parts[0].lanes
        parts = [f.shuffle(parts[i], range(2 * size), parts[i + 1]) for i in range(0, len(parts), 2)]
    return parts[0]


def _interleave(run: int, high: int) -> list[int]:
    """Within each chunk of four: runs of elements alternately from both vectors, from their low or high halves."""
    return [
        4 * c + 2 * high + run * i + e + side
        for c in range(4)
        for i in range(2 // run)
        for side in (0, GROUP)
        for e in range(run)
    ]


def widened(f: Function, value: Value) -> Value:
    """A u8 or u16 as u32."""
    return f.assign(f"zext {'i8' if value.type == 'u8' else 'i16'} {value.ref} to i32", "u32", 1)


def load_registers(
    f: Function, pointer: Callable[[int], Value], width: int, target: Value, mask: Value, canary: bool = False
) -> Value | None:
    """Bytes at a pointer per lane to register vectors, under a u64 lane mask. With `canary` returns a b1: whether a
    dword looks unwritten."""
    suspicious: Value | None = None
    looks = layout.CANARY_WORD if width >= 4 else layout.CANARY_WORD & ((1 << (8 * width)) - 1)
    lanes: list[Value] = []
    for group in range(LANES // GROUP):
        bits = f.assign(f"trunc i64 {(mask >> (GROUP * group)).ref} to i{GROUP}", "u16", 1)
        lanes.append(f.assign(f"bitcast i{GROUP} {bits.ref} to <{GROUP} x i1>", "b1", GROUP))
    for group, dword, vector in load_lanes(f, pointer, width):
        f.masked_store_narrow(vector, f.at(target, layout.REGISTER_BYTES * dword + 4 * GROUP * group), lanes[group])
        if canary:
            hit = vector.eq(looks)
            if width >= 4:
                different = vector ^ looks
                hit = (different & 0xFFFF).eq(0) | (different < 0x10000)
            suspicious = hit if suspicious is None else suspicious | hit
    return None if suspicious is None else f.reduce("or", suspicious)


def pointers_in(f: Function, pointers: Value) -> Callable[[int], Value]:
    """Access to 64 pointers in memory."""
    return lambda lane: f.load("ptr", f.at(pointers, 8 * lane))


def rows_in(f: Function, staging: Value, width: int) -> Callable[[int], Value]:
    """Access to the rows of a staging area."""
    return lambda lane: f.at(staging, row_bytes(width) * lane)


def gather_rows(f: Function, source: Value, width: int, staging: Value) -> None:
    """Register vectors to the staging area."""
    dwords = max(1, width // 4)
    for group in range(LANES // GROUP):
        vectors = [
            f.load("u32", f.at(source, layout.REGISTER_BYTES * d + 4 * GROUP * group), GROUP, align=64)
            for d in range(dwords)
        ]
        if dwords == 1:
            f.store(vectors[0], f.at(staging, 4 * GROUP * group), align=4)
            continue
        while len(vectors) < (2 if dwords == 2 else 4):
            vectors.append(vectors[0])
        pairs = [f.shuffle(vectors[i], range(2 * GROUP), vectors[i + 1]) for i in range(0, len(vectors), 2)]
        both = pairs[0] if len(pairs) == 1 else f.shuffle(pairs[0], range(4 * GROUP), pairs[1])
        order = [GROUP * dword + lane for lane in range(GROUP) for dword in range(dwords)]
        f.store(f.shuffle(both, order), f.at(staging, 4 * dwords * GROUP * group), align=4)


def store_piece(f: Function, staging: Value, lane: Value, width: int, target: Value) -> None:
    row = f.at(staging, lane, row_bytes(width))
    for offset, type_ in piece_types(width):
        f.store(f.load(type_, f.at(row, offset), align=1), f.at(target, offset), align=1)


def window_of(f: Function, wave: Value, address: Value) -> tuple[Value, Value, Value]:
    """(host pointer as u64, bytes, window) for a u64 scalar address; bytes are 0 where nothing is mapped."""
    window = address >> WINDOW_BITS
    number = select(window <= MAX_BUFFERS, window, 0)
    row = f.at(f.load("ptr", f.at(context_of(f, wave), layout.MEMORY_TABLE)), number, 16)
    return f.load("u64", row), f.load("u64", f.at(row, 8)), window


def write_log() -> Function:
    """Bounds of an LDS access, and its record in the race log."""
    f = helper("lds_log", ("ptr", "addresses"), ("u64", "mask"), ("u32", "size"), ("u32", "kind"))
    wave, record, addresses, mask, size, kind = f.arguments
    context = context_of(f, wave)
    # Even an access of no lane takes a record (of an empty range), so that queue entries can count on it.
    vector = f.load("u32", addresses, LANES, 64)
    active = f.unballot(mask)
    low = f.reduce("umin", select(active, vector, f.const(-1, "u32")))
    high = f.reduce("umax", select(active, vector, 0))
    limit = f.load("u32", f.at(wave, layout.LDS_BYTES))
    top = high.to("u64") + size.to("u64")
    with f.when((top > limit.to("u64")) & mask.ne(0), unlikely=True):
        bad = f.ballot((vector.to("u64") + size.to("u64")) > limit.to("u64")) & mask
        lane = bad.ctz().to("u32")
        address = f.load("u32", f.at(addresses, lane, 4))
        stop(f, wave, record, faults.LDS_BOUNDS, lane, address.to("u64"))
    _note_bytes(f, context, vector, size)
    # The first row is what stores note their silence in.
    with f.when(f.load("u32", f.at(context, layout.LOGGED)).eq(0)):
        f.store(f.const(1, "u32"), f.at(context, layout.LOG_COUNT))
        f.ret(0)
    number = f.load("u32", f.at(context, layout.LOG_COUNT))
    row = f.at(f.load("ptr", f.at(context, layout.LOG)), number, layout.LOG_RECORD_BYTES)
    f.store(f.load("u32", f.at(record, layout.RECORD_INDEX)), f.at(row, layout.LOG_INSTRUCTION))
    f.store(f.load("u32", f.at(wave, layout.WAVE_ID)), f.at(row, layout.LOG_WAVE))
    f.store(kind, f.at(row, layout.LOG_KIND))
    f.store(size, f.at(row, layout.LOG_SIZE))
    f.store(select(mask.eq(0), f.const(1, "u32"), low), f.at(row, layout.LOG_LOW))
    f.store(select(mask.eq(0), f.const(0, "u32"), top.to("u32")), f.at(row, layout.LOG_HIGH))
    f.store(f.const(0, "u32"), f.at(row, layout.LOG_SILENT))
    f.store(f.const(0, "u32"), f.at(row, layout.LOG_FOLDED))
    f.store(mask, f.at(row, layout.LOG_MASK))
    f.store(vector, f.at(row, layout.LOG_ADDRESSES), align=64)
    f.store(number + 1, f.at(context, layout.LOG_COUNT))
    f.ret(0)
    return f


def _note_bytes(f: Function, context: Value, addresses: Value, size: Value) -> None:
    """Remember that a byte or an odd address was accessed: from then on every read is checked exactly."""
    any_bit = addresses if addresses.lanes == 1 else f.reduce("or", addresses)
    with f.when(((any_bit | size) & 1).ne(0), unlikely=True):
        f.store(f.const(1, "u32"), f.at(context, layout.BYTE_ACCESS))


def write_unwritten(space: str) -> Function:
    """The exact check behind the canary: are the bytes that a lane reads all written?"""
    f = helper(f"{space}_unwritten", ("ptr", "addresses"), ("u64", "mask"), ("u32", "size"))
    wave, record, addresses, mask, size = f.arguments
    shadow = f.load("ptr", f.at(wave, layout.LDS_SHADOW if space == "lds" else layout.SCRATCH_SHADOW))
    stride = f.load("u32", f.at(wave, layout.SCRATCH_BYTES)) if space == "scratch" else f.const(0, "u32")
    with f.bits_of(mask) as lane, f.count(size) as byte:
        address = f.load("u32", f.at(addresses, lane, 4))
        state = f.load("u8", f.at(shadow, address.to("u64") + (lane * stride).to("u64") + byte.to("u64")))
        wide = widened(f, state)
        with f.when(wide.ne(layout.SHADOW_WRITTEN)):
            if space == "lds":
                with f.when(wide.eq(layout.SHADOW_IN_FLIGHT)):
                    stop(f, wave, record, faults.LDS_IN_FLIGHT, lane, address.to("u64"))
            kind = faults.LDS_UNWRITTEN if space == "lds" else faults.SCRATCH_UNWRITTEN
            stop(f, wave, record, kind, lane, address.to("u64"))
    f.ret(0)
    return f


def _local_base(
    f: Function, wave: Value, record: Value, space: str, addresses: Value, mask: Value, width: int, kind: int
) -> tuple[Value, Value, Value]:
    """Checks of an LDS or scratch access; (bytes, shadow, 64 u32 offsets)."""
    vector = f.load("u32", addresses, LANES, 64)
    if space == "lds":
        size = f.const(width, "u32")
        call_or_stop(f, "lds_log", [wave, record, addresses, mask, size, f.const(kind, "u32")])
        return f.load("ptr", f.at(wave, layout.LDS)), f.load("ptr", f.at(wave, layout.LDS_SHADOW)), vector
    limit = f.load("u32", f.at(wave, layout.SCRATCH_BYTES))
    _note_bytes(f, context_of(f, wave), vector, f.const(width, "u32"))
    bad = f.ballot(vector.to("u64") + width > limit.to("u64")) & mask
    with f.when(bad.ne(0), unlikely=True):
        lane = bad.ctz().to("u32")
        stop(f, wave, record, faults.SCRATCH_BOUNDS, lane, f.load("u32", f.at(addresses, lane, 4)).to("u64"))
    return (
        f.load("ptr", f.at(wave, layout.SCRATCH)),
        f.load("ptr", f.at(wave, layout.SCRATCH_SHADOW)),
        vector + f.lane_ids() * limit,
    )


def write_local_load(space: str, width: int) -> Function:
    f = helper(f"{space}_load_{width}", ("ptr", "addresses"), ("u64", "mask"), ("ptr", "target"))
    wave, record, addresses, mask, target = f.arguments
    base, _, offsets = _local_base(f, wave, record, space, addresses, mask, width, layout.LOG_READ)
    places = f.alloca(4 * LANES)
    # Inactive lanes read what lies behind LDS; scratch has a gap behind it too.
    idle = f.load("u32", f.at(wave, layout.LDS_BYTES if space == "lds" else layout.SCRATCH_BYTES))
    f.store(select(f.unballot(mask), offsets, idle), places)
    suspicious = load_registers(
        f, lambda lane: f.at(base, f.load("u32", f.at(places, 4 * lane))), width, target, mask, canary=True
    )
    assert suspicious is not None
    by_bytes = f.load("u32", f.at(context_of(f, wave), layout.BYTE_ACCESS)).ne(0)
    with f.when(suspicious | by_bytes, unlikely=True):
        call_or_stop(f, f"{space}_unwritten", [wave, record, addresses, mask, f.const(width, "u32")])
    f.ret(0)
    return f


def write_local_store(space: str, width: int) -> Function:
    f = helper(f"{space}_store_{width}", ("ptr", "addresses"), ("u64", "mask"), ("ptr", "source"))
    wave, record, addresses, mask, source = f.arguments
    base, shadow, offsets = _local_base(f, wave, record, space, addresses, mask, width, layout.LOG_WRITE)
    staging, places = f.alloca(LANES * row_bytes(width)), f.alloca(4 * LANES)
    gather_rows(f, source, width, staging)
    f.store(offsets, places)
    wide = width == 16
    changed = f.variable(f.widen(f.const(0, "u64"), 2 if wide else 1))

    def one(lane: Value, difference: Value) -> Value:
        offset = f.load("u32", f.at(places, lane, 4))
        target, state = f.at(base, offset), f.at(shadow, offset)
        row = f.at(staging, lane, row_bytes(width))
        if wide:
            value = f.load("u64", row, 2, align=16)
            difference = difference | (value ^ f.load("u64", target, 2, align=1))
            f.store(value, target, align=1)
            f.store(f.widen(f.const(-1, "u64"), 2), state, align=1)
            return difference
        for at, type_ in piece_types(width):
            value, there = f.load(type_, f.at(row, at), align=1), f.at(target, at)
            old = f.load(type_, there, align=1)
            difference = difference | _xor64(f, value, old)
            f.store(value, there, align=1)
            f.store(f.ones(type_), f.at(state, at), align=1)
        return difference

    with f.when(mask.eq(-1)), f.count(LANES // UNROLL, type_="u64") as chunk:
        difference = changed.get()
        for part in range(UNROLL):
            difference = one(chunk * UNROLL + part, difference)
        changed.set(difference)
    with f.when(mask.ne(-1)), f.bits_of(mask) as lane:
        changed.set(one(lane, changed.get()))
    if space == "lds":
        _same_everywhere(f, mask, base, places, staging, width)
        context = context_of(f, wave)
        last = f.load("u32", f.at(context, layout.LOG_COUNT)) - 1
        row = f.at(f.load("ptr", f.at(context, layout.LOG)), last, layout.LOG_RECORD_BYTES)
        total = f.reduce("or", changed.get()) if wide else changed.get()
        f.store(total.eq(0).to("u32"), f.at(row, layout.LOG_SILENT))
    f.ret(0)
    return f


def _same_everywhere(f: Function, mask: Value, base: Value, places: Value, staging: Value, width: int) -> None:
    """Stop unless LDS holds what every lane stored: lanes of one store that share a byte must agree."""
    wave, record = f.arguments[:2]
    lost = f.variable(f.const(0, "u64"))

    def one(lane: Value, difference: Value) -> Value:
        there, row = f.at(base, f.load("u32", f.at(places, lane, 4))), f.at(staging, lane, row_bytes(width))
        for at, type_ in piece_types(width):
            found, wanted = f.load(type_, f.at(there, at), align=1), f.load(type_, f.at(row, at), align=1)
            difference = difference | _xor64(f, found, wanted)
        return difference

    with f.when(mask.eq(-1)), f.count(LANES // UNROLL, type_="u64") as chunk:
        difference = lost.get()
        for part in range(UNROLL):
            difference = one(chunk * UNROLL + part, difference)
        lost.set(difference)
    with f.when(mask.ne(-1)), f.bits_of(mask) as lane:
        lost.set(one(lane, lost.get()))
    wrong = lost.get().ne(0)
    with f.when(wrong, unlikely=True), f.bits_of(mask) as lane, f.when(one(lane, f.const(0, "u64")).ne(0)):
        stop(f, wave, record, faults.CONFLICTING_STORES, lane, f.load("u32", f.at(places, lane, 4)).to("u64"))


def _xor64(f: Function, a: Value, b: Value) -> Value:
    if a.type == "u8":
        a, b = widened(f, a), widened(f, b)
    elif a.type == "u16":
        a, b = a.to("u32"), b.to("u32")
    mixed = a ^ b
    return mixed if mixed.type == "u64" else mixed.to("u64")


def write_global_load(width: int) -> Function:
    f = helper(f"global_load_{width}", ("ptr", "addresses"), ("u64", "mask"), ("ptr", "target"))
    wave, record, addresses, mask, target = f.arguments
    pointers = f.alloca(8 * LANES)
    call_or_stop(f, "global_pointers", [wave, record, addresses, mask, f.const(width, "u32"), pointers])
    load_registers(f, pointers_in(f, pointers), width, target, mask)
    f.ret(0)
    return f


def write_global_store(width: int) -> Function:
    f = helper(f"global_store_{width}", ("ptr", "addresses"), ("u64", "mask"), ("ptr", "source"))
    wave, record, addresses, mask, source = f.arguments
    pointers, staging = f.alloca(8 * LANES), f.alloca(LANES * row_bytes(width))
    call_or_stop(f, "global_pointers", [wave, record, addresses, mask, f.const(width, "u32"), pointers])
    gather_rows(f, source, width, staging)
    commit(f, width, staging, mask, pointers, f.load("u64", f.at(addresses, mask.ctz() & (LANES - 1), 8)))
    f.ret(0)
    return f


def write_global_pointers() -> Function:
    """Host pointers of 64 device addresses; inactive lanes point to zeros. All active lanes in one buffer is the fast
    case."""
    f = helper("global_pointers", ("ptr", "addresses"), ("u64", "mask"), ("u32", "size"), ("ptr", "pointers"))
    wave, record, addresses, mask, size, pointers = f.arguments
    zeros = f.address_of(f.load("ptr", f.at(context_of(f, wave), layout.ZEROS)))
    active = f.unballot(mask)
    vector = f.load("u64", addresses, LANES, 64)
    first = f.load("u64", f.at(addresses, mask.ctz() & (LANES - 1), 8))
    host, length, window = window_of(f, wave, first)
    offsets = vector - ((window << WINDOW_BITS) + LEAD)
    wide = size.to("u64")
    room = select(length >= wide, length - wide + 1, 0)
    inside = f.ballot(offsets < room) & mask
    f.store(select(active, offsets + host, zeros), pointers)
    with f.when(inside.ne(mask), unlikely=True), f.bits_of(mask) as lane:
        address = f.load("u64", f.at(addresses, lane, 8))
        call_or_stop(f, "resolve_global", [wave, record, address, size, lane, f.at(pointers, lane, 8)])
    f.ret(0)
    return f


def write_resolve_global() -> Function:
    """One device address to a host pointer."""
    f = helper("resolve_global", ("u64", "address"), ("u32", "size"), ("u32", "lane"), ("ptr", "outcome"))
    wave, record, address, size, lane, outcome = f.arguments
    host, length, window = window_of(f, wave, address)
    offset = address - ((window << WINDOW_BITS) + LEAD)
    wide = size.to("u64")
    bad = (length < wide) | (offset > length - wide)
    with f.when(bad, unlikely=True):
        stop(f, wave, record, faults.GLOBAL_BOUNDS, lane, address)
    f.store(host + offset, outcome)
    f.ret(0)
    return f


def write_resolve(name: str, atomic: bool) -> Function:
    """One lane's address in any space to a host pointer, with the checks of a read-modify-write or of a flat access."""
    extra = () if atomic else (("u32", "write"),)
    f = helper(name, ("u32", "space"), ("u64", "address"), ("u32", "size"), ("u32", "lane"), ("ptr", "outcome"), *extra)
    wave, record, space, address, size, lane, outcome = f.arguments[:7]
    high = (address >> 32).to("u32")
    flat = space.eq(3)
    is_lds = space.eq(1) | (flat & high.eq(SHARED_APERTURE))
    is_scratch = space.eq(2) | (flat & high.eq(PRIVATE_APERTURE))
    low = address.to("u32")
    if atomic:
        with f.when((low & (size - 1)).ne(0), unlikely=True):
            stop(f, wave, record, faults.MISALIGNED, lane, address)
    slot = f.alloca(layout.REGISTER_BYTES)
    one = f.const(1, "u64") << lane.to("u64")
    write = f.const(0, "u32") if atomic else f.arguments[7]
    with f.when(is_lds):
        f.store(low, f.at(slot, lane, 4))
        with f.when((low.to("u64") + size.to("u64")) > f.load("u32", f.at(wave, layout.LDS_BYTES)).to("u64")):
            stop(f, wave, record, faults.LDS_BOUNDS, lane, low.to("u64"))
        with f.when(flat):
            kind = f.const(layout.LOG_ATOMIC, "u32") if atomic else write
            call_or_stop(f, "lds_log", [wave, record, slot, one, size, kind])
        with f.when(write.eq(0)):
            call_or_stop(f, "lds_unwritten", [wave, record, slot, one, size])
        with f.when(write.ne(0)):
            _mark(f, f.at(f.load("ptr", f.at(wave, layout.LDS_SHADOW)), low), size)
        f.store(f.address_of(f.load("ptr", f.at(wave, layout.LDS))) + low.to("u64"), outcome)
        f.ret(0)
    with f.when(is_scratch):
        f.store(low, f.at(slot, lane, 4))
        limit = f.load("u32", f.at(wave, layout.SCRATCH_BYTES))
        _note_bytes(f, context_of(f, wave), low, size)
        with f.when((low.to("u64") + size.to("u64")) > limit.to("u64")):
            stop(f, wave, record, faults.SCRATCH_BOUNDS, lane, low.to("u64"))
        offset = low.to("u64") + (lane * limit).to("u64")
        with f.when(write.eq(0)):
            call_or_stop(f, "scratch_unwritten", [wave, record, slot, one, size])
        with f.when(write.ne(0)):
            _mark(f, f.at(f.load("ptr", f.at(wave, layout.SCRATCH_SHADOW)), offset), size)
        f.store(f.address_of(f.load("ptr", f.at(wave, layout.SCRATCH))) + offset, outcome)
        f.ret(0)
    f.ret(call(f, "resolve_global", [wave, record, address, size, lane, outcome]))
    return f


def _mark(f: Function, shadow: Value, size: Value) -> None:
    with f.count(size) as byte:
        f.store(f.ones("u8"), f.at(shadow, byte), align=1)


def write_flat(kind: str, width: int) -> Function:
    """Flat accesses go lane by lane: each may be in another space."""
    f = helper(f"flat_{kind}_{width}", ("ptr", "addresses"), ("u64", "mask"), ("ptr", "registers"))
    wave, record, addresses, mask, registers = f.arguments
    outcome, staging = f.alloca(8), f.alloca(LANES * row_bytes(width))
    pointers = f.alloca(8 * LANES)
    if kind == "store":
        gather_rows(f, registers, width, staging)
    size, space, write = f.const(width, "u32"), f.const(3, "u32"), f.const(int(kind == "store"), "u32")
    with f.bits_of(mask) as lane:
        address = f.load("u64", f.at(addresses, lane, 8))
        call_or_stop(f, "resolve", [wave, record, space, address, size, lane, outcome, write])
        place = f.load("ptr", outcome)
        if kind == "store":
            f.store(place, f.at(pointers, lane, 8))
            mapped = window_of(f, wave, address)[1].ne(0)
            with f.when(mapped):
                commit(f, width, staging, f.const(1, "u64") << lane.to("u64"), pointers, address)
            with f.when(~mapped):
                store_piece(f, staging, lane, width, place)
        else:
            row = f.at(staging, lane, row_bytes(width))
            for offset, type_ in piece_types(width):
                value = f.load(type_, f.at(place, offset), align=1)
                f.store(widened(f, value) if width < 4 else value, f.at(row, offset), align=4)
    if kind == "load":
        load_registers(f, rows_in(f, staging, max(4, width)), max(4, width), registers, mask)
    else:
        first = f.load("u64", f.at(addresses, mask.ctz() & (LANES - 1), 8))
        call_or_stop(f, "agree", [wave, record, staging, mask, pointers, first >> WINDOW_BITS, size])
    f.ret(0)
    return f


def write_scalar_load() -> Function:
    f = helper("scalar_load", ("u64", "address"), ("u64", "limit"), ("u32", "dwords"), ("ptr", "target"))
    wave, record, address, limit, dwords, target = f.arguments
    outcome = f.alloca(8)
    with f.count(dwords) as dword:
        at = address + (dword * 4).to("u64")
        value = f.variable(f.const(0, "u32"))
        with f.when(at + 4 <= limit):
            call_or_stop(f, "resolve_global", [wave, record, at, f.const(4, "u32"), f.const(-1, "u32"), outcome])
            value.set(f.load("u32", f.load("ptr", outcome), align=1))
        f.store(value.get(), f.at(target, dword, 4))
    f.ret(0)
    return f


def memory_functions() -> list[Function]:
    functions = [
        write_log(),
        write_unwritten("lds"),
        write_unwritten("scratch"),
        write_global_pointers(),
        write_resolve_global(),
        write_resolve("resolve", atomic=False),
        write_resolve("resolve_atomic", atomic=True),
        write_scalar_load(),
    ]
    for width in WIDTHS:
        for space in ("lds", "scratch"):
            functions += [write_local_load(space, width), write_local_store(space, width)]
        functions += [
            write_global_load(width),
            write_global_store(width),
            write_flat("load", width),
            write_flat("store", width),
        ]
    return functions
