"""How the instruction table is written down: one `Spec` per mnemonic.

A signature names results and operands by type, in assembly order: `"f32 = f32 f32"`. Beside the types of `values`:

    mask   a lane mask in an SGPR pair (b1 vector)
    scc    the scalar condition code (b1 scalar), implicit in the text
    @T     the destination read as an operand, implicit in the text
    exec   the EXEC mask (u64 scalar), implicit in the text
    vcc    the VCC lane mask, implicit in the text
    imm    a number in the text (u32 scalar)
    pkT    in VOP3P: the function is applied to both halves
    mixT   in VOP3P: f32, or an f16 half by op_sel_hi
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

GFX942, GFX950 = "gfx942", "gfx950"
BOTH = frozenset({GFX942, GFX950})
ONLY_950 = frozenset({GFX950})

Semantics = Callable[..., Any]


@dataclass(frozen=True)
class Spec:
    """Meaning of one mnemonic. `unit` picks the lowering; `info` holds what only that lowering needs."""

    name: str
    unit: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    semantics: Semantics
    targets: frozenset[str] = BOTH
    preserves_high: bool = False
    modifiers: frozenset[str] = frozenset()
    info: Mapping[str, Any] = field(default_factory=dict)


class Table:
    """Mnemonic to `Spec`, filled by the table modules at import."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.specs: dict[str, Spec] = {}

    def add(self, names: str | Iterable[str], signature: str, semantics: Semantics, **options: Any) -> None:
        """Enter one meaning under one or more names (space separated)."""
        results, _, operands = signature.partition("=")
        for name in names.split() if isinstance(names, str) else names:
            assert name not in self.specs, name
            options.setdefault("unit", self.unit)
            self.specs[name] = Spec(
                name=name,
                results=tuple(results.split()),
                operands=tuple(operands.split()),
                semantics=semantics,
                **options,
            )
