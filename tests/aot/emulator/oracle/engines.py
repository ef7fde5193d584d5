"""What of the emulator the oracles look at: its engines and the names in its instruction tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from aot.emulator.isa.memory import MEMORY
from aot.emulator.isa.mfma import MFMA
from aot.emulator.isa.tables import LANE, SPECS

ARCHITECTURES = ("gfx942", "gfx950")
#: The fast engine and the plain one; both come from one table and must agree with the oracle separately.
ENGINES = ("llvm", "numpy")


@cache
def table() -> dict[str, Any]:
    """Mnemonic (without encoding suffix) -> entry of the emulator's tables; every entry has `targets`."""
    parts: tuple[Mapping[str, Any], ...] = (SPECS, LANE, MEMORY, MFMA)
    return {name: entry for part in parts for name, entry in part.items()}


def table_names() -> frozenset[str]:
    return frozenset(table())


def table_targets(name: str) -> frozenset[str]:
    """Architectures on which the table says that the instruction exists."""
    targets: frozenset[str] = table()[name].targets
    return targets
