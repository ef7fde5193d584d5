"""What tests of several rooms share: a toolchain and a small real cache, made once per run."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot.toolchain import Toolchain, find_toolchain
from tests.aot.samples import LIAR, QUICK, SHUFFLED, sample_identities


@pytest.fixture(scope="session")
def local_toolchain() -> Toolchain:
    """What this machine compiles with by default."""
    return find_toolchain()


@pytest.fixture(scope="session")
def small_cache(tmp_path_factory: pytest.TempPathFactory, local_toolchain: Toolchain) -> Path:
    """Five forward kernels for gfx950 and two rejected candidates."""
    from tests.aot.small_cache import write_small_cache

    path = tmp_path_factory.mktemp("small") / "gfx950-bf16.rocke"
    return write_small_cache(path, local_toolchain, sample_identities())


@pytest.fixture(scope="session")
def small_cache_gfx942(tmp_path_factory: pytest.TempPathFactory, local_toolchain: Toolchain) -> Path:
    """The same kernels for gfx942."""
    from tests.aot.small_cache import write_small_cache

    path = tmp_path_factory.mktemp("small") / "gfx942-bf16.rocke"
    return write_small_cache(path, local_toolchain, sample_identities("gfx942"))


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
