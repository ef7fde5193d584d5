"""How many CPUs and how much memory this process may use: affinity, cgroup v1 and v2, and what is free.

A container sees the CPUs and the memory of the whole host in /proc; its true limits are in the control groups on the
way from the root to its own group, and every one of them binds. `root` stands for "/" so that a test can bring its own
file system.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# cgroup v1 writes "no limit" as the largest multiple of the page size in 63 bits; nothing real is near it.
_V1_UNLIMITED_BYTES = 1 << 60


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the operating system lets this process use."""

    cpus: int  # whole CPUs, at least 1
    memory_bytes: int  # what can still be taken before a limit or the machine is full


def allowance(root: Path = Path("/")) -> Allowance:
    """The tightest of affinity, CPU quota, memory limits and free memory. Unreadable files bind nothing."""
    cpus = min([float(len(os.sched_getaffinity(0))), *_cpu_quotas(root)])
    memory_bytes = min([_free_bytes(root), *_memory_headrooms(root)])
    return Allowance(cpus=max(1, int(cpus)), memory_bytes=max(0, memory_bytes))


def _cpu_quotas(root: Path) -> Iterator[float]:
    for folder in _groups(root, ""):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)
    for folder in _groups(root, "cpu"):
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # "-1" is no quota
            yield int(quota) / int(period)


def _memory_headrooms(root: Path) -> Iterator[int]:
    for folder in _groups(root, ""):
        limit, used = _text(folder / "memory.max"), _text(folder / "memory.current")
        if limit.isdigit() and used.isdigit():
            yield int(limit) - int(used) + _reclaimable_bytes(folder, "inactive_file")
    for folder in _groups(root, "memory"):
        limit, used = _text(folder / "memory.limit_in_bytes"), _text(folder / "memory.usage_in_bytes")
        if limit.isdigit() and used.isdigit() and int(limit) < _V1_UNLIMITED_BYTES:
            yield int(limit) - int(used) + _reclaimable_bytes(folder, "total_inactive_file")


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the control groups from this process's own up to the root; controller "" is the v2 hierarchy."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller not in controllers.split(","):
            continue
        mounts = [root / "sys/fs/cgroup"]
        if controller:
            mounts = [root / "sys/fs/cgroup" / controllers, root / "sys/fs/cgroup" / controller]
        mount = next((m for m in mounts if m.is_dir()), None)
        if mount is None:
            continue
        group = mount / path.lstrip("/")
        # Inside a container the path may be the host's, and the mount is already the container's own group.
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount) and folder.is_dir())


def _free_bytes(root: Path) -> int:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return _V1_UNLIMITED_BYTES


def _reclaimable_bytes(folder: Path, field: str) -> int:
    """File cache counts as used but is given back under pressure."""
    for line in _text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == field:
            return int(value)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
