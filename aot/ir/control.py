"""Structured control flow: a loop that runs at least once, with exits in its middle, and an if with results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from aot.ir.builder import Block, Builder
from aot.ir.values import Value

Values = Sequence[Value]


class Loop:
    """A loop with carried values, entered unconditionally.

    with Loop(builder, start) as loop:
        ... loop.carried ...
        loop.leave_if(condition, results)        # optional, any number
        loop.repeat_if(condition, carried, results)
    ... loop.results ...
    """

    def __init__(self, builder: Builder, start: Values, hint: str = "loop") -> None:
        self.builder = builder
        self.carried = [builder.fresh(value.type) for value in start]
        self.results: list[Value] = []
        self._start = list(start)
        self._head = builder.fresh_label(hint)
        self._exit = builder.fresh_label(hint + ".end")
        self._exits: list[tuple[str, list[Value]]] = []
        self._header: Block | None = None
        self._latch: tuple[str, list[Value]] | None = None
        self._before = ""

    def __enter__(self) -> Loop:
        b = self.builder
        self._before = b.block.label
        b.line(f"br label %{self._head}")
        b.open_block(self._head)
        self._header = b.block
        self._scope = b.scope()
        self._scope.__enter__()
        return self

    def leave_if(self, condition: Value, results: Values) -> None:
        """Leave the loop with these results where the condition holds."""
        b = self.builder
        onward = b.fresh_label("on")
        self._exits.append((b.block.label, list(results)))
        b.line(f"br i1 {condition.text}, label %{self._exit}, label %{onward}")
        b.open_block(onward)

    def repeat_if(self, condition: Value, carried: Values, results: Values) -> None:
        """Go round again with these values where the condition holds, else leave with the results."""
        b = self.builder
        self._latch = b.block.label, list(carried)
        self._exits.append((b.block.label, list(results)))
        b.line(f"br i1 {condition.text}, label %{self._head}, label %{self._exit}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__exit__(None, None, None)
        if kind is not None:
            return
        assert self._header is not None
        assert self._latch is not None
        label, following = self._latch
        phis = [
            f"{value.text} = phi {value.type} [ {first.text}, %{self._before} ], [ {then.text}, %{label} ]"
            for value, first, then in zip(self.carried, self._start, following, strict=True)
        ]
        self._header.lines[:0] = phis
        self.builder.open_block(self._exit)
        self.results = merge(self.builder, self._exits)


def if_else(
    builder: Builder, condition: Value, then: Callable[[], Values], otherwise: Callable[[], Values]
) -> list[Value]:
    """Run one of two regions; their results, merged."""
    labels = [builder.fresh_label(hint) for hint in ("then", "else", "join")]
    builder.line(f"br i1 {condition.text}, label %{labels[0]}, label %{labels[1]}")
    ends: list[tuple[str, list[Value]]] = []
    for label, region in zip(labels, (then, otherwise), strict=False):
        builder.open_block(label)
        with builder.scope():
            results = list(region())
        ends.append((builder.block.label, results))
        builder.line(f"br label %{labels[2]}")
    builder.open_block(labels[2])
    return merge(builder, ends)


def if_then(builder: Builder, condition: Value, region: Callable[[], None]) -> None:
    """Run a region without results where the condition holds."""
    labels = [builder.fresh_label(hint) for hint in ("then", "join")]
    builder.line(f"br i1 {condition.text}, label %{labels[0]}, label %{labels[1]}")
    builder.open_block(labels[0])
    with builder.scope():
        region()
    builder.line(f"br label %{labels[1]}")
    builder.open_block(labels[1])


def merge(builder: Builder, ends: list[tuple[str, list[Value]]]) -> list[Value]:
    """Phis of the values that reach the block just opened from these blocks."""
    merged: list[Value] = []
    for column in zip(*(values for _, values in ends), strict=True):
        if all(value == column[0] for value in column):
            merged.append(column[0])
            continue
        sources = ", ".join(f"[ {value.text}, %{label} ]" for value, (label, _) in zip(column, ends, strict=True))
        merged.append(builder.effect(column[0].type, f"phi {column[0].type} {sources}"))
    return merged
