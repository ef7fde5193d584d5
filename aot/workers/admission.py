"""How many workers may run: as many as asked, never more than the CPUs and the memory allow."""

from __future__ import annotations

from dataclasses import dataclass

from aot.workers.cgroup import Allowance
from cache_schema.errors import RequestError

# A warm worker (Python, numpy, libLLVM, one TargetMachine) settles at 150 to 250 MB; large tiles peak higher for
# a moment. A worker above the first figure is replaced when its chunk ends; the second is a hard limit, so that one
# runaway kernel takes its own worker down and not the machine.
WORKER_BYTES = 512 << 20
WORKER_LIMIT_BYTES = 4 << 30
# For the parent and for the file cache of what it writes.
RESERVE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Admission:
    workers: int
    bound: str  # what decided: "request", "cpus" or "memory"


def admit(jobs: int, allowed: Allowance) -> Admission:
    """Workers for `--jobs`, where 0 means every CPU allowed. Raises RequestError for a negative number."""
    if jobs < 0:
        raise RequestError(f"--jobs must be 0 (all CPUs allowed) or more, not {jobs}")
    candidates = [(allowed.cpus, "cpus"), (max(1, (allowed.memory_bytes - RESERVE_BYTES) // WORKER_BYTES), "memory")]
    if jobs:
        candidates.insert(0, (jobs, "request"))
    workers, bound = min(candidates, key=lambda c: c[0])
    return Admission(workers, bound)
