"""What this machine has to compile with, why it was chosen, what is missing and how to get it: plain data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aot.toolchain.disassemble import find_disassembler
from aot.toolchain.discover import (
    INSTALL_LINKER,
    INSTALL_LLVMLITE,
    INSTALL_SYSTEM,
    Parts,
    candidates,
    find_toolchain,
    make_toolchain,
)
from aot.toolchain.toolchain import Toolchain
from cache_schema.errors import RockeAotError


@dataclass(frozen=True, slots=True)
class Candidate:
    """An LLVM of this machine, in order of preference. `problem` says why it cannot be used, if it cannot."""

    name: str
    reason: str
    engines: tuple[str, ...]
    llvm_version: str | None
    flavor: str | None
    linker: str | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Tool:
    """One need: `found` describes what serves it, or `command` gets what would."""

    need: str
    found: str | None
    required: bool
    command: str | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`chosen` is None if nothing can compile here; `problem` then says why."""

    chosen: Toolchain | None
    problem: str | None
    candidates: tuple[Candidate, ...]
    tools: tuple[Tool, ...]
    python: str

    @property
    def is_healthy(self) -> bool:
        """Whether everything required was found."""
        return all(tool.found for tool in self.tools if tool.required)

    def to_json(self) -> dict[str, Any]:
        """The same as dictionaries, lists and strings."""
        record = asdict(self) | {"is_healthy": self.is_healthy}
        if self.chosen is not None:
            record["chosen"] |= {key: str(value) for key, value in record["chosen"].items() if isinstance(value, Path)}
        return record


def doctor(name: str | None = None) -> Diagnosis:
    """Look at everything that `find_toolchain(name)` would look at, and at what it does not stop for."""
    chosen, problem = None, None
    try:
        chosen = find_toolchain(name)
    except RockeAotError as error:
        problem = str(error)
    return Diagnosis(
        chosen=chosen,
        problem=problem,
        candidates=tuple(_candidate(parts, reason) for parts, reason in candidates()),
        tools=tuple(_tools(chosen)),
        python=".".join(map(str, sys.version_info[:3])),
    )


def _candidate(parts: Parts, reason: str) -> Candidate:
    linker = " ".join(parts.linker) or None
    try:
        found = make_toolchain(parts, reason)
    except RockeAotError as error:
        return Candidate(parts.name, reason, parts.engines, None, None, linker, str(error))
    return Candidate(parts.name, reason, parts.engines, found.llvm_version, found.flavor, linker, None)


def _tools(chosen: Toolchain | None) -> Iterator[Tool]:
    compiler = f"{chosen.name}: LLVM {chosen.llvm_version}, engine {chosen.engine}" if chosen else None
    yield Tool("code generation", compiler, True, None if chosen else f"{INSTALL_SYSTEM}, or {INSTALL_LLVMLITE}")
    linker = chosen.linker_version if chosen and chosen.linker else None
    # The built-in linker covers what our kernels need; ld.lld takes what it does not know.
    yield Tool("ld.lld, beside the built-in linker", linker, False, None if linker else INSTALL_LINKER)
    if chosen and chosen.engine == "llvmlite":
        yield Tool("libLLVM, which compiles faster than llvmlite", None, False, INSTALL_SYSTEM)
    try:
        library, objdump = find_disassembler(chosen)
        disassembler = str(library or objdump)
    except RockeAotError:
        disassembler = None
    need = "LLVM's disassembler (libLLVM or llvm-objdump), for verify, hot-loop statistics and inspect --disasm"
    yield Tool(need, disassembler, False, None if disassembler else INSTALL_SYSTEM)
