"""The builders emit what they emitted when the lists were committed."""

from __future__ import annotations

import pytest

from grids.families import families, known_family
from tests.aot.kernels import replay_lists
from tests.aot.kernels.replay_lists import ARCHES, FLAVORS, FOLDER, KERNELS_PER_DTYPE, path_of

LISTS = [(family, arch, flavor) for family in families() for arch in ARCHES for flavor in FLAVORS]


@pytest.mark.parametrize(("family", "arch", "flavor"), LISTS)
def test_replay(family: str, arch: str, flavor: str) -> None:
    """Every listed kernel has the committed IR; `scripts/refresh-replay` accepts an intended change."""
    listed = replay_lists.read(path_of(family, arch, flavor))
    assert len(listed) == 2 * (1 if known_family(family).is_step else KERNELS_PER_DTYPE)
    changed = [
        text.split()[1]
        for digest, identity in listed
        if not (text := replay_lists.line(identity, flavor)).startswith(digest)
    ]
    assert changed == []


def test_text_is_the_same_twice() -> None:
    """Nothing of a first emission leaks into a second one."""
    _, identity = replay_lists.read(path_of("implicit_gemm", "gfx950", "llvm22"))[0]
    assert replay_lists.line(identity, "llvm22") == replay_lists.line(identity, "llvm22")


def test_there_are_no_other_lists() -> None:
    """One list per family, architecture and flavor, and none of a family that has gone."""
    assert {path.name for path in FOLDER.iterdir()} == {path_of(*of).name for of in LISTS}
