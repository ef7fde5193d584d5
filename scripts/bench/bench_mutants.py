"""Kill rate of the verification: plants faults in real code objects and counts how many are noticed.

    .venv/bin/python scripts/bench/bench_mutants.py [--kernel gfx950-gemm_bf16_64x64x32]... [--every N] [--json FILE]

Only instructions that the right kernel executes are changed. Prints one JSON object: per kernel and kind of fault how
many mutants were made and how they were caught (sanitizer fault, wrong numbers, typed error), and every survivor.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def measure(kernel: Any, every: int) -> dict[str, Any]:
    """Tries the mutants of one kernel."""
    from tests.aot.emulator.mutant_trial import baseline, problems_of, trial
    from tests.aot.emulator.mutants import mutants

    chosen = problems_of(kernel)
    start = time.perf_counter()
    right = baseline(kernel, chosen)
    tried = [m for m in mutants(kernel.code, kernel.arch) if m.instruction.address in right.executed][::every]
    trials = [trial(kernel, mutant, chosen, right.budget) for mutant in tried]
    kinds: dict[str, Counter[str]] = {}
    for result in trials:
        kinds.setdefault(result.mutant.kind, Counter())[result.caught or "survived"] += 1
    survivors = [str(result.mutant) for result in trials if not result.caught]
    return {
        "kernel": str(kernel),
        "mutants": len(trials),
        "kill_rate": 1 - len(survivors) / len(trials),
        "kinds": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
        "survivors": survivors,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.aot.emulator.triton.launch import DATA, load

    kernels = {str(kernel): kernel for kernel in load(DATA)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", choices=sorted(kernels), help="may be repeated; default: all")
    parser.add_argument("--every", type=int, default=1, help="try every Nth mutant")
    parser.add_argument("--json", type=Path, help="also write the result to a file")
    options = parser.parse_args()
    reports = [measure(kernels[name], options.every) for name in options.kernel or sorted(kernels)]
    made = sum(report["mutants"] for report in reports)
    result = {
        "mutants": made,
        "kill_rate": sum(r["kill_rate"] * r["mutants"] for r in reports) / made,
        "kernels": reports,
    }
    text = json.dumps(result, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
