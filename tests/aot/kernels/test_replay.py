"""The builders emit what they emitted when the lists were committed."""

from __future__ import annotations

import pytest

from tests.aot.kernels import replay_lists
from tests.aot.kernels.replay_lists import ARCHES, DIRECTIONS, FLAVORS, path_of

LISTS = [(direction, arch, flavor) for direction in DIRECTIONS for arch in ARCHES for flavor in FLAVORS]


@pytest.mark.parametrize(("direction", "arch", "flavor"), LISTS)
def test_replay(direction: str, arch: str, flavor: str) -> None:
    """Every listed kernel has the committed IR; `scripts/refresh-replay` accepts an intended change."""
    listed = replay_lists.read(path_of(direction, arch, flavor))
    assert len(listed) >= replay_lists.KERNELS_PER_DTYPE
    changed = [
        text.split()[1]
        for digest, identity in listed
        if not (text := replay_lists.line(identity, flavor)).startswith(digest)
    ]
    assert changed == []


def test_text_is_the_same_twice() -> None:
    """Nothing of a first emission leaks into a second one."""
    _, identity = replay_lists.read(path_of("fwd", "gfx950", "llvm22"))[0]
    assert replay_lists.line(identity, "llvm22") == replay_lists.line(identity, "llvm22")
