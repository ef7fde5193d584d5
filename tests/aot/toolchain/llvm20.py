"""Run by `test_engines.test_llvm_20` in an environment with LLVM 20: compares llvmlite with a clang of that version."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from aot.toolchain import find_toolchain, open_engine
from aot.toolchain.discover import ziglang_linker
from aot.toolchain.engine_clang import clang_command
from aot.toolchain.link import link_with_lld
from aot.toolchain.linker import link_object
from tests.aot.toolchain.samples import samples


def main() -> None:
    """Print {flavor, compared, different}; the clang is zig's, which is started as `zig clang`."""
    toolchain = find_toolchain("llvmlite")
    zig, _ = ziglang_linker()
    different, compared = [], 0
    for arch in ("gfx950", "gfx942"):
        for options in ((), ("-disable-lsr",)):
            engine = open_engine(toolchain, arch, options)
            for sample in samples(arch)[:13]:
                _, *arguments = clang_command(Path("zig"), arch, list(options), "")
                command = [zig, "clang", *arguments]
                reference = subprocess.run(command, input=sample.ir().encode(), capture_output=True, check=True).stdout
                obj = engine.compile(sample.ir())
                linked = link_with_lld(toolchain, obj) == link_object(obj, toolchain.linker_version)
                if obj != reference or not linked:
                    different.append([arch, sample.name, list(options)])
                compared += 1
    print(json.dumps({"flavor": toolchain.flavor, "compared": compared, "different": different}))  # noqa: T201
