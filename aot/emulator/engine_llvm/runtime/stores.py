"""The runtime of generated code: stores to device memory, and who stored what before. The model is that of `stores`.

Each byte of a mapped buffer has a u32 token of the last store to it; one of an earlier launch counts as none.
"""

from __future__ import annotations

from collections.abc import Callable

from aot.emulator import faults
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.engine_llvm.runtime.core import call, call_or_stop, context_of, helper, stop
from aot.emulator.engine_llvm.runtime.names import WIDTHS
from aot.emulator.isa.values import LANES, Value, select
from aot.emulator.state import layout
from aot.emulator.state.memory import LEAD, MAX_BUFFERS, WINDOW_BITS
from aot.emulator.state.stores import TOKEN_BYTES

UNROLL = 8
_PARAMETERS = (("ptr", "staging"), ("u64", "mask"), ("ptr", "pointers"), ("u64", "window"))


def piece_types(width: int) -> list[tuple[int, str]]:
    """(offset, type) of the scalar pieces that make up a lane's bytes."""
    return {
        1: [(0, "u8")],
        2: [(0, "u16")],
        4: [(0, "u32")],
        8: [(0, "u64")],
        12: [(0, "u64"), (8, "u32")],
        16: [(0, "u64"), (8, "u64")],
    }[width]


def commit(f: Function, width: int, staging: Value, mask: Value, pointers: Value, address: Value) -> None:
    """Store rows of `width` bytes, one of every max(4, width), from a staging area to 64 host pointers under a lane
    mask, and stop at stores that conflict. `address` is a device address in the buffer of most lanes."""
    wave, record = f.arguments[:2]
    call_or_stop(f, f"commit_{width}", [wave, record, staging, mask, pointers, address >> WINDOW_BITS])


class _Places:
    """From the host pointer of a lane to the tokens of its bytes."""

    def __init__(self, f: Function, context: Value, window: Value) -> None:
        self.f = f
        self.start = (window << WINDOW_BITS) + LEAD
        number = select(window <= MAX_BUFFERS, window, 0)
        self.host = f.load("u64", f.at(f.load("ptr", f.at(context, layout.MEMORY_TABLE)), number, 16))
        self.length = f.load("u64", f.at(f.at(f.load("ptr", f.at(context, layout.MEMORY_TABLE)), number, 16), 8))
        self.tokens = f.load("ptr", f.at(f.load("ptr", f.at(context, layout.STORE_TABLE)), number, 8))

    def token(self, pointer: Value) -> Value:
        return self.f.at(self.tokens, pointer - self.host, TOKEN_BYTES)

    def outside(self, pointer: Value) -> Value:
        return pointer - self.host >= self.length

    def address(self, pointer: Value) -> Value:
        return pointer - self.host + self.start


def _token_groups(width: int) -> list[tuple[int, int]]:
    """(first byte, bytes) of the vectors in which the tokens of a lane are taken."""
    return [(at, 4) for at in range(0, width, 4)] if width >= 4 else [(0, width)]


def _old_tokens(f: Function, shadow: Value, width: int) -> Value:
    """The largest tokens of a lane's bytes, as one vector."""
    total: Value | None = None
    for at, count in _token_groups(width):
        part = f.load("u32", f.at(shadow, TOKEN_BYTES * at), count, align=TOKEN_BYTES)
        total = part if total is None else total.max(part)
    assert total is not None
    return total


def _any(f: Function, value: Value, launch: Value) -> Value:
    """Whether any token is of this launch."""
    return (value if value.lanes == 1 else f.reduce("umax", value)) >= launch


def _each_lane(f: Function, mask: Value, body: Callable[[Value], None]) -> None:
    """The body for every lane of a mask, unrolled where all are on."""
    with f.when(mask.eq(-1)), f.count(LANES // UNROLL, type_="u64") as chunk:
        for part in range(UNROLL):
            body(chunk * UNROLL + part)
    with f.when(mask.ne(-1)), f.bits_of(mask) as lane:
        body(lane)


def write_commit(width: int) -> Function:
    """The fast case: all lanes in one buffer, whose bytes this launch stores for the first time."""
    f = helper(f"commit_{width}", *_PARAMETERS)
    wave, record, staging, mask, pointers, window = f.arguments
    context = context_of(f, wave)
    places = _Places(f, context, window)
    token = f.load("u32", f.at(wave, layout.STORE_TOKEN))
    launch = f.load("u32", f.at(context, layout.LAUNCH_TOKEN))
    groups = _token_groups(width)
    inside = f.ballot(~places.outside(f.load("u64", pointers, LANES, 64))) & mask
    earlier = f.variable(f.widen(f.const(0, "u32"), groups[0][1]))
    slow = f.variable(inside.ne(mask).to("u32"))
    with f.when(slow.get().eq(0)):
        if width <= 2:
            slow.set(_gathered(f, places, pointers, mask, width, launch).to("u32"))
        else:

            def look(lane: Value) -> None:
                shadow = places.token(f.load("u64", f.at(pointers, lane, 8)))
                earlier.set(earlier.get().max(_old_tokens(f, shadow, width)))

            _each_lane(f, mask, look)
            slow.set(_any(f, earlier.get(), launch).to("u32"))
    with f.when(slow.get().ne(0), unlikely=True):
        f.ret(call(f, "commit_slowly", [wave, record, staging, mask, pointers, window, f.const(width, "u32")]))

    def store(lane: Value) -> None:
        shadow = places.token(f.load("u64", f.at(pointers, lane, 8)))
        earlier.set(earlier.get().max(_old_tokens(f, shadow, width)))
        for at, count in groups:
            f.store(f.widen(token, count), f.at(shadow, TOKEN_BYTES * at), align=TOKEN_BYTES)
        row, target = f.at(staging, lane, max(4, width)), f.load("ptr", f.at(pointers, lane, 8))
        for at, type_ in piece_types(width):
            f.store(f.load(type_, f.at(row, at), align=1), f.at(target, at), align=1)

    _each_lane(f, mask, store)
    with f.when(_any(f, earlier.get(), launch), unlikely=True):
        # Lanes of this instruction share bytes, else none had a token: compare what is there now.
        call_or_stop(f, "agree", [wave, record, staging, mask, pointers, window, f.const(width, "u32")])
    f.ret(0)
    return f


def _gathered(f: Function, places: _Places, pointers: Value, mask: Value, width: int, launch: Value) -> Value:
    """Whether any byte of 64 narrow places has a token of this launch, in a few wide loads."""
    type_ = {1: "u32", 2: "u64"}[width]
    offsets = (f.load("u64", pointers, LANES, 64) - places.host) * TOKEN_BYTES
    shadows = f.assign(f"getelementptr i8, ptr {places.tokens.ref}, <{LANES} x i64> {offsets.ref}", "ptr", LANES)
    nothing = Value(f, type_, LANES, "zeroinitializer")
    kind = f"i{TOKEN_BYTES * 8 * width}"
    found = f.call(
        f"llvm.masked.gather.v{LANES}{kind}.v{LANES}p0",
        type_,
        LANES,
        [shadows, f"i32 {TOKEN_BYTES}", f.unballot(mask), nothing],
    )
    halves = [found] if width == 1 else [found.to("u32"), (found >> 32).to("u32")]
    return f.reduce("or", halves[0] >= launch) if width == 1 else f.reduce("or", (halves[0].max(halves[1])) >= launch)


def write_agree() -> Function:
    """Whether memory holds what every lane stored: lanes of one instruction that store to one byte must agree."""
    f = helper("agree", *_PARAMETERS, ("u32", "width"))
    wave, record, staging, mask, pointers, window, width = f.arguments
    places = _Places(f, context_of(f, wave), window)
    stride = select(width < 4, f.const(4, "u32"), width)
    with f.bits_of(mask) as lane, f.count(width) as byte:
        pointer, target = f.load("u64", f.at(pointers, lane, 8)), f.load("ptr", f.at(pointers, lane, 8))
        wanted = f.load_byte(f.at(staging, lane * stride + byte))
        with f.when(f.load_byte(f.at(target, byte)).ne(wanted), unlikely=True):
            stop(f, wave, record, faults.CONFLICTING_STORES, lane, places.address(pointer) + byte.to("u64"))
    f.ret(0)
    return f


def write_commit_slowly() -> Function:
    """Byte by byte, in any buffers, over earlier stores."""
    f = helper("commit_slowly", *_PARAMETERS, ("u32", "width"))
    wave, record, staging, mask, pointers, window, width = f.arguments
    context = context_of(f, wave)
    own = f.load("u32", f.at(wave, layout.STORE_TOKEN))
    launch, group, shared = (
        f.load("u32", f.at(context, place)) for place in (layout.LAUNCH_TOKEN, layout.GROUP_TOKEN, layout.SHARED_TOKEN)
    )
    stride = select(width < 4, f.const(4, "u32"), width)
    number = f.variable(window)
    with f.bits_of(mask) as lane:
        pointer, target = f.load("u64", f.at(pointers, lane, 8)), f.load("ptr", f.at(pointers, lane, 8))
        in_another = _Places(f, context, number.get()).outside(pointer)
        with (
            f.when(in_another),
            f.count(MAX_BUFFERS + 1, 1, "u64") as other,
            f.when(~_Places(f, context, other).outside(pointer)),
        ):
            number.set(other)
        places = _Places(f, context, number.get())
        with f.count(width) as byte:
            there, shadow = f.at(target, byte), f.at(places.token(pointer), byte, TOKEN_BYTES)
            value, token = f.load_byte(f.at(staging, lane * stride + byte)), f.load("u32", shadow)
            differs = f.load_byte(there).ne(value)
            elsewhere = token < group
            unordered = f.variable((elsewhere | token.eq(shared)).to("u32"))
            with f.count(f.load("u32", f.at(context, layout.WAVE_COUNT))) as position:
                wave_there = f.load("ptr", f.at(f.load("ptr", f.at(context, layout.WAVES)), position, 8))
                current = f.load("u32", f.at(wave_there, layout.STORE_TOKEN)).eq(token)
                unordered.set(unordered.get() | current.to("u32"))
            clash = (token >= launch) & token.ne(own) & unordered.get().ne(0)
            with f.when(clash & differs, unlikely=True):
                stop(f, wave, record, faults.CONFLICTING_STORES, lane, places.address(pointer) + byte.to("u64"))
            several = select(elsewhere, launch, shared)
            f.store(select(clash, several, own), shadow)
            f.store_byte(value, there)
    f.ret(call(f, "agree", f.arguments))
    return f


def write_settle_stores() -> Function:
    """At a barrier: stores of a wave that has waited for them are ordered before what follows."""
    f = Function("rt_settle_stores", [("ptr", "c")])
    context = f.arguments[0]
    waves = f.load("ptr", f.at(context, layout.WAVES))
    outstanding = f.variable(f.const(0, "u32"))
    with f.count(f.load("u32", f.at(context, layout.WAVE_COUNT))) as position:
        wave = f.load("ptr", f.at(waves, position, 8))
        last = f.load("u32", f.at(wave, layout.LAST_STORE))
        with f.when(last.ne(0)):
            open_ = last + f.load("u32", f.at(wave, layout.VM_COUNT)) > f.load("u32", f.at(wave, layout.VM_ISSUED))
            outstanding.set(outstanding.get() | open_.to("u32"))
            with f.when(~open_):
                f.store(f.const(0, "u32"), f.at(wave, layout.LAST_STORE))
                _new_token(f, context, f.at(wave, layout.STORE_TOKEN))
    with f.when(outstanding.get().eq(0)):
        _new_token(f, context, f.at(context, layout.SHARED_TOKEN))
    f.ret(0)
    return f


def start_stores(f: Function, context: Value, waves: Value, number: Value) -> None:
    """A workgroup begins: tokens for its waves."""
    f.store(f.load("u32", f.at(context, layout.NEXT_TOKEN)), f.at(context, layout.GROUP_TOKEN))
    _new_token(f, context, f.at(context, layout.SHARED_TOKEN))
    with f.count(number) as position:
        _new_token(f, context, f.at(f.load("ptr", f.at(waves, position, 8)), layout.STORE_TOKEN))


def _new_token(f: Function, context: Value, place: Value) -> None:
    token = f.load("u32", f.at(context, layout.NEXT_TOKEN))
    f.store(token, place)
    f.store(token + 1, f.at(context, layout.NEXT_TOKEN))


def store_functions() -> list[Function]:
    return [write_agree(), write_commit_slowly(), write_settle_stores(), *(write_commit(width) for width in WIDTHS)]
