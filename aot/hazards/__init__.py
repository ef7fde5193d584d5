"""Hazards of final machine code: rules about what must stand between two instructions, checked over all paths.

The hardware of the gfx940 family interlocks many dependences and leaves others to the program. Those are stated here
as data (`rules`, `matrix_rules`), and three analyses look for them without executing anything: `wait_states`
(instructions that must be apart), `counters` (results that must be waited for), `exec_mask` (what needs every lane).
"""

from aot.hazards.check import check_code
from aot.hazards.finding import Finding

#: Goes up when a rule comes, goes or changes its numbers, so that earlier evidence does not speak for a later rule.
RULES_VERSION = "1"

__all__ = ["RULES_VERSION", "Finding", "check_code"]
