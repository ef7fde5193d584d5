"""Atomic additions to device memory that nobody reads back.

The metadata says that the memory is the device's own and coarse-grained, which buffers of launch plans are: only then
is an addition one hardware instruction instead of a compare-and-swap loop.
"""

from __future__ import annotations

from aot.ir.builder import Builder
from aot.ir.types import F32
from aot.ir.values import Value

_HINTS = ("amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory", "amdgpu.ignore.denormal.mode")


def add_pair(b: Builder, pair: Value, pointer: Value) -> None:
    """Add two 16-bit floating-point numbers to an aligned pair in memory, each rounded."""
    node = b.metadata_node("!{}")
    hints = ", ".join(f"!{hint} {node}" for hint in _HINTS)
    b.effect(pair.type, f'atomicrmw fadd {pointer}, {pair} syncscope("agent") monotonic, align 4, {hints}')


def add_f32(b: Builder, value: Value, resource: Value, offset: Value) -> None:
    """Add at a byte of a buffer, given per lane; nothing happens where that is out of bounds."""
    name = "llvm.amdgcn.raw.ptr.buffer.atomic.fadd.f32"
    b.declare(name, F32, f"{F32}, ptr addrspace(8), i32, i32, i32 immarg")
    b.effect(F32, f"call {F32} @{name}({value}, {resource}, {offset}, i32 0, i32 0)")
