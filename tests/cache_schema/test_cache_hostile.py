"""Caches with right checksums and wrong content: nothing but a typed error, in bounded time and memory."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cache_schema.cache_check import check_cache
from cache_schema.cache_reader import Cache
from cache_schema.errors import CacheError, RequestError
from tests.cache_schema.hostile import Parts, bomb, ledger_bomb, mutations
from tests.cache_schema.samples import sample
from tests.cache_schema.test_cache_damage import reads

#: Of one file of 30 kB; the machine may be busy.
SECONDS = 20
#: What reading may take beside the file; a ledger at its limit is unpacked and copied once.
MEBIBYTES = 400


@contextmanager
def bounded() -> Iterator[None]:
    """Time and memory of what is done inside."""

    def late(*_: Any) -> None:
        raise AssertionError(f"took more than {SECONDS} s")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handler = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEBIBYTES * 1024


def everything(path: Path) -> int:
    """Ask all that can be asked and check the file; how often it was refused. Any other error is raised."""
    refused = 0
    with bounded():
        try:
            with Cache.open(path) as cache:
                for _, answer in reads(cache):
                    try:
                        answer()
                    except CacheError:
                        refused += 1
        except (CacheError, RequestError):
            refused += 1
        return refused + len(check_cache(path))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Parts, Parts]:
    """Two small sound caches, of which one has symbols that follow no rule."""
    path = tmp_path_factory.mktemp("good") / "c.rocke"
    content = sample(entries=24, rejected=12, code_bytes=200)
    content.write(path)
    first = Parts.of(path.read_bytes())
    content.records[:] = [replace(r, symbol=f"k{r.content_key[3:9]}_{r.code_bytes}") for r in content.records]
    content.write(path)
    return first, Parts.of(path.read_bytes())


def test_sealing_again_changes_nothing(good: tuple[Parts, Parts], tmp_path: Path) -> None:
    """What takes files apart and seals them makes sound ones, so that the mutations are all that is wrong."""
    for parts in good:
        path = tmp_path / "c.rocke"
        path.write_bytes(parts.sealed())
        assert everything(path) == 0


def _rows(group: str, count: int) -> Callable[[Parts], None]:
    return lambda parts: parts.directory["groups"][group].update(rows=count)


def _constant(group: str, column: str, value: int) -> Callable[[Parts], None]:
    return lambda parts: parts.directory["groups"][group]["columns"].update({column: ["const", value]})


@pytest.mark.parametrize(
    "lie",
    [
        _rows("block", 2**40),
        _rows("entry", 2**40),
        _rows("kernel", 2**20),
        _constant("block", "raw_bytes", 2**32 - 1),
        _constant("kernel", "block_size", 0),
        _constant("identity", "vector_size_a", 2**31 - 1),
        _constant("identity", "pipeline", 1),
        _constant("entry", "kernel", 16),
        lambda parts: bomb(parts, 1024),
        lambda parts: ledger_bomb(parts, 1024),
    ],
)
def test_lies_that_cost(lie: Callable[[Parts], None], good: tuple[Parts, Parts], tmp_path: Path) -> None:
    """What would be a long loop, a large allocation or a division by zero is refused, and found by the check."""
    parts = good[0].copy()
    lie(parts)
    path = tmp_path / "c.rocke"
    path.write_bytes(parts.sealed())
    assert everything(path) > 0


def trial(good: tuple[Parts, Parts], path: Path, data: st.DataObject) -> None:
    """One mutated file."""
    path.write_bytes(data.draw(st.sampled_from(good).flatmap(mutations)).sealed())
    everything(path)


QUICK = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@QUICK
@given(data=st.data())
def test_any_field_may_lie(good: tuple[Parts, Parts], tmp_path: Path, data: st.DataObject) -> None:
    """Whatever one field of directory, index or header is changed to, reading ends with an answer or a typed error."""
    trial(good, tmp_path / "c.rocke", data)


@pytest.mark.full
@settings(QUICK, max_examples=20_000, derandomize=False)
@given(data=st.data())
def test_any_field_may_lie_at_length(good: tuple[Parts, Parts], tmp_path: Path, data: st.DataObject) -> None:
    """The same with other fields every time."""
    trial(good, tmp_path / "c.rocke", data)
