"""The runtime of generated code: raw buffers and direct-to-LDS loads.

A raw buffer is range checked per dword (or per sub-dword access). The offset is VGPR offset + instruction offset; where
the sum passes 32 bits a program is at fault, since hardware wraps it in front of the check. Of the scalar offset, which
moves the address, there are two readings: an access is in range if offset + bytes <= records - scalar offset, or if
offset + bytes <= records. A run is told which one holds.
"""

from __future__ import annotations

from aot.emulator import faults
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.engine_llvm.runtime.core import call_or_stop, context_of, helper, stop
from aot.emulator.engine_llvm.runtime.memory import (
    gather_rows,
    load_registers,
    pointers_in,
    row_bytes,
    widened,
    window_of,
)
from aot.emulator.engine_llvm.runtime.names import WIDTHS
from aot.emulator.engine_llvm.runtime.stores import commit, piece_types
from aot.emulator.isa.values import LANES, Value, select
from aot.emulator.state import layout
from aot.emulator.state.memory import LEAD, WINDOW_BITS

_PARAMETERS = (("ptr", "resource"), ("u32", "soffset"), ("ptr", "offsets"), ("u64", "mask"))


def _resource(f: Function, wave: Value, record: Value, resource: Value, soffset: Value) -> tuple[Value, Value]:
    """(device address with the scalar offset, limit on offsets) of a raw buffer."""
    words = [f.load("u32", f.at(resource, 4 * i)) for i in range(4)]
    odd = (
        (words[1] >> 16)
        | (words[3] & layout.UNKNOWN_WORD3)
        | select((words[3] & layout.DATA_FORMAT).eq(0), f.const(1, "u32"), 0)
    )
    with f.when(odd.ne(0), unlikely=True):
        stop(f, wave, record, faults.BAD_RESOURCE)
    base = words[0].to("u64") | (words[1].to("u64") << 32)
    counted = soffset & f.load("u32", f.at(context_of(f, wave), layout.SCALAR_COUNTS))
    limit = select(words[2] > counted, words[2] - counted, 0).to("u64")
    return base + soffset.to("u64"), limit


def _offsets(f: Function, wave: Value, record: Value, offsets: Value, mask: Value) -> Value:
    """Offsets of all lanes; those of active ones must not pass 32 bits."""
    vector = f.load("u64", offsets, LANES, 64)
    wrapping = f.ballot((vector >> 32).ne(0)) & mask
    with f.when(wrapping.ne(0), unlikely=True):
        lane = wrapping.ctz().to("u32")
        stop(f, wave, record, faults.OFFSET_WRAPS, lane, f.load("u64", f.at(offsets, lane, 8)))
    return vector


def write_buffer_pointers() -> Function:
    """Host pointers of lanes that are wholly in range, zeros' address for others; `whole` and `partial` get the lane
    masks of accesses that are in range and of those that reach over the limit."""
    f = helper(
        "buffer_pointers", *_PARAMETERS, ("u32", "width"), ("ptr", "pointers"), ("ptr", "whole"), ("ptr", "partial")
    )
    wave, record, resource, soffset, offsets, mask, width, pointers, whole, partial = f.arguments
    base, limit = _resource(f, wave, record, resource, soffset)
    zeros = f.address_of(f.load("ptr", f.at(context_of(f, wave), layout.ZEROS)))
    vector = _offsets(f, wave, record, offsets, mask)
    wide = width.to("u64")
    room = select(limit >= wide, limit - wide + 1, 0)
    inside = f.ballot(vector < room) & mask
    piece = select(wide < 4, wide, f.const(4, "u64"))
    room_piece = select(limit >= piece, limit - piece + 1, 0)
    f.store(inside, whole)
    f.store(f.ballot(vector < room_piece) & mask & ~inside, partial)
    host, length, window = window_of(f, wave, base)
    start = base - ((window << WINDOW_BITS) + LEAD)
    places = vector + start
    room_host = select(length >= wide, length - wide + 1, 0)
    bad = inside & ~f.ballot(places < room_host)
    with f.when(bad.ne(0), unlikely=True):
        lane = bad.ctz().to("u32")
        stop(f, wave, record, faults.GLOBAL_BOUNDS, lane, base + f.load("u64", f.at(offsets, lane, 8)))
    f.store(select(f.unballot(inside), places + host, zeros), pointers)
    f.ret(0)
    return f


def _partial(
    f: Function,
    record: Value,
    wave: Value,
    resource: Value,
    soffset: Value,
    offsets: Value,
    partial: Value,
    width: int,
    staging: Value,
    store: bool,
) -> None:
    """Lanes that reach over the limit: dword by dword."""
    base, limit = _resource(f, wave, record, resource, soffset)
    outcome, one, spot = f.alloca(8), f.alloca(4 * LANES), f.alloca(8 * LANES)
    with f.bits_of(partial) as lane, f.count(width // 4) as dword:
        offset = f.load("u64", f.at(offsets, lane, 8)) + (dword * 4).to("u64")
        with f.when(offset + 4 <= limit):
            call_or_stop(f, "resolve_global", [wave, record, base + offset, f.const(4, "u32"), lane, outcome])
            row = f.at(f.at(staging, lane, row_bytes(width)), dword, 4)
            place = f.load("ptr", outcome)
            if store:
                f.store(f.load("u32", row, align=4), f.at(one, lane, 4))
                f.store(place, f.at(spot, lane, 8))
                commit(f, 4, one, f.const(1, "u64") << lane.to("u64"), spot, base)
            else:
                f.store(f.load("u32", place, align=1), row, align=4)


def write_buffer_access(kind: str, width: int) -> Function:
    f = helper(f"buffer_{kind}_{width}", *_PARAMETERS, ("ptr", "registers"))
    wave, record, resource, soffset, offsets, mask, registers = f.arguments
    pointers, whole, partial = f.alloca(8 * LANES), f.alloca(8), f.alloca(8)
    staging = f.alloca(LANES * row_bytes(width))
    call_or_stop(f, "buffer_pointers", [*f.arguments[:6], f.const(width, "u32"), pointers, whole, partial])
    rest = f.load("u64", partial)
    if kind == "load":
        if width > 4:
            # Lanes that reach over the limit read from the staging area, where what they may read is put among zeros.
            with f.when(rest.ne(0), unlikely=True):
                with f.bits_of(rest) as lane:
                    row = f.at(staging, lane, width)
                    f.store(f.widen(f.const(0, "u32"), width // 4), row, align=4)
                    f.store(f.address_of(row), f.at(pointers, lane, 8))
                _partial(f, record, wave, resource, soffset, offsets, rest, width, staging, store=False)
        load_registers(f, pointers_in(f, pointers), width, registers, mask)
        f.ret(0)
        return f
    gather_rows(f, registers, width, staging)
    if width > 4:
        with f.when(rest.ne(0), unlikely=True):
            _partial(f, record, wave, resource, soffset, offsets, rest, width, staging, store=True)
    commit(f, width, staging, f.load("u64", whole), pointers, _resource(f, wave, record, resource, soffset)[0])
    f.ret(0)
    return f


def write_buffer_addresses() -> Function:
    """Device addresses for atomics, and the mask of lanes that are in range (others do nothing)."""
    f = helper("buffer_addresses", *_PARAMETERS, ("u32", "width"), ("ptr", "addresses"), ("ptr", "live"))
    wave, record, resource, soffset, offsets, mask, width, addresses, live = f.arguments
    base, limit = _resource(f, wave, record, resource, soffset)
    vector = _offsets(f, wave, record, offsets, mask)
    f.store(f.ballot(vector + width.to("u64") <= limit) & mask, live)
    f.store(vector + base, addresses)
    f.ret(0)
    return f


def _check_sources(f: Function, wave: Value, record: Value, sources: Value, mask: Value, width: Value) -> None:
    """Direct loads fetch whole dwords, or aligned parts of one."""
    crooked = f.ballot((sources & (select(width < 4, width, f.const(4, "u32")) - 1).to("u64")).ne(0)) & mask
    with f.when(crooked.ne(0), unlikely=True):
        lane = crooked.ctz().to("u32")
        places = f.alloca(8 * LANES)
        f.store(sources, places)
        stop(f, wave, record, faults.MISALIGNED_DIRECT, lane, f.load("u64", f.at(places, lane, 8)))


def write_direct(space: str) -> Function:
    """Start a direct-to-LDS load: fetch the bytes now, poison their place, deliver them at the wait that completes it.
    `code`: bytes, 0x100 for sign extension of a sub-dword."""
    parameters = _PARAMETERS if space == "buffer" else (("ptr", "addresses"), ("u64", "mask"))
    f = helper(f"{space}_direct", *parameters, ("u32", "code"), ("u32", "base"))
    wave, record = f.arguments[:2]
    mask, code, base = f.arguments[-3:]
    width = code & 0xFF
    # Dwords land in dwords, pieces of 16 bytes in places that are aligned alike.
    step = select(width.eq(16), f.const(16, "u32"), 4)
    crooked = (base & (step - 1)) | (f.load("u32", f.at(wave, 4 * layout.M0)) & 3)
    with f.when(crooked.ne(0), unlikely=True):
        stop(f, wave, record, faults.MISALIGNED_DIRECT, -1, base.to("u64"))
    with f.when(f.load("u32", f.at(wave, layout.VM_COUNT)) >= layout.QUEUE_ENTRIES - 1, unlikely=True):
        call_or_stop(f, "wait", [wave, record, f.const(layout.QUEUE_ENTRIES - 2, "u32"), f.const(-1, "u32")])
    slot = (f.load("u32", f.at(wave, layout.VM_HEAD)) + f.load("u32", f.at(wave, layout.VM_COUNT))) & (
        layout.QUEUE_ENTRIES - 1
    )
    direct = f.at(f.load("ptr", f.at(wave, layout.DIRECT)), slot, layout.DIRECT_BYTES)
    size = select(width < 4, f.const(4, "u32"), width)
    f.store(mask, f.at(direct, layout.DIRECT_MASK))
    f.store(size, f.at(direct, layout.DIRECT_SIZE))
    f.store(base, f.at(direct, layout.DIRECT_BASE))
    targets = f.alloca(4 * LANES)
    f.store(f.lane_ids() * size + base, targets)
    call_or_stop(f, "lds_log", [wave, record, targets, mask, size, f.const(layout.LOG_WRITE, "u32")])
    pointers, whole, partial = f.alloca(8 * LANES), f.alloca(8), f.alloca(8)
    data = f.at(direct, layout.DIRECT_DATA)
    if space == "buffer":
        resource, soffset, offsets = f.arguments[2:5]
        call_or_stop(
            f, "buffer_pointers", [wave, record, resource, soffset, offsets, mask, width, pointers, whole, partial]
        )
        base_address, limit = _resource(f, wave, record, resource, soffset)
        sources = f.load("u64", offsets, LANES, 64) + base_address
        _check_sources(f, wave, record, sources, f.load("u64", whole) | f.load("u64", partial), width)
    else:
        call_or_stop(f, "global_pointers", [wave, record, f.arguments[2], mask, width, pointers])
        _check_sources(f, wave, record, f.load("u64", f.arguments[2], LANES, 64), mask, width)
    for known in (1, 2, 4, 12, 16):
        with f.when(width.eq(known)), f.bits_of(mask) as lane:
            source, row = f.load("ptr", f.at(pointers, lane, 8)), f.at(data, lane, 16)
            if known < 4:
                raw = f.load("u8" if known == 1 else "u16", source, align=1)
                wide = widened(f, raw)
                shift = 32 - 8 * known
                signed = (wide.cast("i32") << shift >> shift).cast("u32")
                f.store(select((code & 0x100).ne(0), signed, wide), row)
            else:
                for at, type_ in piece_types(known):
                    f.store(f.load(type_, f.at(source, at), align=1), f.at(row, at), align=4)
    if space == "buffer":
        rest = f.load("u64", partial)
        outcome = f.alloca(8)
        with f.when(rest.ne(0), unlikely=True), f.bits_of(rest) as lane, f.count(width >> 2) as dword:
            offset = f.load("u64", f.at(offsets, lane, 8)) + (dword * 4).to("u64")
            with f.when(offset + 4 <= limit):
                call_or_stop(
                    f, "resolve_global", [wave, record, base_address + offset, f.const(4, "u32"), lane, outcome]
                )
                f.store(f.load("u32", f.load("ptr", outcome), align=1), f.at(f.at(data, lane, 16), dword, 4))
    lds, shadow = f.load("ptr", f.at(wave, layout.LDS)), f.load("ptr", f.at(wave, layout.LDS_SHADOW))
    with f.bits_of(mask) as lane, f.count(size >> 2) as dword:
        place = base + lane * size + dword * 4
        f.store(f.const(layout.CANARY_WORD, "u32"), f.at(lds, place), align=1)
        f.store(f.const(layout.IN_FLIGHT_WORD, "u32"), f.at(shadow, place), align=1)
    call_or_stop(f, "overtaken", [wave, record, base, base + size * LANES])
    f.ret(0)
    return f


def buffer_functions() -> list[Function]:
    functions = [write_buffer_pointers(), write_buffer_addresses(), write_direct("buffer"), write_direct("global")]
    for width in WIDTHS:
        functions += [write_buffer_access("load", width), write_buffer_access("store", width)]
    return functions
