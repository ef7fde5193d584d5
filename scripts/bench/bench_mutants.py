"""Kill rate of the verification: plants faults in real code objects and counts how many are noticed.

    .venv/bin/python scripts/bench/bench_mutants.py [--kernel NAME]... [--cache FILE]... [--every N] [--json FILE]

NAME is one of Triton's kernels such as gfx950-gemm_bf16_64x64x32; without any, all of them are tried.

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


def measure(subject: Any, every: int) -> dict[str, Any]:
    """Tries the mutants of one kernel."""
    from tests.aot.emulator.mutant_trial import trials

    start = time.perf_counter()
    results = trials(subject, every)
    kinds: dict[str, Counter[str]] = {}
    for result in results:
        kinds.setdefault(result.mutant.kind, Counter())[result.caught or "survived"] += 1
    survivors = [str(result.mutant) for result in results if not result.caught]
    return {
        "kernel": subject.name,
        "mutants": len(results),
        "kill_rate": 1 - len(survivors) / len(results),
        "kinds": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
        "survivors": survivors,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.aot.emulator.mutant_trial import cache_subjects, triton_subject
    from tests.aot.emulator.triton.launch import DATA, load

    kernels = {str(kernel): triton_subject(kernel) for kernel in load(DATA)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", choices=sorted(kernels), help="may be repeated; default: all")
    parser.add_argument("--cache", type=Path, action="append", default=[], help="all kernels of a cache of ours")
    parser.add_argument("--every", type=int, default=1, help="try every Nth mutant")
    parser.add_argument("--json", type=Path, help="also write the result to a file")
    options = parser.parse_args()
    names = options.kernel or ([] if options.cache else sorted(kernels))
    subjects = [kernels[name] for name in names] + [own for path in options.cache for own in cache_subjects(path)]
    reports = [measure(subject, options.every) for subject in subjects]
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
