"""What a kernel builder hands to the toolchain."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.arguments import ArgumentList

#: Loop strength reduction adds address registers to loops that need none. Breaking accumulator phis into scalars makes
#: the register allocator copy them every round. The scalar passes in front of instruction selection find nothing to do
#: in a K loop that was emitted without common subexpressions, and one of them (straight-line strength reduction) is
#: quadratic: it takes up to two thirds of code generation.
CODEGEN_OPTIONS = (
    "-amdgpu-codegenprepare-break-large-phis=false",
    "-amdgpu-scalar-ir-passes=false",
    "-disable-lsr",
)


@dataclass(frozen=True, slots=True)
class KernelSource:
    """One kernel as LLVM IR text, its name in the text being `aot.ir.module.KERNEL_PLACEHOLDER`.

    `lds_bytes` is static. `codegen_options` are LLVM command-line options, `passes` a new-pass-manager pipeline to run
    before code generation ("" when the text needs none).
    """

    ir: str
    arguments: ArgumentList
    block_size: int
    lds_bytes: int
    codegen_options: tuple[str, ...] = ()
    passes: str = ""
