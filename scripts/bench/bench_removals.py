"""What becomes of kernels that lose one wait, barrier or wait state: noticed by whom, or shown to be redundant how.

    .venv/bin/python scripts/bench/bench_removals.py CACHE... [--every N] [--json FILE]

Every such instruction of every Nth kernel is removed, alone. The static checker judges waits and wait states; barriers
are judged by the LDS accesses around them, and by the emulator. Prints one JSON object: counts by kind and outcome,
and the removals that neither caught nor explained.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.aot.hazards.barrier_runs import subjects
    from tests.aot.hazards.removals import OPEN, removals

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("caches", type=Path, nargs="+", metavar="CACHE")
    parser.add_argument("--every", type=int, default=1, help="take every Nth kernel")
    parser.add_argument("--json", type=Path, help="also write the result to a file")
    options = parser.parse_args()
    start, kernels, left = time.perf_counter(), 0, []
    counts: dict[str, Counter[str]] = {}
    for path in options.caches:
        for subject in subjects(path, options.every):
            kernels += 1
            for removal in removals(subject):
                counts.setdefault(removal.kind, Counter())[removal.outcome] += 1
                if removal.outcome == OPEN:
                    left.append(f"{subject.label} {removal.address:#x} {removal.text}: {removal.detail}")
    result = {
        "kernels": kernels,
        "removed": sum(sum(count.values()) for count in counts.values()),
        "outcomes": {kind: dict(count) for kind, count in sorted(counts.items())},
        "unexplained": left,
        "seconds": round(time.perf_counter() - start, 1),
    }
    text = json.dumps(result, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
