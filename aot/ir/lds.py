"""One static LDS array per kernel, and the segments that it is cut into.

Segments that are never alive together may overlap (the cshuffle tile over the operand tiles). Accesses to segments that
may be in flight at the same time carry alias scopes: the code generator then waits only for the loads it must.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.types import LDS_PTR
from aot.ir.values import Value

SYMBOL = "@lds"


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes [start, start + size) of the array, and the tags of its reads and of direct-to-LDS writes to it."""

    start: int
    size: int
    tags: str = ""

    def pointer(self, b: Builder, byte_offset: Value | int) -> Value:
        """Address inside the segment; a lane offset stays in a register and the start becomes the immediate."""
        base = Value(LDS_PTR, SYMBOL)
        return b.offset_pointer(b.offset_pointer(base, byte_offset), self.start)


@dataclass(frozen=True, slots=True)
class LdsPool:
    """The array. `alignment` keeps 16-byte reads whole."""

    size: int
    alignment: int = 16

    def segment(self, start: int, size: int) -> Segment:
        """Cut a segment out of the array; the caller answers for liveness."""
        assert 0 <= start <= start + size <= self.size
        return Segment(start, size)

    def disjoint(self, b: Builder, segments: list[Segment]) -> list[Segment]:
        """The same segments with alias scopes that tell them apart."""
        domain = b.metadata_node('distinct !{{self}, !"lds"}')
        scopes = [b.metadata_node(f"distinct !{{{{self}}, {domain}}}") for _ in segments]
        tagged = []
        for index, segment in enumerate(segments):
            others = ", ".join(scope for scope in scopes if scope != scopes[index])
            own, rest = b.metadata_node(f"!{{{scopes[index]}}}"), b.metadata_node(f"!{{{others}}}")
            tagged.append(Segment(segment.start, segment.size, f"!alias.scope {own}, !noalias {rest}"))
        return tagged

    def declaration(self) -> str:
        """The global."""
        return f"{SYMBOL} = internal addrspace(3) global [{self.size} x i8] poison, align {self.alignment}"
