"""Forward dataflow over the control-flow graph: states at the start of blocks until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from aot.inspection.control_flow import Block

State = TypeVar("State")


def entry_states(
    blocks: Sequence[Block],
    start: State,
    transfer: Callable[[Block, State], State],
    join: Callable[[State, State], State],
) -> dict[int, State]:
    """The state at the start of each block that can be reached, over all paths and back edges.

    `join` must be monotone over a lattice of finite height, and equal states must compare equal: then this ends.
    """
    states = {0: start}
    pending = [0]
    while pending:
        number = min(pending)  # in address order, so that most of a block's predecessors come before it
        pending.remove(number)
        out = transfer(blocks[number], states[number])
        for successor in blocks[number].successors:
            known = states.get(successor)
            joined = out if known is None else join(known, out)
            if known is None or joined != known:
                states[successor] = joined
                if successor not in pending:
                    pending.append(successor)
    return states
