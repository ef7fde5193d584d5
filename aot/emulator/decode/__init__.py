"""From disassembly text to instructions of which each operand and modifier is known."""
