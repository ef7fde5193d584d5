"""Kernels per second of one core, by how they are compiled and linked, against a clang process per kernel in one run.

    python scripts/bench/bench_compile.py [--arch gfx950] [--dtype bf16] [--kernels 24] [--triton PYTHON]

Every way compiles the same forward kernels, spread over the grid, and is charged the CPU time of this process and of
those it starts, so that a busy machine does not matter. Ways that are ours start from an identity (emission and content
key included); the clang process gets ready IR: with its whole -O3 pipeline and nothing else, as one would call it, then
with what we found out about options and passes.
`--triton` names an interpreter of an environment with Triton (`pip install triton`), which compiles implicit-GEMM
convolutions at common tiles from source (`triton_convolution.py` beside this file).
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

from aot.families import emit
from aot.kernels.source import KernelSource
from aot.toolchain import Engine, Toolchain, content_key, find_toolchain, link, open_engine, symbol_of, with_symbol
from aot.toolchain.link import link_with_lld
from cache_schema.identity import Identity
from grids.catalogue import buildable

STAGES = ("emit", "parse", "passes", "codegen", "link")
O3 = "default<O3>"


def cpu_seconds() -> float:
    """CPU time of this process and of the compilers and linkers it started."""
    children = getrusage(RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def stage_times(engine: Engine) -> dict[str, float]:
    """The engine's clock by stage."""
    return {"parse": engine.timings.parse, "passes": engine.timings.passes, "codegen": engine.timings.codegen}


@dataclass
class Way:
    """One way to a code object, and the CPU seconds it spent by stage."""

    name: str
    toolchain: Toolchain
    linker: Callable[[Toolchain, bytes], bytes]
    passes: str = ""
    is_ours: bool = True
    has_options: bool = True
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    engines: dict[tuple[str, ...], Engine] = field(default_factory=dict)

    def engine(self, arch: str, options: tuple[str, ...]) -> Engine:
        """Warm, one per option set: what a farm's worker keeps."""
        if options not in self.engines:
            self.engines[options] = open_engine(self.toolchain, arch, options)
        return self.engines[options]

    def build(self, identity: Identity, source: KernelSource) -> bytes:
        """One code object; `source` is what emission gives, used directly where only the compiler is measured."""
        start = cpu_seconds()
        if self.is_ours:
            source = emit(identity, self.toolchain.flavor)
        ir = with_symbol(source.ir, symbol_of(content_key(source, self.toolchain, identity.arch)))
        emitted = cpu_seconds()
        engine = self.engine(identity.arch, source.codegen_options if self.has_options else ())
        before = stage_times(engine)
        obj = engine.compile(ir, self.passes or source.passes)
        compiled = cpu_seconds()
        code = self.linker(self.toolchain, obj)
        self.seconds["link"] += cpu_seconds() - compiled
        self.seconds["emit"] += emitted - start if self.is_ours else 0.0
        # The engine's own clock runs on while others compute: only its proportions are used.
        spent = {stage: after - before[stage] for stage, after in stage_times(engine).items()}
        for stage, wall in spent.items():
            self.seconds[stage] += (compiled - emitted) * wall / sum(spent.values())
        return code

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def ways(system: Toolchain, python_only: Toolchain) -> list[Way]:
    """The reference first."""
    clang = find_toolchain(f"{system.name}@clang")
    return [
        Way("clang -O3 process + ld.lld", clang, link_with_lld, O3, is_ours=False, has_options=False),
        Way("... with our codegen options", clang, link_with_lld, O3, is_ours=False),
        Way("clang process, codegen only + ld.lld", clang, link_with_lld, is_ours=False),
        Way("llvmlite O3 + ld.lld", python_only, link_with_lld, O3),
        Way("llvmlite, codegen only + own link", python_only, link),
        Way("libLLVM O3 + ld.lld", system, link_with_lld, O3),
        Way("libLLVM, codegen only + ld.lld", system, link_with_lld),
        Way("libLLVM, codegen only + own link", system, link),
    ]


def triton_rate(python: str, arch: str, dtype: str) -> float:
    """Kernels per second of Triton, source to code object."""
    script = Path(__file__).with_name("triton_convolution.py")
    result = subprocess.run([python, str(script), arch, dtype], capture_output=True, text=True, check=True)
    report = json.loads(result.stdout)
    return float(report["kernels"] / report["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--kernels", type=int, default=24)
    parser.add_argument("--triton", metavar="PYTHON")
    options = parser.parse_args()
    table = buildable(options.arch, [options.dtype], ["fwd"], limit=options.kernels)
    identities = [table.row(index) for index in range(len(table))]
    measured = ways(find_toolchain(), find_toolchain("llvmlite"))
    sources = [emit(identity, measured[0].toolchain.flavor) for identity in identities]
    for way in measured:
        way.build(identities[0], sources[0])  # warm up: libraries, page cache
        way.seconds = dict.fromkeys(STAGES, 0.0)
    for identity, source in zip(identities, sources, strict=True):
        for way in measured:  # interleaved, so that a slow moment of the machine hits all of them
            way.build(identity, source)
    reference = measured[0].total
    print(f"{len(identities)} forward kernels, {options.arch} {options.dtype}; CPU milliseconds per kernel")
    print(f"{'':38}{'kernels/s':>10}{'ratio':>7}" + "".join(f"{stage:>9}" for stage in STAGES))
    for way in measured:
        stages = "".join(f"{way.seconds[stage] / len(identities) * 1e3:9.2f}" for stage in STAGES)
        print(f"{way.name:38}{len(identities) / way.total:10.1f}{reference / way.total:7.2f}{stages}")
    best = measured[-1]
    print(f"code generation is {best.seconds['codegen'] / best.total:.0%} of the last line's time")
    if options.triton:
        rate = triton_rate(options.triton, options.arch, options.dtype)
        print(f"{'Triton convolutions, from source':38}{rate:10.1f}{rate * reference / len(identities):7.2f}")


if __name__ == "__main__":
    main()
