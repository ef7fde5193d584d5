"""Allowances read from made-up file systems, and the number of workers that follows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aot.workers.admission import RESERVE_BYTES, WORKER_BYTES, Admission, admit
from aot.workers.cgroup import Allowance, allowance
from cache_schema.errors import RequestError

GIB = 1 << 30


def _machine(root: Path, files: dict[str, str]) -> Path:
    """A root folder with 64 GiB free and these files."""
    for name, text in {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {64 << 20} kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(autouse=True)
def _sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))


def test_without_control_groups_affinity_and_free_memory_bind(tmp_path: Path) -> None:
    """No cgroup file at all: the CPUs of the affinity mask and MemAvailable."""
    assert allowance(_machine(tmp_path, {})) == Allowance(16, 64 * GIB)


def test_v2_limits_of_every_ancestor_bind(tmp_path: Path) -> None:
    """The CPU quota stands in the parent group, the memory limit in the own one; file cache does not count as used."""
    group = "sys/fs/cgroup/batch/job"
    files = {
        "proc/self/cgroup": "0::/batch/job\n",
        f"{group}/cpu.max": "max 100000\n",
        "sys/fs/cgroup/batch/cpu.max": "350000 100000\n",
        f"{group}/memory.max": f"{8 * GIB}\n",
        f"{group}/memory.current": f"{5 * GIB}\n",
        f"{group}/memory.stat": f"anon 1\ninactive_file {2 * GIB}\n",
        "sys/fs/cgroup/batch/memory.max": "max\n",
        "sys/fs/cgroup/batch/memory.current": "1\n",
    }
    assert allowance(_machine(tmp_path, files)) == Allowance(3, 5 * GIB)


def test_v2_in_a_container_reads_the_mounted_group(tmp_path: Path) -> None:
    """The path is the host's and does not exist below the mount: the mount itself is the group."""
    files = {
        "proc/self/cgroup": "0::/docker/0123abcd\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
        "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{GIB}\n",
    }
    assert allowance(_machine(tmp_path, files)) == Allowance(2, 3 * GIB)


def test_v1_quota_and_limit(tmp_path: Path) -> None:
    """Controllers mounted apart, one of them under a joint name; -1 and the huge number mean no limit."""
    files = {
        "proc/self/cgroup": "9:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/x\n",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "150000\n",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{6 * GIB}\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{4 * GIB}\n",
        "sys/fs/cgroup/memory/job/memory.stat": f"total_inactive_file {GIB}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
    }
    assert allowance(_machine(tmp_path, files)) == Allowance(1, 3 * GIB)


def test_a_fraction_of_a_cpu_is_one(tmp_path: Path) -> None:
    """Half a CPU still runs one worker, and a full group has no memory left instead of a negative amount."""
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/cpu.max": "50000 100000\n",
        "sys/fs/cgroup/memory.max": "1000\n",
        "sys/fs/cgroup/memory.current": "2000\n",
    }
    assert allowance(_machine(tmp_path, files)) == Allowance(1, 0)


@pytest.mark.parametrize(
    ("jobs", "cpus", "workers_of_memory", "expected"),
    [
        (0, 8, 100, Admission(8, "cpus")),  # 0 is all CPUs allowed, never 1
        (3, 8, 100, Admission(3, "request")),
        (64, 8, 100, Admission(8, "cpus")),
        (0, 8, 5, Admission(5, "memory")),
        (2, 8, 0, Admission(1, "memory")),  # even a full machine is allowed to try
    ],
)
def test_admission(jobs: int, cpus: int, workers_of_memory: int, expected: Admission) -> None:
    """The tightest of request, CPUs and memory decides, and the answer says which."""
    memory_bytes = RESERVE_BYTES + workers_of_memory * WORKER_BYTES
    assert admit(jobs, Allowance(cpus, memory_bytes)) == expected


def test_negative_jobs_are_refused() -> None:
    """A negative number of workers is a wrong request."""
    with pytest.raises(RequestError, match="--jobs"):
        admit(-1, Allowance(1, GIB))
