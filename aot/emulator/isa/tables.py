"""All instruction tables by mnemonic."""

from __future__ import annotations

from aot.emulator.isa.lanes import LANES_TABLE
from aot.emulator.isa.packed import PACKED
from aot.emulator.isa.salu import SALU
from aot.emulator.isa.spec import Spec
from aot.emulator.isa.valu import VALU

SPECS: dict[str, Spec] = {**VALU.specs, **SALU.specs, **PACKED.specs}
LANE: dict[str, Spec] = LANES_TABLE.specs
