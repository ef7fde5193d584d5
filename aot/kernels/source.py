"""What a kernel builder hands to the toolchain."""

from __future__ import annotations

from dataclasses import dataclass

from cache_schema.arguments import ArgumentList


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
