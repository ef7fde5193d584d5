"""The primitives written as LLVM IR text for the host: vectors of 64 lanes, scalars, and structured control flow.

A `Function` is one function in the making. The instruction table uses it through `Ops`; the runtime (scheduler, memory
access, sanitizer) uses the same values plus loads, stores, variables, loops and conditions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aot.emulator.isa.values import BITS, LANES, Ops, Value, is_float, is_signed

_LLVM = {
    "b1": "i1",
    "u16": "i16",
    "i16": "i16",
    "u32": "i32",
    "i32": "i32",
    "u64": "i64",
    "i64": "i64",
    "f16": "half",
    "f32": "float",
    "f64": "double",
    "ptr": "ptr",
    "u8": "i8",
    "bf16": "bfloat",
}
_COMPARE = {"eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"}
_FCOMPARE = {"oeq", "une", "olt", "ole", "ogt", "oge"}
_UNARY = {
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "roundeven",
    "sqrt": "sqrt",
    "exp2": "exp2",
    "log2": "log2",
    "sin": "sin",
    "cos": "cos",
    "ctpop": "ctpop",
    "bitreverse": "bitreverse",
}
_SIZES = {"u8": 8, **BITS, "b1": 8, "ptr": 64}


def llvm_type(type_: str, lanes: int) -> str:
    return _LLVM[type_] if lanes == 1 else f"<{lanes} x {_LLVM[type_]}>"


def _mangle(type_: str, lanes: int) -> str:
    short = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(_LLVM[type_], _LLVM[type_])
    return short if lanes == 1 else f"v{lanes}{short}"


class Function(Ops):
    """Builds the text of one LLVM function; `Value.ref` is an operand text."""

    def __init__(self, name: str, parameters: Sequence[tuple[str, str]], result: str = "u32") -> None:
        self.name, self.result = name, result
        self._parameters = [(type_, f"%{label}") for type_, label in parameters]
        self.arguments = [Value(self, type_, 1, ref) for type_, ref in self._parameters]
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._declared: set[str] = set()
        self._names = 0
        self._scope: list[int] = []

    # --- text ---
    def fresh(self) -> str:
        self._names += 1
        return f"%t{self._names}"

    def emit(self, line: str) -> None:
        self._lines.append("  " + line)

    def assign(self, text: str, type_: str, lanes: int) -> Value:
        name = self.fresh()
        self.emit(f"{name} = {text}")
        return Value(self, type_, lanes, name)

    def call(self, intrinsic: str, type_: str, lanes: int, operands: Sequence[Value | str]) -> Value:
        """A call of a declared external function with typed operands (text operands carry their type)."""
        texts = [o if isinstance(o, str) else f"{llvm_type(o.type, o.lanes)} {o.ref}" for o in operands]
        types = [o.rsplit(" ", 1)[0] if isinstance(o, str) else llvm_type(o.type, o.lanes) for o in operands]
        returned = "void" if type_ == "void" else llvm_type(type_, lanes)
        self._declared.add(f"declare {returned} @{intrinsic}({', '.join(types)})")
        text = f"call {returned} @{intrinsic}({', '.join(texts)})"
        if type_ == "void":
            self.emit(text)
            return self.const(0, "u32")
        return self.assign(text, type_, lanes)

    def text(self) -> tuple[str, set[str]]:
        """The definition, and the declarations that it needs."""
        parameters = ", ".join(f"{_LLVM[t]} {'noalias ' if t == 'ptr' else ''}{r}" for t, r in self._parameters)
        returned = "void" if self.result == "void" else _LLVM[self.result]
        body = "\n".join(["entry:", *self._entry, *self._lines])
        return f"define {returned} @{self.name}({parameters}) #0 {{\n{body}\n}}\n", self._declared

    # --- Ops ---
    def const(self, value: float, type_: str) -> Value:
        if type_ == "f16":
            return Value(self, type_, 1, f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}")
        if is_float(type_):
            if type_ == "f32":
                value = struct.unpack("<f", struct.pack("<f", value))[0]
            return Value(self, type_, 1, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")
        if type_ == "b1":
            return Value(self, type_, 1, "true" if int(value) & 1 else "false")
        wrapped = int(value) & ((1 << BITS[type_]) - 1)
        return Value(self, type_, 1, str(wrapped))

    def widen(self, a: Value, lanes: int) -> Value:
        """The splat of a scalar to a number of lanes."""
        if a.lanes == lanes:
            return a
        assert a.lanes == 1, (a.lanes, lanes)
        if not a.ref.startswith("%"):
            return Value(self, a.type, lanes, f"splat ({_LLVM[a.type]} {a.ref})")
        one = self.assign(
            f"insertelement {llvm_type(a.type, lanes)} poison, {_LLVM[a.type]} {a.ref}, i64 0", a.type, lanes
        )
        vector = llvm_type(a.type, lanes)
        return self.assign(
            f"shufflevector {vector} {one.ref}, {vector} poison, <{lanes} x i32> zeroinitializer", a.type, lanes
        )

    def splat(self, a: Value) -> Value:
        return self.widen(a, LANES)

    def _even(self, *values: Value) -> tuple[int, list[Value]]:
        lanes = max(v.lanes for v in values)
        return lanes, [self.widen(v, lanes) for v in values]

    def binary(self, name: str, a: Value, b: Value) -> Value:
        assert a.type == b.type, (name, a.type, b.type)
        lanes, (a, b) = self._even(a, b)
        operands = f"{llvm_type(a.type, lanes)} {a.ref}, {b.ref}"
        if name in _COMPARE:
            return self.assign(f"icmp {name} {operands}", "b1", lanes)
        if name in _FCOMPARE:
            return self.assign(f"fcmp {name} {operands}", "b1", lanes)
        return self.assign(f"{name} {operands}", a.type, lanes)

    def unary(self, name: str, a: Value) -> Value:
        mangled = _mangle(a.type, a.lanes)
        if name in ("ctlz", "cttz"):
            return self.call(f"llvm.{name}.{mangled}", a.type, a.lanes, [a, "i1 false"])
        return self.call(f"llvm.{_UNARY[name]}.{mangled}", a.type, a.lanes, [a])

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        assert a.type == b.type, (a.type, b.type)
        lanes, (condition, a, b) = self._even(condition, a, b)
        type_ = llvm_type(a.type, lanes)
        return self.assign(
            f"select {llvm_type('b1', lanes)} {condition.ref}, {type_} {a.ref}, {type_} {b.ref}", a.type, lanes
        )

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        lanes, (a, b, c) = self._even(a, b, c)
        return self.call(f"llvm.fma.{_mangle(a.type, lanes)}", a.type, lanes, [a, b, c])

    def bitcast(self, a: Value, type_: str) -> Value:
        if _LLVM[a.type] == _LLVM[type_]:
            return Value(self, type_, a.lanes, a.ref)
        return self.assign(
            f"bitcast {llvm_type(a.type, a.lanes)} {a.ref} to {llvm_type(type_, a.lanes)}", type_, a.lanes
        )

    def convert(self, a: Value, type_: str) -> Value:
        source, target = llvm_type(a.type, a.lanes), llvm_type(type_, a.lanes)
        if is_float(a.type) and is_float(type_):
            assert (a.type, type_) != ("f64", "f16"), "goes through f64_to_f16"
            return self.assign(
                f"{'fpext' if BITS[type_] > BITS[a.type] else 'fptrunc'} {source} {a.ref} to {target}", type_, a.lanes
            )
        if is_float(a.type):
            kind = "fptosi" if is_signed(type_) else "fptoui"
            name = f"llvm.{kind}.sat.{_mangle(type_, a.lanes)}.{_mangle(a.type, a.lanes)}"
            return self.call(name, type_, a.lanes, [a])
        if is_float(type_):
            return self.assign(
                f"{'sitofp' if is_signed(a.type) else 'uitofp'} {source} {a.ref} to {target}", type_, a.lanes
            )
        word = "trunc" if BITS[type_] < BITS[a.type] else "sext" if is_signed(a.type) else "zext"
        return self.assign(f"{word} {source} {a.ref} to {target}", type_, a.lanes)

    def lane_ids(self) -> Value:
        return self.lane_constants(range(LANES), "u32")

    def lane_constants(self, values: Sequence[int], type_: str) -> Value:
        items = ", ".join(f"{_LLVM[type_]} {v}" for v in values)
        return Value(self, type_, len(values), f"<{items}>")

    def shuffle(self, a: Value, lanes: Sequence[int], b: Value | None = None) -> Value:
        a = self.splat(a) if a.lanes == 1 else a
        type_ = llvm_type(a.type, a.lanes)
        second = b.ref if b is not None else "poison"
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.assign(
            f"shufflevector {type_} {a.ref}, {type_} {second}, <{len(lanes)} x i32> <{mask}>", a.type, len(lanes)
        )

    def permute(self, a: Value, lanes: Value) -> Value:
        wide = {"f32": "u32"}.get(a.type, a.type)
        buffer = self.alloca(4 * LANES)
        self.store(self.splat(a.cast(wide)), buffer)
        pointers = self.assign(
            f"getelementptr i32, ptr {buffer.ref}, {llvm_type('u32', LANES)} {self.splat(lanes).ref}", "ptr", LANES
        )
        every = Value(self, "b1", LANES, "splat (i1 true)")
        nothing = Value(self, "u32", LANES, "poison")
        gathered = self.call(
            f"llvm.masked.gather.v{LANES}i32.v{LANES}p0", "u32", LANES, [pointers, "i32 4", every, nothing]
        )
        return gathered.cast(a.type)

    def read_lane(self, a: Value, lane: Value) -> Value:
        a = self.splat(a)
        return self.assign(f"extractelement {llvm_type(a.type, a.lanes)} {a.ref}, i32 {lane.ref}", a.type, 1)

    def ballot(self, a: Value) -> Value:
        return self.assign(f"bitcast <{LANES} x i1> {self.splat(a).ref} to i64", "u64", 1)

    def unballot(self, a: Value) -> Value:
        return self.assign(f"bitcast i64 {a.ref} to <{LANES} x i1>", "b1", LANES)

    # --- memory and control, for the runtime ---
    def alloca(self, size: int) -> Value:
        name = self.fresh()
        self._entry.append(f"  {name} = alloca [{size} x i8], align 64")
        return Value(self, "ptr", 1, name)

    def at(self, base: Value, offset: Value | int, scale: int = 1) -> Value:
        """base + offset*scale bytes."""
        if isinstance(offset, int):
            return self.assign(f"getelementptr i8, ptr {base.ref}, i64 {offset * scale}", "ptr", 1)
        wide = offset.to("u64") if offset.type != "u64" else offset
        if scale != 1:
            wide = wide * scale
        return self.assign(f"getelementptr i8, ptr {base.ref}, i64 {wide.ref}", "ptr", 1)

    def load(self, type_: str, pointer: Value, lanes: int = 1, align: int = 0) -> Value:
        align = align or min(64, lanes * _SIZES[type_] // 8)
        return self.assign(f"load {llvm_type(type_, lanes)}, ptr {pointer.ref}, align {align}", type_, lanes)

    def store(self, value: Value, pointer: Value, align: int = 0) -> None:
        align = align or min(64, value.lanes * _SIZES[value.type] // 8)
        self.emit(f"store {llvm_type(value.type, value.lanes)} {value.ref}, ptr {pointer.ref}, align {align}")

    def masked_store(self, value: Value, pointer: Value, mask: Value) -> None:
        value = self.splat(value)
        self.call(
            f"llvm.masked.store.{_mangle(value.type, value.lanes)}.p0",
            "void",
            1,
            [value, pointer, "i32 64", self.splat(mask)],
        )

    def masked_store_narrow(self, value: Value, pointer: Value, mask: Value) -> None:
        """Masked store of any number of lanes, dword aligned."""
        self.call(
            f"llvm.masked.store.{_mangle(value.type, value.lanes)}.p0", "void", 1, [value, pointer, "i32 4", mask]
        )

    def address_of(self, pointer: Value) -> Value:
        """A pointer as u64."""
        return self.assign(f"ptrtoint ptr {pointer.ref} to i64", "u64", 1)

    def settle(self, pointer: Value) -> None:
        """Keep what was stored in memory: LLVM may not replace later loads from there by what it knows."""
        self.emit(f'call void asm sideeffect "", "r,~{{memory}}"(ptr {pointer.ref})')

    def pick_pointer(self, condition: Value, a: Value, b: Value) -> Value:
        return self.assign(f"select i1 {condition.ref}, ptr {a.ref}, ptr {b.ref}", "ptr", 1)

    def load_byte(self, pointer: Value) -> Value:
        """A byte as u32."""
        byte = self.load("u8", pointer, align=1)
        return self.assign(f"zext i8 {byte.ref} to i32", "u32", 1)

    def store_byte(self, value: Value, pointer: Value) -> None:
        """The low byte of a u32."""
        byte = self.assign(f"trunc i32 {value.ref} to i8", "u8", 1)
        self.store(byte, pointer, align=1)

    def ones(self, type_: str) -> Value:
        """All bits set; also for u8, which has no arithmetic."""
        return Value(self, type_, 1, "-1")

    def call_pointer(self, target: Value, operands: Sequence[Value], result: str = "u32") -> Value:
        texts = ", ".join(f"{_LLVM[o.type]} {o.ref}" for o in operands)
        if result == "void":
            self.emit(f"call void {target.ref}({texts})")
            return self.const(0, "u32")
        return self.assign(f"call {_LLVM[result]} {target.ref}({texts})", result, 1)

    def reduce(self, name: str, a: Value) -> Value:
        """Across the lanes: or, umin, umax, add."""
        return self.call(f"llvm.vector.reduce.{name}.{_mangle(a.type, a.lanes)}", a.type, 1, [a])

    def ret(self, value: Value | int | None = None) -> None:
        if value is None:
            self.emit("ret void")
        else:
            value = self.const(value, self.result) if isinstance(value, int) else value
            self.emit(f"ret {_LLVM[self.result]} {value.ref}")

    def tail_call(self, target: Value, operands: Sequence[Value]) -> None:
        texts = ", ".join(f"{_LLVM[o.type]} {o.ref}" for o in operands)
        result = self.fresh()
        self.emit(f"{result} = musttail call {_LLVM[self.result]} {target.ref}({texts})")
        self.emit(f"ret {_LLVM[self.result]} {result}")

    def variable(self, initial: Value) -> Variable:
        variable = Variable(self, initial.type, initial.lanes)
        variable.set(initial)
        return variable

    def label(self) -> str:
        self._names += 1
        return f"b{self._names}"

    def place(self, label: str) -> None:
        self._lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str, unlikely: bool = False) -> None:
        weights = ", !prof !0" if unlikely else ""
        self.emit(f"br i1 {condition.ref}, label %{yes}, label %{no}{weights}")

    @contextmanager
    def when(self, condition: Value, unlikely: bool = False) -> Iterator[None]:
        """if condition: body. The body may return."""
        yes, after = self.label(), self.label()
        self.branch(condition, yes, after, unlikely)
        self.place(yes)
        yield
        if not self._lines[-1].lstrip().startswith(("ret ", "br ")):
            self.jump(after)
        self.place(after)

    @contextmanager
    def count(self, limit: Value | int, start: Value | int = 0, type_: str = "u32") -> Iterator[Value]:
        """for i in range(start, limit)."""
        limit = self.const(limit, type_) if isinstance(limit, int) else limit
        begin = self.const(start, type_) if isinstance(start, int) else start
        counter = self.variable(begin)
        head, body, after = self.label(), self.label(), self.label()
        self.jump(head)
        self.place(head)
        self.branch(counter.get() < limit, body, after)
        self.place(body)
        now = counter.get()
        yield now
        counter.set(now + 1)
        self.jump(head)
        self.place(after)

    @contextmanager
    def bits_of(self, mask: Value) -> Iterator[Value]:
        """for each set bit of a u64, its number as u32."""
        rest = self.variable(mask)
        head, body, after = self.label(), self.label(), self.label()
        self.jump(head)
        self.place(head)
        self.branch(rest.get().ne(0), body, after)
        self.place(body)
        now = rest.get()
        rest.set(now & (now - 1))
        yield now.ctz().to("u32")
        self.jump(head)
        self.place(after)


class Variable:
    """A mutable value of a function."""

    def __init__(self, function: Function, type_: str, lanes: int) -> None:
        self._function, self.type, self.lanes = function, type_, lanes
        self._pointer = function.alloca(8 * lanes)

    def get(self) -> Value:
        return self._function.load(self.type, self._pointer, self.lanes)

    def set(self, value: Value) -> None:
        self._function.store(value, self._pointer)


def module_text(functions: Sequence[Function], cpu: str, features: str) -> str:
    """One module of all functions, with the attributes that let LLVM use whole 512-bit registers."""
    declared: set[str] = set()
    texts = []
    for function in functions:
        text, needs = function.text()
        texts.append(text)
        declared |= needs
    attributes = (
        f'attributes #0 = {{ nounwind "target-cpu"="{cpu}" "target-features"="{features}" '
        '"prefer-vector-width"="512" "min-legal-vector-width"="512" "no-trapping-math"="true" }'
    )
    weights = '!0 = !{!"branch_weights", i32 1, i32 100000}'
    return "\n".join([*sorted(declared), *texts, attributes, weights])
