"""What the looks at K loops share: compiling a kernel, their options, and a table of records."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aot.families import emit
from aot.toolchain import Toolchain, content_key, link, open_engine, symbol_of, with_symbol
from cache_schema.identity import Identity


@dataclass(frozen=True, slots=True)
class Compiled:
    """A code object, and the milliseconds that its text and its compilation took."""

    code: bytes
    emit_ms: float
    compile_ms: float


def compiled(toolchain: Toolchain, identity: Identity) -> Compiled:
    """One kernel, in an engine of its own."""
    start = time.perf_counter()
    source = emit(identity, toolchain.flavor)
    emitted = time.perf_counter()
    symbol = symbol_of(content_key(source, toolchain, identity.arch))
    engine = open_engine(toolchain, identity.arch, source.codegen_options)
    try:
        code = link(toolchain, engine.compile(with_symbol(source.ir, symbol), source.passes))
    finally:
        engine.close()
    return Compiled(code, 1000 * (emitted - start), 1000 * (time.perf_counter() - emitted))


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options of every script: --dtype and --json."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--dtype", default="bf16", choices=("bf16", "fp16"))
    made.add_argument("--json", action="store_true")
    return made


def show(records: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print records with the same fields, as JSON or as a table."""
    if as_json:
        print(json.dumps(records, indent=2))
        return
    widths = {name: max(len(name), *(len(str(record[name])) for record in records)) for name in records[0]}
    print("  ".join(name.ljust(width) for name, width in widths.items()))
    for record in records:
        print("  ".join(str(record[name]).ljust(width) for name, width in widths.items()))
