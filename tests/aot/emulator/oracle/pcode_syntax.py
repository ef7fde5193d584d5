"""Parser of the pseudocode in which AMD's instruction-set manuals state what each operation does.

The grammar, as far as the CDNA operations use it (`;` and line breaks between statements are interchangeable):

    statement = target {"=" target} ("=" | "+=" | "-=") expression | "{" target {"," target} "}" "=" expression
              | "if" expression "then" block {"elsif" expression "then" block} ["else" block] "endif"
              | "for" name "in" expression ":" expression "do" block "endfor" | "declare" name ":" type ["[" n "]"]
              | name "=" "lambda" "(" names ")" "(" (expression | block) ")" | "break" | "return" expression
    postfix   = primary {"." type | "[" expression [(":" | "+:") expression] "]"}
    primary   = literal | name | name "(" arguments ")" | width "'" kind "(" expression ")" | "{" expressions "}"
    literal   = [width "'"] number [suffix]          e.g. 5, 5U, 5ULL, 0xffLL, 16'0.5, 1'1U, 2.0F

Operators bind as in C, with `**` above `*` and `<>` beside `!=`. A type is a kind (u, i, b, f, bf) and a width.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

Node = Union[
    "Number", "Name", "Field", "Index", "Slice", "Part", "Call", "Cast", "Concat", "Unary", "Binary", "Ternary",
    "Assign", "If", "For", "Declare", "Lambda", "Break", "Return",
]  # fmt: skip


class PcodeSyntaxError(ValueError):
    """The text is not pseudocode that this parser knows (some entries of the manual are prose)."""


@dataclass(frozen=True)
class Number:
    text: str
    width: int | None
    suffix: str


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Field:
    base: Node
    name: str


@dataclass(frozen=True)
class Index:
    base: Node
    at: Node


@dataclass(frozen=True)
class Slice:
    base: Node
    high: Node
    low: Node


@dataclass(frozen=True)
class Part:
    base: Node
    low: Node
    width: Node


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Cast:
    width: int
    kind: str
    value: Node


@dataclass(frozen=True)
class Concat:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Unary:
    operator: str
    value: Node


@dataclass(frozen=True)
class Binary:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Ternary:
    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True)
class Assign:
    targets: tuple[Node, ...]
    operator: str
    value: Node


@dataclass(frozen=True)
class If:
    branches: tuple[tuple[Node, tuple[Node, ...]], ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True)
class For:
    variable: str
    first: Node
    last: Node
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Declare:
    name: str
    width: int
    kind: str
    length: int | None


@dataclass(frozen=True)
class Lambda:
    name: str
    parameters: tuple[str, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class Return:
    value: Node


TOKEN = re.compile(
    r"""\s*(?:
      (?P<cast>\d+'(?:BF|[UIFB])(?![A-Za-z0-9]))
    | (?P<number>(?:\d+')?(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?:ULL|LL|U|F)?)
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<symbol>\+:|\*\*|<<|>>|<>|<=|>=|==|!=|&&|\|\||\+=|-=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    )""",
    re.VERBOSE,
)
KEYWORDS = {"if", "then", "elsif", "else", "endif", "for", "do", "endfor", "declare", "break", "return"}
LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("**",),
)  # fmt: skip


def tokens(text: str) -> list[str]:
    """Cuts the text into tokens, comments removed."""
    text = re.sub(r"//[^\n]*", "", text).strip()
    found: list[str] = []
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise PcodeSyntaxError(f"unreadable at {text[at : at + 20]!r}")
        found.append(match.group().strip())
        at = match.end()
    return found


class Parser:
    """Recursive descent over the tokens of one operation."""

    def __init__(self, text: str) -> None:
        self.tokens = tokens(text)
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        word = self.peek()
        if not word or (expected is not None and word != expected):
            raise PcodeSyntaxError(f"expected {expected or 'a word'}, found {word or 'the end'}")
        self.at += 1
        return word

    def accept(self, word: str) -> bool:
        if self.peek() == word:
            self.at += 1
            return True
        return False

    def block(self, *ends: str) -> tuple[Node, ...]:
        statements: list[Node] = []
        while True:
            while self.accept(";"):
                pass
            if self.peek() in ends or (not ends and not self.peek()):
                return tuple(statements)
            statements.append(self.statement())

    def statement(self) -> Node:
        word = self.peek()
        if word == "if":
            return self.conditional()
        if word == "for":
            return self.loop()
        if word == "declare":
            return self.declaration()
        if word == "break":
            self.take()
            return Break()
        if word == "return":
            self.take()
            return Return(self.expression())
        if self.peek(1) == "=" and self.peek(2) == "lambda":
            return self.function()
        targets = [self.postfix()]
        operator = self.take()
        if operator not in ("=", "+=", "-="):
            raise PcodeSyntaxError(f"not an assignment: {word} {operator}")
        value = self.expression()
        while self.accept("="):
            targets.append(value)
            value = self.expression()
        return Assign(tuple(targets), operator, value)

    def conditional(self) -> Node:
        branches: list[tuple[Node, tuple[Node, ...]]] = []
        otherwise: tuple[Node, ...] = ()
        self.take("if")
        while True:
            condition = self.expression()
            self.take("then")
            branches.append((condition, self.block("elsif", "else", "endif")))
            end = self.take()
            if end == "else":
                otherwise = self.block("endif")
                self.take("endif")
            if end != "elsif":
                return If(tuple(branches), otherwise)

    def loop(self) -> Node:
        self.take("for")
        variable = self.take()
        self.take("in")
        first = self.expression()
        self.take(":")
        last = self.expression()
        self.take("do")
        body = self.block("endfor")
        self.take("endfor")
        return For(variable, first, last, body)

    def declaration(self) -> Node:
        self.take("declare")
        name = self.take()
        self.take(":")
        width, kind = self.take().split("'")
        length = None
        if self.accept("["):
            length = int(self.take())
            self.take("]")
        return Declare(name, int(width), kind.lower(), length)

    def function(self) -> Node:
        name = self.take()
        self.take("=")
        self.take("lambda")
        self.take("(")
        parameters = [self.take()]
        while self.accept(","):
            parameters.append(self.take())
        self.take(")")
        self.take("(")
        body = self.block(")") if self.peek() in KEYWORDS else (Return(self.expression()),)
        self.take(")")
        return Lambda(name, tuple(parameters), body)

    def expression(self) -> Node:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        then = self.expression()
        self.take(":")
        return Ternary(condition, then, self.expression())

    def binary(self, level: int) -> Node:
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in LEVELS[level]:
            operator = self.take()
            left = Binary(operator, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        if self.peek() in ("-", "+", "~", "!"):
            return Unary(self.take(), self.unary())
        return self.postfix()

    def postfix(self) -> Node:
        node = self.primary()
        while True:
            if self.accept("."):
                node = Field(node, self.take())
            elif self.accept("["):
                first = self.expression()
                if self.accept(":"):
                    node = Slice(node, first, self.expression())
                elif self.accept("+:"):
                    node = Part(node, first, self.expression())
                else:
                    node = Index(node, first)
                self.take("]")
            else:
                return node

    def primary(self) -> Node:
        word = self.take()
        if word == "(":
            node = self.expression()
            self.take(")")
            return node
        if word == "{":
            parts = [self.expression()]
            while self.accept(","):
                parts.append(self.expression())
            self.take("}")
            return Concat(tuple(parts))
        match = TOKEN.fullmatch(word)
        assert match is not None
        if match.group("cast"):
            width, kind = word.split("'")
            self.take("(")
            value = self.expression()
            self.take(")")
            return Cast(int(width), kind.lower(), value)
        if match.group("number"):
            return number(word)
        if not match.group("name") or word in KEYWORDS:
            raise PcodeSyntaxError(f"unexpected {word}")
        if not self.accept("("):
            return Name(word)
        arguments: list[Node] = []
        while not self.accept(")"):
            arguments.append(self.expression())
            self.accept(",")
        return Call(word, tuple(arguments))


def number(word: str) -> Number:
    width, _, rest = word.rpartition("'")
    match = re.fullmatch(r"(0x[0-9a-fA-F]+?|[0-9.]+)(ULL|LL|U|F)?", rest)
    # A hexadecimal literal that ends in F is a digit, not the suffix of a float.
    if rest.startswith("0x"):
        match = re.fullmatch(r"(0x[0-9a-fA-F]+)(ULL|LL|U)?", rest)
    assert match is not None
    return Number(match.group(1), int(width) if width else None, match.group(2) or "")


def parse(text: str) -> tuple[Node, ...]:
    """The statements of one operation. Raises PcodeSyntaxError for prose."""
    return Parser(text).block()
