"""A builder of one kernel's instructions that folds constants and common expressions while it writes.

The text that comes out is meant for code generation alone, without optimisation passes: what is invariant is written
before the loop by the caller, what is constant is folded here, and an expression that a dominating block already
computes is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aot.ir.types import GLOBAL_PTR, I1, I32, I64, LDS_PTR, Type, element_of, vector
from aot.ir.values import Value, constant, poison, unsigned

#: A value, or an int that takes the type of the other operand.
Operand = Value | int


@dataclass
class Block:
    """A basic block under construction."""

    label: str
    lines: list[str] = field(default_factory=list)


class Builder:
    """Writes instructions into basic blocks, in order. Structured control flow lives in `aot.ir.control`."""

    def __init__(self) -> None:
        self.blocks = [Block("entry")]
        self.declarations: dict[str, str] = {}
        self.metadata: list[str] = []
        self._known: list[dict[str, Value]] = [{}]
        self._values = 0
        self._labels = 0

    # --- plumbing ----------------------------------------------------------------------------------------------------

    @property
    def block(self) -> Block:
        """The block that is being written."""
        return self.blocks[-1]

    def fresh(self, type_: Type) -> Value:
        """A new SSA name."""
        self._values += 1
        return Value(type_, f"%v{self._values}")

    def fresh_label(self, hint: str) -> str:
        """A new block label."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def open_block(self, label: str) -> None:
        """Start the block of this label; the one before must have been closed by a terminator."""
        self.blocks.append(Block(label))

    def line(self, text: str) -> None:
        """Append one instruction without a result."""
        self.block.lines.append(text)

    def effect(self, type_: Type, text: str) -> Value:
        """Append an instruction that must not be merged with an equal one."""
        value = self.fresh(type_)
        self.line(f"{value.text} = {text}")
        return value

    def pure(self, type_: Type, text: str) -> Value:
        """The value of a pure instruction, written only if no dominating block has it."""
        for scope in reversed(self._known):
            if text in scope:
                return scope[text]
        value = self._known[-1][text] = self.effect(type_, text)
        return value

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region that dominates nothing behind it: its expressions are forgotten at the end."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def metadata_node(self, body: str) -> str:
        """Reference to a metadata node with this body; `{self}` in the body is the node itself."""
        name = f"!{len(self.metadata)}"
        self.metadata.append(body.replace("{self}", name))
        return name

    def const(self, number: int) -> Value:
        """An i32 constant."""
        return constant(number)

    # --- integer arithmetic ------------------------------------------------------------------------------------------

    def add(self, left: Value, right: Operand, flags: str = "") -> Value:
        """left + right; flags are `nuw`, `nsw`."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(a.const + b.const, a.type)
        if a.const == 0:
            return b
        return a if b.const == 0 else self._commutative("add", a, b, flags)

    def sub(self, left: Operand, right: Operand, flags: str = "") -> Value:
        """left - right."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(a.const - b.const, a.type)
        return a if b.const == 0 else self._binary("sub", a, b, flags)

    def mul(self, left: Value, right: Operand, flags: str = "") -> Value:
        """left * right, low half; a power of two becomes a shift."""
        a, b = _pair(left, right)
        if a.const is not None:
            a, b = b, a
        if b.const is None:
            return self._commutative("mul", a, b, flags)
        if a.const is not None:
            return constant(a.const * b.const, a.type)
        if b.const in (0, 1):
            return a if b.const else b
        if b.const > 0 and b.const & (b.const - 1) == 0:
            return self.shl(a, b.const.bit_length() - 1, flags)
        return self._binary("mul", a, b, flags)

    def shl(self, left: Value, right: Operand, flags: str = "") -> Value:
        """left << right."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(a.const << b.const, a.type)
        return a if b.const == 0 else self._binary("shl", a, b, flags)

    def lshr(self, left: Value, right: Operand) -> Value:
        """left >> right, unsigned."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(unsigned(a) >> b.const, a.type)
        return a if b.const == 0 else self._binary("lshr", a, b)

    def ashr(self, left: Value, right: Operand) -> Value:
        """left >> right, signed."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(a.const >> b.const, a.type)
        return a if b.const == 0 else self._binary("ashr", a, b)

    def and_(self, left: Value, right: Operand) -> Value:
        """Bitwise and."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(a.const & b.const, a.type)
        if 0 in (a.const, b.const):
            return constant(0, a.type)
        return a if b.const == -1 else self._commutative("and", a, b)

    def or_(self, left: Value, right: Operand, disjoint: bool = False) -> Value:
        """Bitwise or; `disjoint` promises that no bit is set in both."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(a.const | b.const, a.type)
        if a.const == 0:
            return b
        return a if b.const == 0 else self._commutative("or", a, b, "disjoint" * disjoint)

    def xor(self, left: Value, right: Operand) -> Value:
        """Bitwise exclusive or."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            return constant(a.const ^ b.const, a.type)
        if a.const == 0:
            return b
        return a if b.const == 0 else self._commutative("xor", a, b)

    def udiv_pow2(self, left: Value, divisor: int) -> Value:
        """left / divisor for a power of two."""
        return self.lshr(left, _log2(divisor))

    def urem_pow2(self, left: Value, divisor: int) -> Value:
        """left mod divisor for a power of two."""
        _log2(divisor)
        return self.and_(left, divisor - 1)

    def umulhi(self, left: Value, right: Value) -> Value:
        """High 32 bits of the unsigned 64-bit product."""
        wide = self.mul(self.zext(left, I64), self.zext(right, I64), "nuw")
        return self.trunc(self.lshr(wide, 32), I32)

    def _binary(self, name: str, a: Value, b: Value, flags: str = "") -> Value:
        return self.pure(a.type, f"{name} {flags + ' ' if flags else ''}{a.type} {a.text}, {b.text}")

    def _commutative(self, name: str, a: Value, b: Value, flags: str = "") -> Value:
        """Constants stand right, as instruction selection expects them; else the older value stands left."""
        if a.const is not None or (b.const is None and _age(b) < _age(a)):
            a, b = b, a
        return self._binary(name, a, b, flags)

    # --- floating point ----------------------------------------------------------------------------------------------

    def fadd(self, left: Value, right: Value) -> Value:
        """left + right, rounded once."""
        return self.pure(left.type, f"fadd {left}, {right.text}")

    def fptrunc(self, value: Value, type_: Type) -> Value:
        """Rounding to nearest even."""
        return value if value.type == type_ else self.pure(type_, f"fptrunc {value} to {type_}")

    # --- comparison, selection, conversion ---------------------------------------------------------------------------

    def icmp(self, predicate: str, left: Value, right: Operand) -> Value:
        """Integer comparison: eq, ne, ult, ule, slt, ..."""
        a, b = _pair(left, right)
        if a.const is not None and b.const is not None:
            x, y = (unsigned(a), unsigned(b)) if predicate[0] == "u" else (a.const, b.const)
            outcome = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
            return constant(outcome[predicate[-2:]], I1)
        return self.pure(I1, f"icmp {predicate} {a.type} {a.text}, {b.text}")

    def select(self, condition: Value, where_true: Operand, where_false: Operand) -> Value:
        """condition ? where_true : where_false."""
        a, b = _pair(where_true, where_false)
        if condition.const is not None:
            return a if condition.const else b
        return a if a == b else self.pure(a.type, f"select i1 {condition.text}, {a}, {b}")

    def umin(self, left: Value, right: Value) -> Value:
        """The smaller of two unsigned numbers."""
        if left.const is not None and right.const is not None:
            return left if unsigned(left) < unsigned(right) else right
        name = f"llvm.umin.{left.type}"
        self.declare(name, left.type, f"{left.type}, {left.type}")
        return self.pure(left.type, f"call {left.type} @{name}({left}, {right})")

    def both(self, left: Value, right: Value) -> Value:
        """Conjunction of two conditions."""
        return self._commutative("and", left, right)

    def zext(self, value: Value, type_: Type) -> Value:
        """Zero extension."""
        if value.const is not None:
            return constant(unsigned(value), type_)
        return value if value.type == type_ else self.pure(type_, f"zext {value} to {type_}")

    def trunc(self, value: Value, type_: Type) -> Value:
        """Truncation of an integer."""
        return (
            constant(value.const, type_) if value.const is not None else self.pure(type_, f"trunc {value} to {type_}")
        )

    def bitcast(self, value: Value, type_: Type) -> Value:
        """The same bits as another type."""
        return value if value.type == type_ else self.pure(type_, f"bitcast {value} to {type_}")

    # --- vectors -----------------------------------------------------------------------------------------------------

    def extract(self, value: Value, lane: int) -> Value:
        """One element of a vector (a one-lane vector is its element)."""
        if value.type.lanes == 1:
            return value
        return self.pure(element_of(value.type), f"extractelement {value}, i32 {lane}")

    def gather(self, elements: Iterable[Value]) -> Value:
        """A vector of these elements."""
        items = list(elements)
        type_ = vector(len(items), items[0].type)
        if len(items) == 1:
            return items[0]
        result = poison(type_)
        for lane, item in enumerate(items):
            result = self.pure(type_, f"insertelement {result}, {item}, i32 {lane}")
        return result

    def slice(self, value: Value, start: int, count: int) -> Value:
        """Elements start, start + 1, ... of a vector."""
        if count == 1:
            return self.extract(value, start)
        lanes = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
        type_ = vector(count, element_of(value.type))
        return self.pure(type_, f"shufflevector {value}, {poison(value.type)}, <{count} x i32> <{lanes}>")

    # --- memory ------------------------------------------------------------------------------------------------------

    def offset_pointer(self, pointer: Value, byte_offset: Operand) -> Value:
        """pointer + bytes, inside its object."""
        index = constant(byte_offset, I32) if isinstance(byte_offset, int) else byte_offset
        if index.const == 0:
            return pointer
        assert pointer.type in (GLOBAL_PTR, LDS_PTR)
        return self.pure(pointer.type, f"getelementptr inbounds i8, {pointer}, {index}")

    def load(self, type_: Type, pointer: Value, align: int, tags: str = "") -> Value:
        """Load; `tags` is attached metadata such as `!alias.scope !3`."""
        return self.effect(type_, f"load {type_}, {pointer}, align {align}{', ' + tags if tags else ''}")

    def store(self, value: Value, pointer: Value, align: int) -> None:
        """Store."""
        self.line(f"store {value}, {pointer}, align {align}")

    # --- calls -------------------------------------------------------------------------------------------------------

    def declare(self, name: str, result: Type, parameters: str, attributes: str = "") -> None:
        """Declare an intrinsic once."""
        text = f"declare {result} @{name}({parameters}){' ' + attributes if attributes else ''}"
        assert self.declarations.setdefault(name, text) == text


def _pair(left: Operand, right: Operand) -> tuple[Value, Value]:
    if isinstance(left, Value):
        return left, right if isinstance(right, Value) else constant(right, left.type)
    assert isinstance(right, Value)
    return constant(left, right.type), right


def _age(value: Value) -> int:
    """Order of definition, so that a + b and b + a are one expression; parameters come first, by name."""
    return int(value.text[2:]) if value.text.startswith("%v") else 0


def _log2(number: int) -> int:
    assert number > 0
    assert number & (number - 1) == 0, f"{number} is not a power of two"
    return number.bit_length() - 1
