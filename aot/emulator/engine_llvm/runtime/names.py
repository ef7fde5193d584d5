"""The runtime functions that handlers call, and their places in the table of pointers in the context.

All take the wave and the instruction record first and return 0, or the way in which the wave stops.
"""

from __future__ import annotations

WIDTHS = (1, 2, 4, 8, 12, 16)

HELPER_NAMES: tuple[str, ...] = (
    "hazard",
    "wait",
    "issue_vm",
    "issue_lgkm",
    "issue_smem",
    "issue_flat",
    "lds_log",
    "resolve_atomic",
    "scalar_load",
    "buffer_addresses",
    "buffer_direct",
    "global_direct",
    "fail",
    *(
        f"{space}_{kind}_{width}"
        for space in ("lds", "global", "scratch", "flat", "buffer")
        for kind in ("load", "store")
        for width in WIDTHS
    ),
)
HELPER_SLOT: dict[str, int] = {name: slot for slot, name in enumerate(HELPER_NAMES)}
