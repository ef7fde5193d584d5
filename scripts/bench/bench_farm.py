#!/usr/bin/env python3
"""Throughput of the farm, end to end and per core, against a clang process per kernel on the same kernels.

The farm's time is everything: enumeration, starting workers, emission, compilation, linking, journal, cache file. The
clang processes get the IR as ready files and store nothing. The two run in turns over the same kernels, so that other
work on the machine meets both. Wall time is what the bar is about; CPU time is steadier where others use the machine.

    scripts/bench/bench_farm.py --kernels 300
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from aot.families import emit
from aot.farm.build import BuildRequest, build
from aot.farm.selection import GridScope, select
from aot.farm.summary import CacheSummary
from aot.toolchain import Toolchain, content_key, find_toolchain, symbol_of, with_symbol
from aot.toolchain.discover import distribution_parts
from aot.workers.cgroup import allowance

_BAR_RATIO, _BAR_CODEGEN_SHARE = 3.0, 0.75


@dataclasses.dataclass
class Cost:
    """Seconds of the wall and of all CPUs, children included."""

    wall: float = 0.0
    cpu: float = 0.0

    def measure(self, work: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), _cpu_seconds()
        work()
        self.wall += time.perf_counter() - wall
        self.cpu += _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _ir_files(folder: Path, scope: GridScope, dtype: str, toolchain: Toolchain) -> list[Path]:
    """The IR of every distinct kernel of a scope."""
    table = select(scope, dtype).table
    paths = {}
    for row in range(len(table)):
        source = emit(table.row(row), toolchain.flavor)
        key = content_key(source, toolchain, scope.arch)
        paths[key] = folder / f"{key[:24]}.ll"
        paths[key].write_text(with_symbol(source.ir, symbol_of(key)))
    return list(paths.values())


def _clang(clang: Path, arch: str, extra: list[str], paths: list[Path], jobs: int) -> None:
    """One clang process per kernel, as many at a time as there are jobs: source file to code object."""
    flags = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", "-O3", "-fno-addrsig", *extra]

    def one(path: Path) -> None:
        command = [str(clang), "-x", "ir", *flags, str(path), "-o", str(path.with_suffix(".so"))]
        subprocess.run(command, check=True, capture_output=True)

    with ThreadPoolExecutor(jobs) as executor:
        list(executor.map(one, paths))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--kernels", type=int, default=300, help="identities, spread over all axes")
    parser.add_argument("--rounds", type=int, default=2, help="turns that the kernels are divided into")
    parser.add_argument("--jobs", type=int, default=0, help="workers and clang processes; 0: all CPUs allowed")
    parser.add_argument("--toolchain", help="of the farm")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    jobs = min(options.jobs or allowance().cpus, allowance().cpus)
    toolchain = find_toolchain(options.toolchain)
    clang = toolchain.clang or distribution_parts(toolchain.llvm_major).clang
    if clang is None:
        parser.error(f"no clang of LLVM {toolchain.llvm_major} to compare with")
    costs = {name: Cost() for name in ("farm", "clang -O3", "clang -O3, no passes")}
    stages: dict[str, float] = {}
    kernels = 0
    for index in range(options.rounds):
        shard = (index + 1, options.rounds)
        scope = GridScope(options.arch, ("fwd",), limit=options.kernels, shard=shard)
        with tempfile.TemporaryDirectory(prefix="rocke-bench-") as name:
            folder = Path(name)
            paths = _ir_files(folder, scope, options.dtype, toolchain)
            request = BuildRequest(scope, (options.dtype,), toolchain, folder / "out", jobs)
            summaries: list[CacheSummary] = []
            costs["farm"].measure(lambda request=request, into=summaries: into.extend(build(request)))
            summary = summaries[0]
            assert summary.complete
            assert summary.built == len(paths)
            kernels += summary.built
            for stage, seconds in summary.stages.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
            for rival, extra in (("clang -O3", []), ("clang -O3, no passes", ["-Xclang", "-disable-llvm-passes"])):
                costs[rival].measure(lambda extra=extra, paths=paths: _clang(clang, options.arch, extra, paths, jobs))
    report = _report(costs, stages, kernels, jobs)
    print(json.dumps(report, indent=2) if options.json else _text(report, toolchain))


def _report(costs: dict[str, Cost], stages: dict[str, float], kernels: int, jobs: int) -> dict[str, object]:
    worker_seconds = costs["farm"].wall * jobs
    inside = {stage: stages[stage] for stage in ("emission", "claim", "parse", "passes", "codegen", "link", "read")}
    parent = {stage: stages[stage] * jobs for stage in ("enumerate", "pack")}
    shares = {stage: seconds / worker_seconds for stage, seconds in (inside | parent).items()}
    shares["starting, waiting"] = 1.0 - sum(shares.values())
    farm = costs["farm"]
    return {
        "kernels": kernels,
        "jobs": jobs,
        "kernels_per_second_and_core": {name: kernels / cost.wall / jobs for name, cost in costs.items()},
        "cpu_ms_per_kernel": {name: 1e3 * cost.cpu / kernels for name, cost in costs.items()},
        "ratio_wall": {name: cost.wall / farm.wall for name, cost in costs.items() if cost is not farm},
        "ratio_cpu": {name: cost.cpu / farm.cpu for name, cost in costs.items() if cost is not farm},
        "share_of_wall": shares,
        "journal_seconds": stages["store"],
    }


def _text(report: dict[str, object], toolchain: Toolchain) -> str:
    lines = [f"{report['kernels']} kernels, {report['jobs']} jobs, toolchain {toolchain.name} ({toolchain.engine})"]
    for title in ("kernels_per_second_and_core", "cpu_ms_per_kernel", "ratio_wall", "ratio_cpu", "share_of_wall"):
        values = report[title]
        assert isinstance(values, dict)
        lines.append(title.replace("_", " "))
        lines += [f"  {name:22} {np.format_float_positional(value, 3, min_digits=3)}" for name, value in values.items()]
    ratio, share = report["ratio_wall"], report["share_of_wall"]
    assert isinstance(ratio, dict)
    assert isinstance(share, dict)
    lines.append(f"bar: {ratio['clang -O3']:.2f} x clang, wanted {_BAR_RATIO}")
    lines.append(f"bar: code generation {share['codegen']:.0%} of the wall time, wanted {_BAR_CODEGEN_SHARE:.0%}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
