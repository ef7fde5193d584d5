"""Wait counts and workgroup barriers without memory fences.

A fence would drain every outstanding load; these wait for exactly what the algorithm needs.
"""

from __future__ import annotations

from aot.ir.builder import Builder
from aot.ir.types import VOID

#: Largest counts of the fields: "do not wait".
VM_NO_WAIT, LGKM_NO_WAIT, EXP_NO_WAIT = 63, 15, 7


def wait_immediate(*, vmcnt: int = VM_NO_WAIT, lgkmcnt: int = LGKM_NO_WAIT) -> int:
    """gfx9 encoding of s_waitcnt: vm[3:0], exp[6:4], lgkm[11:8], vm[5:4] at 14. Counts are clamped, never wrapped."""
    vm, lgkm = min(vmcnt, VM_NO_WAIT), min(lgkmcnt, LGKM_NO_WAIT)
    return vm & 15 | EXP_NO_WAIT << 4 | lgkm << 8 | (vm >> 4) << 14


def wait(b: Builder, *, vmcnt: int = VM_NO_WAIT, lgkmcnt: int = LGKM_NO_WAIT) -> None:
    """Wait until at most this many global loads and LDS operations of the wave are outstanding."""
    b.declare("llvm.amdgcn.s.waitcnt", VOID, "i32 immarg")
    b.line(f"call void @llvm.amdgcn.s.waitcnt(i32 {wait_immediate(vmcnt=vmcnt, lgkmcnt=lgkmcnt)})")


def lds_barrier(b: Builder, *, vmcnt: int = VM_NO_WAIT) -> None:
    """All waves have finished the LDS accesses (and global loads down to vmcnt) that they issued before this point."""
    wait(b, vmcnt=vmcnt, lgkmcnt=0)
    b.declare("llvm.amdgcn.s.barrier", VOID, "")
    b.line("call void @llvm.amdgcn.s.barrier()")
