"""Run by `test_engines.test_llvm_20` in an environment with LLVM 20: compares llvmlite with a clang of that version."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from aot.families import emit
from aot.toolchain import find_toolchain, open_engine
from aot.toolchain.discover import ziglang_linker
from aot.toolchain.engine_clang import clang_command
from aot.toolchain.link import link_with_lld
from aot.toolchain.linker import link_object
from aot.toolchain.options import as_flags, parse_options
from grids.catalogue import buildable
from tests.aot.toolchain.samples import samples


def cases(arch: str, flavor: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(name, IR, options): hand-written samples, and forward kernels spread over the grid."""
    for options in ((), ("-disable-lsr",)):
        for sample in samples(arch)[:13]:
            yield sample.name, sample.ir(), options
    table = buildable(arch, ["bf16"], ["fwd"], limit=5)
    for index in range(len(table)):
        source = emit(table.row(index), flavor)
        yield str(table.row(index)), source.ir, source.codegen_options


def main() -> None:
    """Print {flavor, compared, different}; the clang is zig's, which is started as `zig clang`."""
    toolchain = find_toolchain("llvmlite")
    zig, _ = ziglang_linker()
    different, compared = [], 0
    for arch in ("gfx950", "gfx942"):
        for name, ir, options in cases(arch, toolchain.flavor):
            flags = as_flags(parse_options(options, toolchain.llvm_major))
            _, *arguments = clang_command(Path("zig"), arch, flags, "")
            command = [zig, "clang", *arguments]
            reference = subprocess.run(command, input=ir.encode(), capture_output=True, check=True).stdout
            engine = open_engine(toolchain, arch, options)
            obj = engine.compile(ir)
            engine.close()
            if obj != reference or link_with_lld(toolchain, obj) != link_object(obj, toolchain.linker_version):
                different.append([arch, name, list(options)])
            compared += 1
    print(json.dumps({"flavor": toolchain.flavor, "compared": compared, "different": different}))  # noqa: T201
