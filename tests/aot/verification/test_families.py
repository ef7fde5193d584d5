"""Kernels spread over whole grids are right: a few of each family in every run, 2,000 with --full."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aot.farm.build import BuildRequest, build
from aot.farm.selection import GridScope
from aot.toolchain import Toolchain
from aot.verification.session import VerifyRequest, verify

FEW, MANY = 16, 2000
DIRECTIONS = ("fwd", "dgrad", "wgrad")


def failures(
    folder: Path, toolchain: Toolchain, arch: str, direction: str, dtype: str, limit: int, jobs: int
) -> list[str]:
    """Build `limit` kernels spread over all axes, verify every one, and name what is not right."""
    scope = GridScope(arch, (direction,), limit=limit)
    (built,) = build(BuildRequest(scope, (dtype,), toolchain, folder, jobs=jobs))
    assert built.failed == 0
    summary = verify(VerifyRequest(folder / f"{arch}-{dtype}.rocke", jobs=jobs), lambda _left, _summary: None)
    assert summary.entries >= limit * 3 // 4
    assert summary.runs >= 7 * (summary.code_objects - 1)
    assert summary.without_cases == 0
    return [f"{failure['label']}: {failure['message']}" for failure in summary.failures]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_few_of_every_family(arch: str, direction: str, tmp_path: Path, local_toolchain: Toolchain) -> None:
    """Every value of every axis that a sample of this size covers; fp16 on one GPU, bf16 on the other."""
    dtype = "fp16" if arch == "gfx942" else "bf16"
    assert failures(tmp_path, local_toolchain, arch, direction, dtype, FEW, 1) == []


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_many_of_every_family(
    arch: str, direction: str, dtype: str, tmp_path: Path, local_toolchain: Toolchain
) -> None:
    """A sample of 2,000 kernels of each direction, GPU and data type."""
    assert failures(tmp_path, local_toolchain, arch, direction, dtype, MANY, len(os.sched_getaffinity(0))) == []
