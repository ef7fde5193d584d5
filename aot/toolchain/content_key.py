"""The name of a kernel's bytes, known before they are compiled.

    key = sha256 over the parts below, each as its length (8 bytes, little endian) and its bytes:
        version tag, IR with the kernel named by the placeholder, target, code generation options, pass pipeline,
        how it is linked, compiler digest
    symbol = "rocke_" + the key's first 24 hex digits

Lengths in front make the parts unambiguous. The symbol depends on the key alone, so equal code is equal bytes.
"""

from __future__ import annotations

import hashlib
import re
from typing import Protocol

from aot.toolchain.engine import TRIPLE
from aot.toolchain.errors import CompileError
from aot.toolchain.link import LLD_FLAGS
from aot.toolchain.toolchain import Toolchain

KERNEL_PLACEHOLDER = "rocke_kernel"
# Raised when the engines themselves change what they ask of LLVM (level, relocation model).
_VERSION = "rocke-aot content key 2"
_SYMBOL_PREFIX, _SYMBOL_DIGITS = "rocke_", 24
_PLACEHOLDER = re.compile(rf"@{KERNEL_PLACEHOLDER}(?![-\w$.])")


class KernelCode(Protocol):
    """What of a kernel's source decides its bytes."""

    @property
    def ir(self) -> str: ...

    @property
    def codegen_options(self) -> tuple[str, ...]: ...

    @property
    def passes(self) -> str: ...


def content_key(source: KernelCode, toolchain: Toolchain, arch: str) -> str:
    """64 hex digits. `source.ir` names its kernel KERNEL_PLACEHOLDER."""
    options = " ".join(sorted(source.codegen_options))
    linking = " ".join(LLD_FLAGS)
    parts = (_VERSION, source.ir, f"{TRIPLE}--{arch}", options, source.passes, linking, toolchain.compiler_digest)
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def symbol_of(key: str) -> str:
    """The kernel's symbol for a content key."""
    return _SYMBOL_PREFIX + key[:_SYMBOL_DIGITS]


def with_symbol(ir: str, symbol: str) -> str:
    """`ir` with its kernel named `symbol`. Raises CompileError if the placeholder is not in it."""
    renamed, count = _PLACEHOLDER.subn(f"@{symbol}", ir)
    if count == 0:
        raise CompileError(f"the IR has no kernel named {KERNEL_PLACEHOLDER}")
    return renamed
