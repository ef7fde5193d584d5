"""A cache of one-wave kernels, quick to emulate, and one that has a kernel under a wrong identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot.toolchain import Toolchain
from tests.aot.samples import forward

QUICK = forward(tile_m=16, tile_n=16, warp_m=1, warp_n=1, vector_size_a=8, vector_size_b=8)
SHUFFLED = forward(tile_m=32, tile_n=16, warp_m=1, warp_n=1, epilogue="cshuffle", vector_size_c=4)
#: Loads of width 8 under a name that promises width 2.
LIAR = forward(tile_m=16, tile_n=16, warp_m=1, warp_n=1, vector_size_a=2, vector_size_b=2)


@pytest.fixture(scope="session")
def quick_cache(tmp_path_factory: pytest.TempPathFactory, local_toolchain: Toolchain) -> Path:
    """Two right kernels."""
    from tests.aot.small_cache import write_small_cache

    path = tmp_path_factory.mktemp("quick") / "quick.rocke"
    return write_small_cache(path, local_toolchain, [QUICK, SHUFFLED])


@pytest.fixture(scope="session")
def lying_cache(tmp_path_factory: pytest.TempPathFactory, local_toolchain: Toolchain) -> Path:
    """A right kernel and a wrong one."""
    from tests.aot.small_cache import write_small_cache

    path = tmp_path_factory.mktemp("lying") / "lying.rocke"
    return write_small_cache(path, local_toolchain, [SHUFFLED, LIAR], codes=[SHUFFLED, QUICK])
