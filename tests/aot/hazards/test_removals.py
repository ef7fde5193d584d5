"""Each wait, barrier and wait state of real kernels is needed and its absence noticed, or shown to be redundant."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aot.toolchain import Toolchain
from tests.aot.dgrad_kernels import dgrad
from tests.aot.hazards.barrier_runs import subjects
from tests.aot.hazards.removals import BARRIER, FAULT, HAZARD, OPEN, STATES, WAIT, Removal, removals
from tests.aot.samples import forward
from tests.aot.small_cache import write_small_cache


def removed(path: Path, every: int) -> list[Removal]:
    return [removal for subject in subjects(path, every) for removal in removals(subject)]


def check(results: list[Removal]) -> None:
    """Nothing is unexplained, and most of what was removed was needed."""
    assert not [removal for removal in results if removal.outcome == OPEN]
    counts = Counter((removal.kind, removal.outcome) for removal in results)
    for kind, noticed in ((WAIT, HAZARD), (BARRIER, FAULT), (STATES, HAZARD)):
        total = sum(count for (of, _), count in counts.items() if of == kind)
        assert counts[kind, noticed] > 0.6 * total > 0, (kind, counts)


def test_forward_kernels_of_gfx942(small_cache_gfx942: Path) -> None:
    """Three pipelines with and without shuffled stores."""
    check(removed(small_cache_gfx942, 2))


def test_loads_to_lds_and_backward_data(local_toolchain: Toolchain, tmp_path: Path) -> None:
    """gfx950: loads to LDS by one wave, which has no barriers, and by several; transposed reads."""
    wide: dict[str, Any] = {
        "vector_size_a": 8,
        "vector_size_b": 8,
        "async_dma": True,
        "async_chunk_a": 8,
        "async_chunk_b": 8,
    }
    identities = [forward(tile_m=32, tile_n=32, warp_m=1, warp_n=1, **wide), forward(**wide), dgrad()]
    results = removed(write_small_cache(tmp_path / "few.rocke", local_toolchain, identities), 1)
    check(results)
    assert any("load to LDS" in removal.detail for removal in results)


@pytest.mark.full
def test_every_kernel_of_the_small_caches(small_cache: Path, small_cache_gfx942: Path) -> None:
    """All five forward kernels of both targets."""
    check(removed(small_cache, 1) + removed(small_cache_gfx942, 1))
