"""Evaluator of the instruction pseudocode: typed bit vectors, one operation at a time.

How the language is read where the manual leaves it open:
* An integer operand is widened to at least 32 bits before arithmetic, as in C; a result is cut to the wider operand.
* Storing into a typed place cuts integers, converts floats to the place's float format, and moves raw bits otherwise.
* A cast of an integer to a float format reinterprets the bits; a cast of a float converts.
* `+0.0` and `-0.0` written with a sign compare by bit pattern, `0.0` compares as a number.
* `x ** n` is an exact power, so a product with it is rounded once.
* `X == DENORM.f32` asks whether X is denormal.
Float arithmetic rounds to nearest even; `ROUND_MODE` steers conversions only. Denormals are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from tests.aot.emulator.oracle import floats
from tests.aot.emulator.oracle.pcode_syntax import (
    Assign,
    Binary,
    Break,
    Call,
    Cast,
    Concat,
    Declare,
    Field,
    For,
    If,
    Index,
    Lambda,
    Name,
    Node,
    Number,
    Part,
    Return,
    Slice,
    Ternary,
    Unary,
    parse,
)
from tests.aot.emulator.oracle.pcode_values import (
    Cell,
    Environment,
    Memory,
    MemoryView,
    PcodeUnsupportedError,
    Place,
    Value,
    View,
    integer,
    of_float,
    type_of,
)


class _Leave(Exception):  # noqa: N818  (control flow of the evaluated program, not an error)
    pass


class _Result(Exception):  # noqa: N818
    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


def run(text: str, environment: Environment) -> None:
    """Executes the pseudocode; registers of the environment are changed in place."""
    Evaluator(environment).block(_parsed(text))


@cache
def _parsed(text: str) -> tuple[Node, ...]:
    return parse(text)


#: Operations that the pseudocode calls by mnemonic; filled by `pcode_table` to avoid knowing the tables here.
LIBRARY: dict[str, str] = {}


class Evaluator:
    """Walks the syntax tree of one operation over one environment."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    # ---- statements

    def block(self, statements: tuple[Node, ...]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: Node) -> None:
        if isinstance(node, Assign):
            self.assign(node)
        elif isinstance(node, If):
            for condition, body in node.branches:
                if self.truth(condition):
                    self.block(body)
                    return
            self.block(node.otherwise)
        elif isinstance(node, For):
            try:
                for i in range(self.integer(node.first), self.integer(node.last) + 1):
                    self.environment[node.variable] = integer("i", 32, i)
                    self.block(node.body)
            except _Leave:
                pass
        elif isinstance(node, Declare):
            if node.name not in self.environment:
                cells = [Cell(node.width, 0, node.kind) for _ in range(node.length or 1)]
                self.environment[node.name] = cells[0] if node.length is None else cells
        elif isinstance(node, Lambda):
            self.environment[node.name] = node
        elif isinstance(node, Break):
            raise _Leave
        elif isinstance(node, Return):
            raise _Result(self.value(node.value))
        else:
            raise PcodeUnsupportedError(f"statement {type(node).__name__}")

    def assign(self, node: Assign) -> None:
        value = self.value(node.value)
        if node.operator != "=":
            value = self.arithmetic(node.operator[0], self.value(node.targets[0]), value)
        for target in reversed(node.targets):
            self.store(target, value)

    def store(self, target: Node, value: Value) -> None:
        if isinstance(target, Concat):
            low = 0
            for part in reversed(target.parts):
                place = self.place(part)
                place.write((value.bits >> low) & ((1 << place.width) - 1))
                low += place.width
            return
        if isinstance(target, Name):
            known = self.environment.get(target.name)
            if isinstance(known, Cell) and known.kind is None:
                known.bits = value.bits & ((1 << known.width) - 1)
            elif isinstance(known, Cell) and known.kind != "local":
                known.bits = self.fitted(value, known.kind or "b", known.width)
            else:
                self.environment[target.name] = value
            return
        place = self.place(target)
        place.write(self.fitted(value, place.kind or "b", place.width))

    def fitted(self, value: Value, kind: str, width: int) -> int:
        """The bits of a value once stored in a place of the given type."""
        if kind in ("f", "bf") and (value.is_float or value.exact is not None):
            return self.to_float(value, floats.FORMATS[f"{kind}{width}"]).bits
        if value.kind == "i":
            return value.number & ((1 << width) - 1)
        return value.bits & ((1 << width) - 1)

    # ---- places

    def place(self, node: Node) -> Place:
        if isinstance(node, Name):
            known = self.environment.get(node.name)
            if known is None:
                known = self.environment[node.name] = Cell(1024, 0, "local")
            elif isinstance(known, Value):
                known = self.environment[node.name] = Cell(known.width, known.bits, known.kind)
            if not isinstance(known, Cell):
                raise PcodeUnsupportedError(f"place {node.name}")
            return View(known, 0, known.width, None if known.kind == "local" else known.kind)
        if isinstance(node, Field):
            wanted = type_of(node.name)
            if wanted is None:
                raise PcodeUnsupportedError(f"field {node.name}")
            if isinstance(node.base, Index) and isinstance(node.base.base, Name):
                memory = self.environment.get(node.base.base.name)
                if isinstance(memory, Memory):
                    return MemoryView(memory, self.integer(node.base.at), wanted[1], wanted[0])
            base = self.place(node.base)
            if isinstance(base, MemoryView):
                return MemoryView(base.memory, base.address, wanted[1], wanted[0])
            width = wanted[1] if base.cell.kind == "local" and base.low == 0 else min(base.width, wanted[1])
            return View(base.cell, base.low, width, wanted[0])
        if isinstance(node, Index):
            element = self.element(node)
            if element is not None:
                return View(element, 0, element.width, element.kind)
            if isinstance(node.base, Name):
                memory = self.environment.get(node.base.name)
                if isinstance(memory, Memory):
                    return MemoryView(memory, self.integer(node.at), 32, "b")
            return self.part(node.base, self.integer(node.at), 1)
        if isinstance(node, Slice):
            high, low = self.integer(node.high), self.integer(node.low)
            if high < low:
                raise PcodeUnsupportedError("a reversed slice is no place")
            return self.part(node.base, low, high - low + 1)
        if isinstance(node, Part):
            return self.part(node.base, self.integer(node.low), self.integer(node.width))
        raise PcodeUnsupportedError(f"place {type(node).__name__}")

    def part(self, base_node: Node, low: int, width: int) -> View:
        base = self.place(base_node)
        if not isinstance(base, View):
            raise PcodeUnsupportedError("slice of memory")
        kind = "u" if base.kind in ("u", "i") else "b"
        return View(base.cell, base.low + low, width, kind)

    def element(self, node: Index) -> Cell | None:
        """The cell of an array element, for one and two indices; None when the base is no array."""
        base = node.base
        if isinstance(base, Name):
            known = self.environment.get(base.name)
            if isinstance(known, list):
                chosen = known[self.integer(node.at)]
                return chosen if isinstance(chosen, Cell) else None
        elif isinstance(base, Index) and isinstance(base.base, Name):
            known = self.environment.get(base.base.name)
            if isinstance(known, list):
                row = known[self.integer(base.at)]
                return row[self.integer(node.at)] if isinstance(row, list) else None
        return None

    # ---- values

    def truth(self, node: Node) -> bool:
        return self.value(node).bits != 0

    def integer(self, node: Node) -> int:
        return self.value(node).number

    def value(self, node: Node) -> Value:
        if isinstance(node, Number):
            return _literal(node)
        if isinstance(node, Name):
            return self.named(node.name)
        if isinstance(node, Field):
            return self.field(node)
        if isinstance(node, Index | Part):
            return self.indexed(node)
        if isinstance(node, Slice):
            return self.sliced(node)
        if isinstance(node, Unary):
            return self.unary(node)
        if isinstance(node, Binary):
            return self.binary(node)
        if isinstance(node, Ternary):
            return self.value(node.then if self.truth(node.condition) else node.otherwise)
        if isinstance(node, Cast):
            return self.cast(node)
        if isinstance(node, Concat):
            bits = width = 0
            for part in reversed(node.parts):
                value = self.value(part)
                bits |= value.bits << width
                width += value.width
            return Value("b", width, bits)
        if isinstance(node, Call):
            return self.call(node)
        raise PcodeUnsupportedError(f"expression {type(node).__name__}")

    def named(self, name: str) -> Value:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        known = self.environment.get(name)
        if isinstance(known, Value):
            return known
        if isinstance(known, Cell):
            return Value("b" if known.kind in (None, "local") else str(known.kind), known.width, known.bits)
        raise PcodeUnsupportedError(f"name {name}")

    def field(self, node: Field) -> Value:
        if isinstance(node.base, Name):
            known = self.environment.get(f"{node.base.name}.{node.name}")
            if isinstance(known, Value):
                return known
            if isinstance(known, Cell):
                return Value("b", known.width, known.bits)
        wanted = type_of(node.name)
        if wanted is None:
            raise PcodeUnsupportedError(f"field {node.name}")
        if isinstance(node.base, Name) and node.base.name in ("INF", "NAN", "DENORM"):
            return _special(node.base.name, *wanted)
        if isinstance(node.base, Index):
            place = self.try_place(node)
            if place is not None:
                return place.read()
        value = self.value(node.base)
        if value.exact is not None or (value.is_float and wanted[0] in ("f", "bf")):
            return self.to_float(value, floats.FORMATS[node.name])
        if value.is_float and wanted[1] != value.width:
            raise PcodeUnsupportedError(f"{value.kind}{value.width} read as {node.name}")
        if wanted[1] > value.width and wanted[0] == "i" and value.kind == "i":
            return integer("i", wanted[1], value.number)
        return Value(*wanted, value.bits & ((1 << wanted[1]) - 1))

    def try_place(self, node: Node) -> Place | None:
        """The place that an expression names, None when it is an expression over values."""
        base = node
        while isinstance(base, Field | Index | Slice | Part):
            base = base.base
        if not isinstance(base, Name) or isinstance(self.environment.get(base.name), Value):
            return None
        if base.name not in self.environment:
            return None
        return self.place(node)

    def indexed(self, node: Index | Part) -> Value:
        place = self.try_place(node)
        if place is not None:
            return place.read()
        base = self.value(node.base)
        if isinstance(node, Part):
            low, width = self.integer(node.low), self.integer(node.width)
        else:
            low, width = self.integer(node.at), 1
        return Value("u", width, (base.bits >> low) & ((1 << width) - 1))

    def sliced(self, node: Slice) -> Value:
        high, low = self.integer(node.high), self.integer(node.low)
        base = self.value(node.base)
        if high < low:
            # Written from the low bit to the high one: the bits come out in reverse order.
            count = low - high + 1
            return Value("u", count, sum((base.bits >> (low - i) & 1) << i for i in range(count)))
        width = high - low + 1
        return Value("u", width, (base.bits >> low) & ((1 << width) - 1))

    def unary(self, node: Unary) -> Value:
        value = self.value(node.value)
        if node.operator == "!":
            return integer("u", 1, value.bits == 0)
        if node.operator == "+":
            return Value(value.kind, value.width, value.bits, signed_zero=isinstance(node.value, Number))
        if value.is_float:
            if node.operator == "~":
                raise PcodeUnsupportedError("~ of a float")
            flipped = value.bits ^ (1 << (value.width - 1))
            return Value(value.kind, value.width, flipped, signed_zero=isinstance(node.value, Number))
        kind, width = _promoted(value)
        return integer(kind, width, -value.number if node.operator == "-" else ~value.number)

    def binary(self, node: Binary) -> Value:
        if node.operator == "&&":
            return integer("u", 1, self.truth(node.left) and self.truth(node.right))
        if node.operator == "||":
            return integer("u", 1, self.truth(node.left) or self.truth(node.right))
        left, right = self.value(node.left), self.value(node.right)
        if node.operator in _COMPARISONS:
            return integer("u", 1, self.compare(node.operator, left, right))
        return self.arithmetic(node.operator, left, right)

    def compare(self, operator: str, left: Value, right: Value) -> bool:
        if right.kind == "denormal":
            return left.is_float and floats.is_denormal(left.form, left.bits)
        if left.is_float and right.is_float:
            if right.signed_zero and right.real == 0:
                return _COMPARISONS[operator](self.to_float(left, right.form).bits, right.bits)
            return bool(_COMPARISONS[operator](left.real, right.real))
        if left.is_float or right.is_float:
            raise PcodeUnsupportedError("float compared with an integer")
        kind, width = _common(left, right)
        return _COMPARISONS[operator](
            integer(kind, width, left.number).number, integer(kind, width, right.number).number
        )

    def arithmetic(self, operator: str, left: Value, right: Value) -> Value:
        if operator == "**":
            base = Fraction(left.real if left.is_float else left.number)
            return Value("f", left.width, 0, exact=base ** max(-4096, min(4096, right.number)))
        if left.exact is not None or right.exact is not None:
            return self.scaled(operator, left, right)
        if left.is_float or right.is_float:
            return self.float_arithmetic(operator, left, right)
        if operator in ("<<", ">>"):
            kind, width = _promoted(left)
            amount = min(right.number, 2 * width)
            return integer(kind, width, left.number << amount if operator == "<<" else left.number >> amount)
        kind, width = _common(left, right)
        a, b = integer(kind, width, left.number).number, integer(kind, width, right.number).number
        return integer(kind, width, _INTEGER[operator](a, b))

    def scaled(self, operator: str, left: Value, right: Value) -> Value:
        """A product with an exact power of two, rounded once."""
        value, power = (left, right.exact) if right.exact is not None else (right, left.exact)
        if operator != "*" or not value.is_float or power is None:
            raise PcodeUnsupportedError("a power outside of a product")
        if value.real == 0 or not math.isfinite(value.real):
            return value
        return of_float(value.form, Fraction(value.real) * power)

    def float_arithmetic(self, operator: str, left: Value, right: Value) -> Value:
        if not (left.is_float and right.is_float):
            raise PcodeUnsupportedError(f"{left.kind}{left.width} {operator} {right.kind}{right.width}")
        form = left.form if left.width >= right.width else right.form
        a, b = left.real, right.real
        if operator == "/":
            return of_float(form, _divided(a, b))
        if operator not in ("+", "-", "*"):
            raise PcodeUnsupportedError(f"{operator} on floats")
        return of_float(form, a + b if operator == "+" else a - b if operator == "-" else a * b)

    def to_float(self, value: Value, form: floats.Format, *, toward_zero: bool = False) -> Value:
        kind = form.name.rstrip("0123456789")
        if value.exact is not None:
            return Value(kind, form.width, 0, exact=value.exact)
        return Value(kind, form.width, floats.convert(value.form, form, value.bits, toward_zero=toward_zero))

    def cast(self, node: Cast) -> Value:
        value = self.value(node.value)
        if node.kind in ("f", "bf"):
            form = floats.FORMATS[f"{node.kind}{node.width}"]
            if value.is_float:
                return self.to_float(value, form)
            return Value(node.kind, node.width, value.bits & ((1 << node.width) - 1))
        if value.is_float and value.width != node.width:
            raise PcodeUnsupportedError("cast of a float to an integer")
        return integer(node.kind, node.width, value.number)

    def call(self, node: Call) -> Value:
        from tests.aot.emulator.oracle import pcode_library  # the library calls back for operations named by mnemonic

        known = self.environment.get(node.name)
        arguments = [self.value(argument) for argument in node.arguments]
        if isinstance(known, Lambda):
            inner = Evaluator({**self.environment, **dict(zip(known.parameters, arguments, strict=True))})
            try:
                inner.block(known.body)
            except _Result as result:
                return result.value
            raise PcodeUnsupportedError(f"{node.name} returned nothing")
        if node.name.upper() in LIBRARY:
            return self.operation(node.name, arguments)
        return pcode_library.call(node.name, arguments, self.environment)

    def operation(self, name: str, arguments: list[Value]) -> Value:
        """Another operation used as a function: its D0, in the type that its name ends with."""
        kind, width = type_of(name.rsplit("_", 1)[1]) or ("u", 32)
        inner: Environment = {f"S{i}": Cell(v.width, v.bits) for i, v in enumerate(arguments)}
        inner["D0"] = Cell(width)
        inner["WAVE_MODE.IEEE"] = self.environment.get("WAVE_MODE.IEEE", integer("u", 1, 1))
        run(LIBRARY[name.upper()], inner)
        result = inner["D0"]
        assert isinstance(result, Cell)
        return Value(kind, width, result.bits)


def _literal(node: Number) -> Value:
    if "." in node.text and not node.text.startswith("0x"):
        width = node.width or (32 if node.suffix == "F" else 64)
        return of_float(floats.FORMATS[f"f{width}"], float(node.text))
    value = int(node.text, 0)
    if node.suffix in ("ULL", "LL"):
        return integer("u" if node.suffix == "ULL" else "i", 64, value)
    return integer("u" if node.suffix == "U" else "i", node.width or 32, value)


def _special(name: str, kind: str, width: int) -> Value:
    form = floats.FORMATS[f"{kind}{width}"]
    if name == "DENORM":
        return Value("denormal", width, 0)
    return Value(kind, width, form.infinity if name == "INF" else form.quiet_nan)


def _promoted(value: Value) -> tuple[str, int]:
    if value.width < 32:
        return "i", 32
    return ("i" if value.kind == "i" else "u"), value.width


def _common(left: Value, right: Value) -> tuple[str, int]:
    (a, wide_a), (b, wide_b) = _promoted(left), _promoted(right)
    if wide_a != wide_b:
        return (a, wide_a) if wide_a > wide_b else (b, wide_b)
    return ("i" if a == b == "i" else "u"), wide_a


def _divided(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    # Ordered and different: false for a NaN.
    "<>": lambda a, b: a < b or a > b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_CONSTANTS: dict[str, Value] = {
    "PI": of_float(floats.F64, math.pi),
    "INF": of_float(floats.F64, math.inf),
    "ROUND_NEAREST_EVEN": integer("u", 2, 0),
    "ROUND_TOWARD_ZERO": integer("u", 2, 3),
}
