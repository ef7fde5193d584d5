"""The runtime of generated code: a workgroup from start to end, barrier by barrier, and the search for races
between."""

from __future__ import annotations

from aot.emulator import faults
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.engine_llvm.runtime.core import call
from aot.emulator.engine_llvm.runtime.stores import start_stores
from aot.emulator.isa.values import Value, select
from aot.emulator.state import layout

_STEP = 16


def _log_row(f: Function, log: Value, number: Value) -> Value:
    return f.at(log, number, layout.LOG_RECORD_BYTES)


def write_run_group() -> Function:
    """Run all waves of a workgroup to their end. Returns 0 or a way to stop."""
    f = Function("rt_run_group", [("ptr", "c")])
    context = f.arguments[0]
    waves = f.load("ptr", f.at(context, layout.WAVES))
    number = f.load("u32", f.at(context, layout.WAVE_COUNT))
    order = f.load("ptr", f.at(context, layout.ORDER))
    logged = f.load("u32", f.at(context, layout.LOGGED)).ne(0)
    start_stores(f, context, waves, number)
    head, after = f.label(), f.label()
    f.jump(head)
    f.place(head)
    _shuffle(f, context, order, number)
    waiting = f.variable(f.const(0, "u32"))
    waiting.set(f.const(0, "u32"))
    with f.count(number) as position:
        wave = f.load("ptr", f.at(waves, f.load("u32", f.at(order, position, 4)), 8))
        status = f.at(wave, layout.STATUS)
        with f.when(f.load("u32", status).eq(0)):
            record = f.load("ptr", f.at(wave, layout.PC))
            result = f.call_pointer(f.load("ptr", record), [wave, record])
            with f.when(result > layout.ENDED, unlikely=True):
                f.ret(result)
            f.store(result.eq(layout.ENDED).to("u32"), status)
            waiting.set(waiting.get() + result.eq(layout.AT_BARRIER).to("u32"))
    with f.when(number > 1):
        race = call(f, "find_race", [context])
        with f.when(race.ne(0), unlikely=True):
            f.ret(race)
    with f.when(logged):
        call(f, "carry", [context, f.const(0, "u32")])
        f.store(f.const(0, "u32"), f.at(context, layout.FOLDED))
    with f.when(~logged):
        f.store(f.const(0, "u32"), f.at(context, layout.LOG_COUNT))
    call(f, "settle_stores", [context])
    f.branch(waiting.get().ne(0), head, after)
    f.place(after)
    f.ret(0)
    return f


def _shuffle(f: Function, context: Value, order: Value, number: Value) -> None:
    """A random permutation (Fisher-Yates, xorshift)."""
    place = f.at(context, layout.RANDOM)
    with f.count(number) as position:
        f.store(position, f.at(order, position, 4))
    with f.count(number, 1) as position:
        state = f.load("u64", place)
        state = state ^ (state << 13)
        state = state ^ (state >> 7)
        state = state ^ (state << 17)
        f.store(state, place)
        pick = f.assign(f"urem i64 {(state >> 11).ref}, {(position + 1).to('u64').ref}", "u64", 1).to("u32")
        a, b = f.at(order, position, 4), f.at(order, pick, 4)
        x, y = f.load("u32", a), f.load("u32", b)
        f.store(y, a)
        f.store(x, b)


def write_find_race() -> Function:
    """Ranges first: only if accesses that could race overlap as ranges are bytes compared.

    Every access that writes is compared, 16 at a time, with those before it (with all, if reads share its range).
    """
    f = Function("rt_find_race", [("ptr", "c")])
    context = f.arguments[0]
    with f.when(f.load("u32", f.at(context, layout.FOLDED)).ne(0), unlikely=True):
        f.ret(call(f, "exact_race", [context]))
    log, number = f.load("ptr", f.at(context, layout.LOG)), f.load("u32", f.at(context, layout.LOG_COUNT))
    columns = f.load("ptr", f.at(context, layout.LOG_COLUMNS))
    lows, highs, tags = (f.at(columns, layout.COLUMN_BYTES * i) for i in range(3))
    read_low, read_high = f.variable(f.const(-1, "u32")), f.variable(f.const(0, "u32"))
    write_low, write_high = f.variable(f.const(-1, "u32")), f.variable(f.const(0, "u32"))
    with f.count(number) as at:
        row = _log_row(f, log, at)
        low, high = f.load("u32", f.at(row, layout.LOG_LOW)), f.load("u32", f.at(row, layout.LOG_HIGH))
        kind = f.load("u32", f.at(row, layout.LOG_KIND))
        f.store(low, f.at(lows, at, 4))
        f.store(high, f.at(highs, at, 4))
        f.store(f.load("u32", f.at(row, layout.LOG_WAVE)) | (kind << 16), f.at(tags, at, 4))
        is_read = kind.eq(layout.LOG_READ)
        read_low.set(select(is_read, read_low.get().min(low), read_low.get()))
        read_high.set(select(is_read, read_high.get().max(high), read_high.get()))
        write_low.set(select(is_read, write_low.get(), write_low.get().min(low)))
        write_high.set(select(is_read, write_high.get(), write_high.get().max(high)))
    with f.when(write_high.get().eq(0)):
        f.ret(0)
    mixed = (read_low.get() < write_high.get()) & (write_low.get() < read_high.get())
    ids = f.lane_constants(range(_STEP), "u32")
    with f.count(number) as at:
        tag = f.load("u32", f.at(tags, at, 4))
        kind = tag >> 16
        with f.when(kind.ne(layout.LOG_READ)):
            low, high = f.load("u32", f.at(lows, at, 4)), f.load("u32", f.at(highs, at, 4))
            silent = f.load("u32", f.at(_log_row(f, log, at), layout.LOG_SILENT)).ne(0)
            end = select(mixed, number, at)
            with f.count((end + _STEP - 1) >> 4) as step:
                first = step << 4
                place = first.to("u64")
                other_low, other_high, other_tag = (
                    f.load("u32", f.at(c, place, 4), _STEP, 64) for c in (lows, highs, tags)
                )
                numbers = ids + first
                other_kind = other_tag >> 16
                clash = (other_low < high) & (other_high > low) & ((other_tag ^ tag) & 0xFFFF).ne(0) & (numbers < end)
                # Atomics do not race with atomics, and the same bytes written again change nothing.
                clash = clash & ~(other_kind & kind & layout.LOG_ATOMIC).ne(0)
                earlier = numbers < at
                writes = other_kind.ne(layout.LOG_READ)
                benign = other_kind.eq(layout.LOG_WRITE) & earlier & silent
                clash = clash & ~benign & ~(writes & ~earlier)
                with f.when(f.reduce("or", clash), unlikely=True):
                    f.ret(call(f, "exact_race", [context]))
    f.ret(0)
    return f


def write_exact_race() -> Function:
    """Byte owners: plain writes in one map, atomics in another, then reads against both.

    Reads have a map too, for the accesses that follow once records of the interval were folded.
    """
    f = Function("rt_exact_race", [("ptr", "c")])
    context = f.arguments[0]
    log, number = f.load("ptr", f.at(context, layout.LOG)), f.load("u32", f.at(context, layout.LOG_COUNT))
    owners = f.load("ptr", f.at(context, layout.OWNERS))
    wave0 = f.load("ptr", f.load("ptr", f.at(context, layout.WAVES)))
    half = (f.load("u32", f.at(wave0, layout.LDS_BYTES)) + 64).to("u64")
    with f.when(f.load("u32", f.at(context, layout.FOLDED)).eq(0)):
        f.emit(f"call void @llvm.memset.p0.i64(ptr {owners.ref}, i8 0, i64 {(half * 3).ref}, i1 false)")
    f._declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    maps = {
        layout.LOG_WRITE: owners,
        layout.LOG_ATOMIC: f.at(owners, half),
        layout.LOG_READ: f.at(owners, half * 2),
    }
    for wanted in (layout.LOG_WRITE, layout.LOG_ATOMIC, layout.LOG_READ):
        with f.count(number) as at:
            row = _log_row(f, log, at)
            fresh = f.load("u32", f.at(row, layout.LOG_FOLDED)).eq(0)
            with f.when(fresh & f.load("u32", f.at(row, layout.LOG_KIND)).eq(wanted)):
                wave, size = f.load("u32", f.at(row, layout.LOG_WAVE)), f.load("u32", f.at(row, layout.LOG_SIZE))
                own = wave + 1
                silent = f.load("u32", f.at(row, layout.LOG_SILENT)).ne(0)
                with f.bits_of(f.load("u64", f.at(row, layout.LOG_MASK))) as lane, f.count(size) as byte:
                    address = f.load("u32", f.at(f.at(row, layout.LOG_ADDRESSES), lane, 4)) + byte
                    found = {kind: f.load_byte(f.at(place, address)) for kind, place in maps.items()}
                    foreign = {kind: owner.ne(0) & owner.ne(own) for kind, owner in found.items()}
                    clash = foreign[layout.LOG_WRITE]
                    if wanted == layout.LOG_WRITE:
                        clash = clash & ~silent
                    for kind in (layout.LOG_READ, layout.LOG_ATOMIC):
                        if kind != wanted:
                            clash = clash | foreign[kind]
                    with f.when(clash, unlikely=True):
                        for place, value in (
                            (layout.FAULT_KIND, f.const(faults.LDS_RACE, "u32")),
                            (layout.FAULT_LANE, lane),
                            (layout.FAULT_WAVE, wave),
                        ):
                            f.store(value, f.at(context, place))
                        f.store(f.load("u32", f.at(row, layout.LOG_INSTRUCTION)), f.at(context, layout.FAULT_INDEX))
                        f.store(address.to("u64"), f.at(context, layout.FAULT_ADDRESS))
                        f.ret(layout.FAULTED)
                    owner = own
                    if wanted == layout.LOG_READ:
                        owner = select(foreign[wanted], f.const(layout.SEVERAL, "u32"), own)
                    f.store_byte(owner, f.at(maps[wanted], address))
    f.ret(0)
    return f


def write_fold() -> Function:
    """Make room in the log of an interval: its accesses go into the maps of bytes. Returns 0 or a way to stop.

    Accesses that are still outstanding keep their records, as those may reach into the next interval.
    """
    f = Function("rt_fold", [("ptr", "c")])
    context = f.arguments[0]
    race = call(f, "exact_race", [context])
    with f.when(race.ne(0), unlikely=True):
        f.ret(race)
    call(f, "carry", [context, f.const(1, "u32")])
    f.store(f.const(1, "u32"), f.at(context, layout.FOLDED))
    f.ret(0)
    return f


def write_carry() -> Function:
    """Start the next log with the accesses still outstanding, marked as folded or as those of a new interval."""
    f = Function("rt_carry", [("ptr", "c"), ("u32", "folded")])
    context, folded = f.arguments
    log, other = f.load("ptr", f.at(context, layout.LOG)), f.load("ptr", f.at(context, layout.LOG_OTHER))
    waves = f.load("ptr", f.at(context, layout.WAVES))
    kept = f.variable(f.const(0, "u32"))
    with f.count(f.load("u32", f.at(context, layout.WAVE_COUNT))) as position:
        wave = f.load("ptr", f.at(waves, position, 8))
        for queue, head, count in (
            (layout.VM_QUEUE, layout.VM_HEAD, layout.VM_COUNT),
            (layout.LGKM_QUEUE, layout.LGKM_HEAD, layout.LGKM_COUNT),
        ):
            first = f.load("u32", f.at(wave, head))
            with f.count(f.load("u32", f.at(wave, count))) as number:
                entry = f.at(f.at(wave, queue), (first + number) & (layout.QUEUE_ENTRIES - 1), layout.ENTRY_BYTES)
                start, logs = f.load("u32", f.at(entry, 8)), f.load("u32", f.at(entry, 12))
                f.store(kept.get(), f.at(entry, 8))
                with f.count(logs) as record:
                    source = _log_row(f, log, start + record)
                    target = _log_row(f, other, kept.get())
                    for offset in range(0, layout.LOG_RECORD_BYTES, 64):
                        f.store(f.load("u32", f.at(source, offset), 16, 64), f.at(target, offset), align=64)
                    f.store(folded, f.at(target, layout.LOG_FOLDED))
                    kept.set(kept.get() + 1)
    f.store(kept.get(), f.at(context, layout.LOG_COUNT))
    f.store(other, f.at(context, layout.LOG))
    f.store(log, f.at(context, layout.LOG_OTHER))
    f.ret(0)
    return f


def schedule_functions() -> list[Function]:
    return [write_run_group(), write_find_race(), write_exact_race(), write_fold(), write_carry()]
