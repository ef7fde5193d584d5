"""All instruction tables by mnemonic."""

from __future__ import annotations

from aot.emulator.spec import Spec
from aot.emulator.table_lanes import LANES_TABLE
from aot.emulator.table_packed import PACKED
from aot.emulator.table_salu import SALU
from aot.emulator.table_valu import VALU

SPECS: dict[str, Spec] = {**VALU.specs, **SALU.specs, **PACKED.specs}
LANE: dict[str, Spec] = LANES_TABLE.specs
