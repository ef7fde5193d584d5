"""The runtime of generated code: faults, registers in flight, wait queues. The model is that of
`engine_numpy.sanitizer`."""

from __future__ import annotations

from aot.emulator import faults
from aot.emulator.engine_llvm.ops import Function
from aot.emulator.isa.values import Value
from aot.emulator.state import layout

WAVE_RECORD = (("ptr", "w"), ("ptr", "i"))


def context_of(f: Function, wave: Value) -> Value:
    return f.load("ptr", f.at(wave, layout.CONTEXT))


def helper(name: str, *parameters: tuple[str, str]) -> Function:
    return Function(f"rt_{name}", [*WAVE_RECORD, *parameters])


def call(f: Function, name: str, operands: list[Value]) -> Value:
    """Call another runtime function of the same module."""
    texts = ", ".join(f"{_TYPES[o.type]} {o.ref}" for o in operands)
    return f.assign(f"call i32 @rt_{name}({texts})", "u32", 1)


_TYPES = {"ptr": "ptr", "u32": "i32", "u64": "i64", "i64": "i64"}


def call_or_stop(f: Function, name: str, operands: list[Value]) -> None:
    result = call(f, name, operands)
    with f.when(result.ne(0), unlikely=True):
        f.ret(result)


def stop(f: Function, wave: Value, record: Value, kind: int, lane: Value | int = -1, address: Value | int = -1) -> None:
    """Record a fault and return."""
    lane = f.const(lane, "u32") if isinstance(lane, int) else lane
    address = f.const(address, "u64") if isinstance(address, int) else address
    f.ret(call(f, "fail", [wave, record, f.const(kind, "u32"), lane, address]))


def write_fail() -> Function:
    f = helper("fail", ("u32", "kind"), ("u32", "lane"), ("u64", "address"))
    wave, record, kind, lane, address = f.arguments
    context = context_of(f, wave)
    f.store(kind, f.at(context, layout.FAULT_KIND))
    f.store(lane, f.at(context, layout.FAULT_LANE))
    f.store(address, f.at(context, layout.FAULT_ADDRESS))
    f.store(f.load("u32", f.at(record, layout.RECORD_INDEX)), f.at(context, layout.FAULT_INDEX))
    f.store(f.load("u32", f.at(wave, layout.WAVE_ID)), f.at(context, layout.FAULT_WAVE))
    f.ret(layout.FAULTED)
    return f


def _set(f: Function, context: Value, table: int, record: Value) -> Value:
    """The register set of a record in a table of sets."""
    index = f.load("u32", f.at(record, layout.RECORD_INDEX))
    return f.at(f.load("ptr", f.at(context, table)), index, layout.SET_BYTES)


def write_hazard() -> Function:
    """The exact check behind the coarse one."""
    f = helper("hazard")
    wave, record = f.arguments
    touched = _set(f, context_of(f, wave), layout.TOUCHED, record)
    pending = f.at(wave, layout.PENDING_BITS)
    both = f.load("u64", touched, 8, 8) & f.load("u64", pending, 8, 8)
    scalars = f.load("u64", f.at(touched, 64), 4, 8) & f.load("u64", f.at(pending, 64), 4, 8)
    # The fourth word of the scalar part is the coarse set, which says nothing exact.
    exact = f.shuffle(scalars, [0, 1, 2])
    with f.when((f.reduce("or", both) | f.reduce("or", exact)).ne(0)):
        stop(f, wave, record, faults.IN_FLIGHT)
    f.ret(0)
    return f


_QUEUES = {
    "vm": (layout.VM_QUEUE, layout.VM_HEAD, layout.VM_COUNT),
    "lgkm": (layout.LGKM_QUEUE, layout.LGKM_HEAD, layout.LGKM_COUNT),
}


def write_pending() -> Function:
    """Recompute the sets of registers in flight from the queues."""
    f = helper("pending")
    wave = f.arguments[0]
    context = context_of(f, wave)
    pending = f.at(wave, layout.PENDING_BITS)
    zero = f.widen(f.const(0, "u64"), 8)
    f.store(zero, pending, align=8)
    f.store(f.widen(f.const(0, "u64"), 4), f.at(pending, 64), align=8)
    f.store(f.const(0, "u64"), f.at(wave, layout.PENDING_V))
    f.store(f.const(0, "u64"), f.at(wave, layout.PENDING_S))
    for queue, head, count in (*_QUEUES.values(), (layout.SMEM_QUEUE, None, layout.SMEM_COUNT)):
        first = f.load("u32", f.at(wave, head)) if head is not None else f.const(0, "u32")
        with f.count(f.load("u32", f.at(wave, count))) as number:
            entry = f.at(f.at(wave, queue), (first + number) & (layout.QUEUE_ENTRIES - 1), layout.ENTRY_BYTES)
            add_late(f, wave, context, f.load("ptr", entry))
    f.ret(0)
    return f


def add_late(f: Function, wave: Value, context: Value, record: Value) -> None:
    """Registers that a record writes late join those in flight."""
    flags = f.load("u32", f.at(record, layout.RECORD_FLAGS))
    with f.when((flags & layout.FLAG_LATE).ne(0)):
        late = _set(f, context, layout.LATE, record)
        pending = f.at(wave, layout.PENDING_BITS)
        f.store(f.load("u64", late, 8, 8) | f.load("u64", pending, 8, 8), pending, align=8)
        more, there = f.at(late, 64), f.at(pending, 64)
        f.store(f.load("u64", more, 4, 8) | f.load("u64", there, 4, 8), there, align=8)
        for coarse, place in ((layout.SET_COARSE_V, layout.PENDING_V), (layout.SET_COARSE_S, layout.PENDING_S)):
            target = f.at(wave, place)
            f.store(f.load("u64", f.at(late, coarse)) | f.load("u64", target), target)


def write_issue(counter: str) -> Function:
    """Append to the queue(s) of a counter; a full queue first completes its oldest entry, as the hardware would."""
    f = helper(f"issue_{counter}", ("u32", "logs"))
    wave, record, logs = f.arguments
    context = context_of(f, wave)
    names = {"vm": ["vm"], "lgkm": ["lgkm"], "flat": ["vm", "lgkm"], "smem": []}[counter]
    first_log = f.load("u32", f.at(context, layout.LOG_COUNT)) - logs
    for name in names:
        queue, head, count = _QUEUES[name]
        with f.when(f.load("u32", f.at(wave, count)) >= layout.QUEUE_ENTRIES - 1, unlikely=True):
            none = f.const(-1, "u32")
            room = f.const(layout.QUEUE_ENTRIES - 2, "u32")
            call_or_stop(f, "wait", [wave, record, room if name == "vm" else none, room if name == "lgkm" else none])
        number = f.load("u32", f.at(wave, count))
        slot = (f.load("u32", f.at(wave, head)) + number) & (layout.QUEUE_ENTRIES - 1)
        entry = f.at(f.at(wave, queue), slot, layout.ENTRY_BYTES)
        f.store(record, entry)
        f.store(first_log, f.at(entry, 8))
        f.store(logs, f.at(entry, 12))
        f.store(number + 1, f.at(wave, count))
    if "vm" in names:
        issued = f.load("u32", f.at(wave, layout.VM_ISSUED)) + 1
        f.store(issued, f.at(wave, layout.VM_ISSUED))
        with f.when((f.load("u32", f.at(record, layout.RECORD_FLAGS)) & layout.FLAG_STORE).ne(0)):
            f.store(issued, f.at(wave, layout.LAST_STORE))
    if counter == "smem":
        number = f.load("u32", f.at(wave, layout.SMEM_COUNT))
        with f.when(number >= layout.QUEUE_ENTRIES):
            stop(f, wave, record, faults.UNMODELLED)
        f.store(record, f.at(f.at(wave, layout.SMEM_QUEUE), number, layout.ENTRY_BYTES))
        f.store(number + 1, f.at(wave, layout.SMEM_COUNT))
    add_late(f, wave, context, record)
    if names:
        # Here every record of the log belongs to an entry that knows its place, or to none.
        full = f.load("u32", f.at(context, layout.LOG_COUNT)) >= f.load("u32", f.at(context, layout.LOG_CAPACITY))
        with f.when(full, unlikely=True):
            f.ret(call(f, "fold", [context]))
    f.ret(0)
    return f


def write_wait() -> Function:
    """Complete entries down to the counts (-1: any number may stay)."""
    f = helper("wait", ("u32", "vm"), ("u32", "lgkm"))
    wave, record, vm, lgkm = f.arguments
    for name, limit in (("vm", vm), ("lgkm", lgkm)):
        queue, head, count = _QUEUES[name]
        number = f.load("u32", f.at(wave, count))
        with f.when(number > limit):
            first = f.load("u32", f.at(wave, head))
            if name == "vm":
                with f.count(number - limit) as done:
                    slot = (first + done) & (layout.QUEUE_ENTRIES - 1)
                    direct = f.load("ptr", f.at(f.at(wave, queue), slot, layout.ENTRY_BYTES))
                    flags = f.load("u32", f.at(direct, layout.RECORD_FLAGS))
                    with f.when((flags & layout.FLAG_DIRECT).ne(0)):
                        call_or_stop(f, "land", [wave, direct, slot])
            f.store((first + number - limit) & (layout.QUEUE_ENTRIES - 1), f.at(wave, head))
            f.store(limit, f.at(wave, count))
    with f.when(lgkm.eq(0)):
        f.store(f.const(0, "u32"), f.at(wave, layout.SMEM_COUNT))
    f.ret(call(f, "pending", [wave, record]))
    return f


def write_land() -> Function:
    """A direct-to-LDS load completes: its bytes appear, if its place is still waiting for them."""
    f = helper("land", ("u32", "slot"))
    wave, record, slot = f.arguments
    direct = f.at(f.load("ptr", f.at(wave, layout.DIRECT)), slot, layout.DIRECT_BYTES)
    mask = f.load("u64", f.at(direct, layout.DIRECT_MASK))
    size, base = f.load("u32", f.at(direct, layout.DIRECT_SIZE)), f.load("u32", f.at(direct, layout.DIRECT_BASE))
    lds, shadow = f.load("ptr", f.at(wave, layout.LDS)), f.load("ptr", f.at(wave, layout.LDS_SHADOW))
    with f.bits_of(mask) as lane, f.count(size >> 2) as word:
        place = base + lane * size + word * 4
        data = f.load("u32", f.at(f.at(f.at(direct, layout.DIRECT_DATA), lane, 16), word, 4))
        state = f.at(shadow, place)
        with f.when(f.load("u32", state, align=1).ne(layout.IN_FLIGHT_WORD), unlikely=True):
            stop(f, wave, record, faults.LDS_OVERWRITTEN, lane, place.to("u64"))
        f.store(data, f.at(lds, place), align=1)
        f.store(f.const(layout.WRITTEN_WORD, "u32"), state, align=1)
    f.ret(0)
    return f


def write_overtaken() -> Function:
    """Whether a direct load that was just started, to [low, high) of LDS, may overtake an access that its own wave has
    not waited for: the two come from different queues, and nothing else orders them."""
    f = helper("overtaken", ("u32", "low"), ("u32", "high"))
    wave, record, low, high = f.arguments
    log = f.load("ptr", f.at(context_of(f, wave), layout.LOG))
    shadow = f.load("ptr", f.at(wave, layout.LDS_SHADOW))
    first = f.load("u32", f.at(wave, layout.LGKM_HEAD))
    with f.count(f.load("u32", f.at(wave, layout.LGKM_COUNT))) as number:
        entry = f.at(f.at(wave, layout.LGKM_QUEUE), (first + number) & (layout.QUEUE_ENTRIES - 1), layout.ENTRY_BYTES)
        start = f.load("u32", f.at(entry, 8))
        with f.count(f.load("u32", f.at(entry, 12))) as access:
            row = f.at(log, start + access, layout.LOG_RECORD_BYTES)
            near = (f.load("u32", f.at(row, layout.LOG_LOW)) < high) & (f.load("u32", f.at(row, layout.LOG_HIGH)) > low)
            with f.when(near, unlikely=True):
                size = f.load("u32", f.at(row, layout.LOG_SIZE))
                with f.bits_of(f.load("u64", f.at(row, layout.LOG_MASK))) as lane, f.count(size) as byte:
                    address = f.load("u32", f.at(f.at(row, layout.LOG_ADDRESSES), lane, 4)) + byte
                    with f.when(f.load_byte(f.at(shadow, address)).eq(layout.SHADOW_IN_FLIGHT)):
                        stop(f, wave, record, faults.LDS_OVERTAKEN, lane, address.to("u64"))
    f.ret(0)
    return f


def core_functions() -> list[Function]:
    return [
        write_fail(),
        write_hazard(),
        write_pending(),
        *(write_issue(c) for c in ("vm", "lgkm", "smem", "flat")),
        write_wait(),
        write_land(),
        write_overtaken(),
    ]
