"""What speaks in a verdict: the emulator and the hazard rules, each of its version."""

from __future__ import annotations

from typing import Final

from aot.emulator import EMULATOR_VERSION
from aot.hazards import RULES_VERSION

VERIFIER: Final = f"{EMULATOR_VERSION} hazards/{RULES_VERSION}"
