"""Handlers are loaded and run in a process that holds any amount of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import mmap
import numpy as np

NORESERVE = 0x4000
held = []

def hold():
    held.append(mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE))

hold()
from tests.aot.emulator.program_text import program, run_program

# A vector constant, an operation that the host has no instruction for, and one that it has.
for body, expected in (
    ("v_mbcnt_lo_u32_b32 v5, -1, 0", np.minimum(np.arange(64), 32).astype(np.uint32)),
    ("v_cvt_f32_u32_e32 v5, v0; v_sin_f32_e32 v5, v5", None),
    ("v_cvt_f32_u32_e32 v5, v0", np.arange(64, dtype=np.float32).view(np.uint32)),
):
    hold()
    data = np.zeros(64, np.uint32)
    assert not run_program(program(body + "; global_store_dword v1, v5, s[2:3]"), data).faults
    assert expected is None or np.array_equal(data, expected), body
big = np.zeros(3 << 28, np.uint32)
last = "s_add_u32 s2, s2, 0xbfffff00; s_addc_u32 s3, s3, 0; v_mov_b32_e32 v5, 7; global_store_dword v1, v5, s[2:3]"
assert not run_program(program(last), big).faults
assert big[-64:].tolist() == [7] * 64
print("done")
"""


def test_memory_far_from_the_code() -> None:
    """3 GiB taken before and between the loads of handlers, as reserved address space, and a buffer of 3 GiB."""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
