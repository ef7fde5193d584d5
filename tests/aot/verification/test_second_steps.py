"""Kernels of second steps are judged by themselves or behind a kernel that needs them, and wrong ones are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot.toolchain import Toolchain
from aot.verification import stream_k_parts
from aot.verification.edge_case import EdgeCase
from aot.verification.session import VerifyRequest, VerifySummary, verify
from cache_schema.problem import ConvProblem
from tests.aot.kernels.wgrad_machine import wgrad
from tests.aot.samples import fix_up_identity, reduce_identity
from tests.aot.small_cache import write_small_cache

TWO_STAGE = wgrad(split_k=2, two_stage=True, tile_m=16, tile_n=16, warp_m=1, warp_n=1, vector_size_a=8, vector_size_b=8)
REDUCE = reduce_identity("gfx950", "bf16", 8)
FEWER = reduce_identity("gfx950", "bf16", 4)


def run(cache: Path, **options: object) -> VerifySummary:
    """A verification without evidence."""
    return verify(VerifyRequest(cache, **options), lambda _left, _summary: None)  # type: ignore[arg-type]


def test_both_steps_are_right(tmp_path: Path, local_toolchain: Toolchain) -> None:
    """Edges of a two-stage kernel, given degrees among them, and of the kernel that folds its replicas."""
    cache = write_small_cache(tmp_path / "two.rocke", local_toolchain, [TWO_STAGE, REDUCE])
    summary = run(cache)
    assert (summary.right, summary.failures) == (2, [])
    assert summary.runs > 12


def test_a_wrong_second_step_is_found(tmp_path: Path, local_toolchain: Toolchain) -> None:
    """One that folds half of the replicas fails by itself, and so does every kernel in front of it."""
    cache = write_small_cache(tmp_path / "lie.rocke", local_toolchain, [TWO_STAGE, REDUCE], codes=[TWO_STAGE, FEWER])
    summary = run(cache)
    assert summary.wrong == 2
    assert all("failing" in failure for failure in summary.failures)


def test_a_missing_second_step_is_an_error(tmp_path: Path, local_toolchain: Toolchain) -> None:
    """A kernel that cannot be launched from its cache is not right; a step that no kernel needs is right by itself."""
    lone = fix_up_identity("gfx950", "bf16")
    cache = write_small_cache(tmp_path / "half.rocke", local_toolchain, [TWO_STAGE, lone])
    summary = run(cache)
    assert (summary.error, summary.right) == (1, 1)
    assert "lacks" in summary.failures[0]["message"]


@pytest.mark.parametrize("part", range(stream_k_parts.PER_TILE))
def test_every_part_counts(
    part: int, tmp_path: Path, local_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one part of the made-up output tiles is missing from the workspace, the kernel that adds them is wrong."""
    cache = write_small_cache(tmp_path / "one.rocke", local_toolchain, [fix_up_identity("gfx950", "bf16")])
    scattered = stream_k_parts.scattered

    def without(parts: stream_k_parts.Floats, problem: ConvProblem) -> stream_k_parts.Floats:
        left = parts.copy()
        left[part] = 0
        return scattered(left, problem)

    monkeypatch.setattr(stream_k_parts, "scattered", without)
    assert run(cache).wrong == 1


@pytest.mark.parametrize("n", [0, 2])
def test_second_steps_serve_no_problem(n: int, tmp_path: Path, local_toolchain: Toolchain) -> None:
    """Given problems, even those that need no kernel, are for the kernels in front of them."""
    cache = write_small_cache(tmp_path / "two.rocke", local_toolchain, [TWO_STAGE, REDUCE])
    problem = ConvProblem("wgrad", "bf16", n=n, c=8, h=5, w=8, k=8, y=1, x=1)
    summary = run(cache, cases=(EdgeCase("given", problem, "ints"),))
    assert (summary.right, summary.without_cases, summary.runs) == (2, 1, 1)
