"""Whatever lies where a cache is to be written is left as it is, unless it is ours and nothing of it gets lost."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from aot.farm.occupant import require_replaceable
from cache_schema.cache_format import HEADER_BYTES
from cache_schema.errors import RequestError
from cache_schema.table import IdentityTable
from tests.aot.samples import forward
from tests.cache_schema.samples import geometry, sample

ENTRIES = 30
SAME = geometry(ENTRIES)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of made-up kernels."""
    path = tmp_path / "gfx950-bf16.rocke"
    sample(entries=ENTRIES, rejected=4).write(path)
    return path


def refused(path: Path, asked: IdentityTable, *, replace: bool) -> str:
    """What is said; nothing has been touched."""
    with pytest.raises(RequestError) as caught:
        require_replaceable(path, asked, replace=replace)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_there_and_what_loses_nothing(cache: Path, tmp_path: Path) -> None:
    """An empty place, the same kernels, and more of them."""
    require_replaceable(tmp_path / "other.rocke", SAME, replace=False)
    require_replaceable(cache, SAME, replace=False)
    require_replaceable(cache, geometry(2 * ENTRIES), replace=False)


@pytest.mark.parametrize("replace", [False, True])
def test_what_is_not_ours_never_makes_way(replace: bool, cache: Path, tmp_path: Path) -> None:
    """Another file, a damaged beginning, a folder, a link to a cache or to nothing, a cache of a newer format."""
    content = cache.read_bytes()
    for foreign in (b"my notes", b"", content[:5], b"\0" + content[1:]):
        cache.write_bytes(foreign)
        assert "no kernel cache" in refused(cache, SAME, replace=replace)
    cache.write_bytes(content[:8] + (99).to_bytes(4, "little") + content[12:])
    assert "newer" in refused(cache, SAME, replace=replace)
    (tmp_path / "folder.rocke").mkdir()
    assert "no file" in refused(tmp_path / "folder.rocke", SAME, replace=replace)
    for name, target in (("link.rocke", cache), ("dangling.rocke", tmp_path / "nothing")):
        (tmp_path / name).symlink_to(target)
        assert "link" in refused(tmp_path / name, SAME, replace=replace)


def test_fewer_kernels_need_a_word(cache: Path) -> None:
    """One kernel less in one family is a loss, however many others there are."""
    other = IdentityTable.from_identities([forward()])
    for asked, count in ((SAME.take(np.arange(ENTRIES - 1)), ENTRIES - 1), (other, 0)):
        told = refused(cache, asked, replace=False)
        assert f"holds {ENTRIES} kernels of family alpha and this request asks for {count};" in told
        assert "--replace" in told
        require_replaceable(cache, asked, replace=True)


def test_damaged_caches_are_counted_as_far_as_they_can_be(cache: Path) -> None:
    """By what the directory says where the rest is damaged; where it says nothing, they need a word too."""
    content = cache.read_bytes()
    for position in range(12, len(content), 97):
        damaged = bytearray(content)
        damaged[position] ^= 0x08
        cache.write_bytes(damaged)
        few = SAME.take(np.arange(4))
        told = refused(cache, few, replace=False)
        assert re.search(rf"({ENTRIES}|unknown number of|\d+) kernels", told), told
        require_replaceable(cache, few, replace=True)
    cache.write_bytes(content[: HEADER_BYTES + 40])
    assert "unknown number" in refused(cache, SAME, replace=False)
    damaged = bytearray(content)
    damaged[40] ^= 0x08  # a length in the header
    cache.write_bytes(damaged)
    require_replaceable(cache, SAME, replace=False)
