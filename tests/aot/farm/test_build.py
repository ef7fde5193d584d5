"""Whole builds over a unit without a compiler: what is done, what is written, and what a second run leaves alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aot.farm import build as build_module
from aot.farm.build import BuildRequest, build
from aot.farm.progress import Counts, Silent
from aot.farm.selection import GridScope, select
from aot.farm.sources import source_digests
from aot.farm.summary import CacheSummary
from aot.toolchain.toolchain import Toolchain
from aot.workers.interrupt import BuildInterruptedError, StopFlag
from cache_schema.cache_check import check_cache
from cache_schema.cache_reader import Cache
from cache_schema.errors import DeliveryError, RequestError
from cache_schema.label import encode
from cache_schema.outcome import OutcomeKind
from grids.catalogue import open_catalogue
from tests.aot.farm import fake_unit
from tests.aot.farm.fake_unit import Behaviour, code_of, key_of, logged

TOOLCHAIN = Toolchain("fake", "a test", "22.1.0", "llvm22", "fake", ("fake",), "0" * 64, "fake 1")
LIMIT = 60
AXES = "every: {tile_m: [64, 128], tile_n: [64, 128], tile_k: [32], warp_m: [1, 2], warp_n: [1, 2]}\n"

Make = Callable[..., BuildRequest]


@pytest.fixture
def behaviour(tmp_path: Path) -> Behaviour:
    return Behaviour(tmp_path / "log")


@pytest.fixture
def make(tmp_path: Path, behaviour: Behaviour) -> Make:
    """Requests for LIMIT kernels of a small forward grid."""
    axes = tmp_path / "axes.yaml"
    axes.write_text(AXES)

    def request(
        out: str = "out", limit: int | None = LIMIT, act: Behaviour = behaviour, **options: object
    ) -> BuildRequest:
        scope = GridScope("gfx950", ("fwd",), axes_file=axes, limit=limit)
        values: dict[str, object] = {"scope": scope, "dtypes": ("bf16",), "toolchain": TOOLCHAIN, "jobs": 1}
        values |= {"out": tmp_path / out, "unit": fake_unit.unit(act), "time_limit": 30.0, **options}
        return BuildRequest(**values)  # type: ignore[arg-type]

    return request


def _one(request: BuildRequest) -> CacheSummary:
    (summary,) = build(request)
    return summary


def _with_async(request: BuildRequest) -> BuildRequest:
    """More rows, so that several load widths of one direct-to-LDS kernel are among them."""
    return replace(request, scope=replace(request.scope, limit=900))


def test_a_build_delivers_what_it_was_asked_for(make: Make) -> None:
    """Every identity is in the file with the right code and facts, the file is sound, and nothing else is left."""
    request = make()
    summary = _one(request)
    selection = select(request.scope, "bf16")
    assert (summary.identities, summary.failed, summary.timed_out) == (LIMIT, 0, 0)
    assert summary.built + summary.duplicates == LIMIT
    assert check_cache(summary.cache) == ()
    with Cache.open(summary.cache) as cache:
        assert np.array_equal(cache.digests, selection.digests)
        for number in range(LIMIT):
            entry = cache.entry(number)
            identity: Any = entry.identity
            key = key_of(identity)
            assert entry.content_key == key.hex()
            assert cache.code_object(number) == code_of(key)
            assert (entry.symbol, entry.block_size) == (
                f"rocke_{key.hex()[:24]}",
                64 * identity.warp_m * identity.warp_n,
            )
            assert (entry.lds_bytes, entry.vgprs, entry.sgprs, entry.arguments) == (1024, 64, 32, fake_unit.ARGUMENTS)
    assert [path.name for path in request.out.iterdir()] == ["gfx950-bf16.rocke"]


def test_every_candidate_has_an_outcome(make: Make) -> None:
    """Entries and ledger together are the whole candidate list, each once."""
    summary = _one(make(limit=None))
    rows = open_catalogue("gfx950", ["bf16"], ["fwd"], axes_file=make().scope.axes_file).count_rows()
    candidates = sum(row.candidates for row in rows)
    assert summary.rejected
    with Cache.open(summary.cache) as cache:
        assert len(cache) + len(cache.ledger) == candidates
        assert set(cache.ledger.kind.tolist()) == {OutcomeKind.REJECTED}
        assert all(reason.startswith("F") for _, reason in cache.ledger.counts())


def test_each_key_is_compiled_once_and_each_identity_emitted_once(make: Make, behaviour: Behaviour) -> None:
    """With several workers and aliases spread over all chunks, no kernel is emitted or compiled a second time."""
    summary = _one(_with_async(make(jobs=2)))
    emitted, compiled = logged(behaviour, "emit"), logged(behaviour, "compile")
    assert len(emitted) == len(set(emitted)) == 900
    assert len(compiled) == len(set(compiled)) == summary.built
    assert summary.duplicates == 900 - summary.built > 0


def test_bytes_do_not_depend_on_workers_place_or_order(make: Make, behaviour: Behaviour) -> None:
    """One worker, two slow ones, another folder: the same file and the same representatives of duplicates."""
    slow = replace(behaviour, seconds=0.001)
    requests = [make("a", jobs=1), make("b", jobs=2), make("c/d e", jobs=2, act=slow)]
    files = {_one(_with_async(request)).cache.read_bytes() for request in requests}
    assert len(files) == 1


def test_an_unchanged_request_touches_nothing(make: Make, behaviour: Behaviour) -> None:
    """The second run emits nothing, starts no worker and leaves the very same file."""
    first = _one(make())
    before = first.cache.stat()
    behaviour.log.unlink()
    second = _one(make())
    after = second.cache.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert logged(behaviour, "") == []
    assert (second.reused, second.built, second.changed, second.sha256) == (LIMIT, 0, False, first.sha256)


def test_changed_sources_with_equal_ir_compile_nothing(make: Make, behaviour: Behaviour) -> None:
    """When everything is emitted again but the keys are the same, the code comes from the old file."""
    _one(make())
    behaviour.log.unlink()
    other = {"emitter": "edited"}
    second = _one(make(provenance=other))
    assert (len(logged(behaviour, "emit")), len(logged(behaviour, "compile"))) == (LIMIT, 0)
    assert (second.reused, second.built) == (LIMIT, 0)
    assert second.cache.read_bytes() == _one(make("fresh", provenance=other)).cache.read_bytes()


@pytest.mark.parametrize("killed", [False, True])
def test_changed_sources_of_one_family_are_its_own_affair(
    make: Make, behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Kernels of the other families are not even emitted again, after a whole build and after one that was stopped."""
    scope = GridScope("gfx950", ("wgrad",), families=("nonsplit", "atomic"), limit=LIMIT)
    request = make(scope=scope)
    families = select(scope, "bf16").table.family_sizes()
    edited, count = families["atomic"], sum(families.values())
    assert 0 < edited < count
    if killed:
        with pytest.raises(BuildInterruptedError):
            build(request, _StopAtTheEnd(stop := StopFlag(), count), stop)
    else:
        _one(request)
    behaviour.log.unlink()
    monkeypatch.setattr(build_module, "source_digests", lambda asked: {**source_digests(asked), "atomic": "edited"})
    second = _one(request)
    assert (len(logged(behaviour, "emit")), logged(behaviour, "compile")) == (edited, [])
    assert (second.reused, second.built) == (count, 0)
    assert _one(request).changed is False


class _StopAtTheEnd(Silent):
    """Stops a build when all kernels are settled, before the file is written."""

    def __init__(self, stop: StopFlag, count: int) -> None:
        self._stop, self._count = stop, count

    def advance(self, done: int, counts: Counts) -> None:
        """Called after every news."""
        del counts
        if done >= self._count:
            self._stop.set()


def test_changed_ir_is_compiled_again(make: Make, behaviour: Behaviour) -> None:
    """Other keys are other kernels, and nothing of the old file survives in the new one."""
    _one(make())
    edited = replace(behaviour, salt="edited")
    second = _one(make(act=edited, provenance={"emitter": "edited"}))
    assert (second.reused, second.built + second.duplicates) == (0, LIMIT)
    assert (
        second.cache.read_bytes()
        == _one(make("fresh", act=edited, provenance={"emitter": "edited"})).cache.read_bytes()
    )


def test_a_larger_request_builds_the_difference(make: Make, behaviour: Behaviour) -> None:
    """What the file has is neither emitted nor compiled, and the result is that of a single build."""
    _one(make())
    behaviour.log.unlink()
    second = _one(make(limit=2 * LIMIT))
    assert len(logged(behaviour, "emit")) == LIMIT
    assert second.reused >= LIMIT
    assert second.cache.read_bytes() == _one(make("fresh", limit=2 * LIMIT)).cache.read_bytes()


def test_a_much_smaller_request_is_refused(make: Make) -> None:
    """A night's work is not replaced by a trial run, unless that is what is wanted."""
    first = _one(make())
    content = first.cache.read_bytes()
    with pytest.raises(
        RequestError, match=r"holds 60 kernels of family implicit_gemm and this request asks for 10;.*--out"
    ):
        build(make(limit=10))
    assert first.cache.read_bytes() == content
    assert _one(make(limit=10, replace=True)).cache.read_bytes() == _one(make("fresh", limit=10)).cache.read_bytes()


def test_shards_make_up_the_whole(make: Make) -> None:
    """Shards have names of their own and share out identities and rejections without overlap."""
    whole = _one(make())
    parts = [_one(make(scope=replace(make().scope, shard=(index, 3)))) for index in (1, 2, 3)]
    assert sorted(part.cache.name for part in parts) == [f"gfx950-bf16-{i}of3.rocke" for i in (1, 2, 3)]
    assert sum(part.rejected for part in parts) == whole.rejected
    digests: list[bytes] = []
    for part in parts:
        with Cache.open(part.cache) as cache:
            digests += [digest.tobytes() for digest in cache.digests]
    with Cache.open(whole.cache) as cache:
        assert digests == [digest.tobytes() for digest in cache.digests]


def test_failures_are_recorded_and_spare_the_rest(make: Make, behaviour: Behaviour) -> None:
    """A failing emission, a compiler error, a crash and a hang, each with its reason.

    They are not tried again unless that is asked for, and once they work the file is that of an undisturbed build.
    """
    digests = [digest.tobytes().hex() for digest in select(make().scope, "bf16").digests]
    faults = {digests[3]: "emission", digests[10]: "codegen", digests[20]: "segv", digests[30]: "hang"}
    broken = replace(behaviour, faults=faults)
    summary = _one(make(act=broken, time_limit=2.0, jobs=2))
    assert (summary.built + summary.duplicates, summary.failed, summary.timed_out) == (LIMIT - 4, 3, 1)
    assert not summary.complete
    with Cache.open(summary.cache) as cache:
        ledger = cache.ledger
        found = {detail: OutcomeKind(int(ledger.kind[row])) for row, detail in ledger.details.items()}
        labels = {encode(ledger.table.row(row)) for row in ledger.details}
    assert found == {
        "emission: no such tile": OutcomeKind.FAILED,
        "codegen: Cannot select": OutcomeKind.FAILED,
        "worker died: SIGSEGV": OutcomeKind.FAILED,
        "took longer than 2 s": OutcomeKind.TIMED_OUT,
    }
    assert set(summary.failures) == labels
    inode = summary.cache.stat().st_ino
    behaviour.log.unlink()
    again = _one(make(act=broken, time_limit=2.0))
    assert logged(behaviour, "emit") == [digests[30]]  # a time limit may hold on another day
    assert (again.reused, again.failed, again.timed_out, again.changed) == (LIMIT - 4, 3, 1, False)
    assert again.cache.stat().st_ino == inode
    assert again.notes == [
        "3 failed in an earlier build and were not tried again; --retry-failed tries them",
        "1 were lost to this machine or to the time limit; the same command tries them again",
    ]
    behaviour.log.unlink()
    mended = _one(make(retry_failed=True))
    assert len(logged(behaviour, "emit")) == 4
    assert mended.complete
    assert mended.cache.read_bytes() == _one(make("fresh")).cache.read_bytes()


@pytest.mark.parametrize("stopped", [False, True])
def test_what_the_machine_failed_is_tried_again(make: Make, behaviour: Behaviour, stopped: bool) -> None:
    """No memory, a worker killed or stopped from outside, an abort for want of memory: all is there after the next run.

    From the cache file as from the working store of a build that was stopped.
    """
    digests = [digest.tobytes().hex() for digest in select(make().scope, "bf16").digests]
    faults = dict(zip((digests[i] for i in (3, 10, 20, 30)), ("memory", "killed", "stopped", "abort"), strict=True))
    request = make(act=replace(behaviour, faults=faults), time_limit=2.0, jobs=1)
    if stopped:
        stop = StopFlag()

        class StopAtTheEnd(Silent):
            def advance(self, done: int, counts: Counts) -> None:  # noqa: ARG002
                if counts.disturbed + counts.timed_out == 4:
                    stop.set()

        with pytest.raises(BuildInterruptedError):
            build(request, StopAtTheEnd(), stop)
    else:
        summary = _one(request)
        assert (summary.failed, summary.timed_out, summary.disturbed) == (0, 1, 3)
        assert not summary.complete
        with Cache.open(summary.cache) as cache:
            kinds = Counter(OutcomeKind(int(kind)) for kind in cache.ledger.kind if OutcomeKind(int(kind)).failure)
        assert kinds == {OutcomeKind.DISTURBED: 3, OutcomeKind.TIMED_OUT: 1}
    mended = _one(make())
    assert mended.complete
    assert mended.notes == []
    assert mended.cache.read_bytes() == _one(make("fresh")).cache.read_bytes()


def test_a_machine_that_compiles_nothing_ends_the_build(make: Make, behaviour: Behaviour) -> None:
    """One error instead of one failure per kernel, and the next run starts as if nothing had been."""
    digests = [digest.tobytes().hex() for digest in select(make().scope, "bf16").digests]
    broken = replace(behaviour, faults=dict.fromkeys(digests, "memory"))
    with pytest.raises(DeliveryError, match=r"compiles nothing: codegen: MemoryError: ; the same command tries again"):
        build(make(act=broken))
    assert _one(make()).complete


def test_a_failed_key_fails_for_all_who_share_it(make: Make, behaviour: Behaviour) -> None:
    """The key is compiled once, and every identity that has it is on record."""
    request = _with_async(make())
    table = select(request.scope, "bf16").table
    keys = [key_of(table.row(row)) for row in range(len(table))]
    shared = Counter(keys).most_common(1)[0][0]
    rows = [row for row, key in enumerate(keys) if key == shared]
    digests = [digest.tobytes().hex() for digest in select(request.scope, "bf16").digests]
    broken = replace(behaviour, faults={digests[row]: "codegen" for row in rows})
    summary = _one(replace(request, unit=fake_unit.unit(broken)))
    assert len(rows) > 1
    assert summary.failed == len(rows)
    assert logged(behaviour, "compile").count(shared.hex()) == 1


def test_an_emitter_that_contradicts_itself_is_caught(make: Make, behaviour: Behaviour) -> None:
    """A build resumes with known keys; an identity that now gets another key fails instead of being stored silently."""
    digests = [digest.tobytes().hex() for digest in select(make().scope, "bf16").digests]
    chance = replace(behaviour, faults={digests[5]: "random"})
    stop = StopFlag()

    class StopWhileCompiling(Silent):
        def advance(self, done: int, counts: Counts) -> None:  # noqa: ARG002
            if logged(behaviour, "random"):
                stop.set()

    with pytest.raises(BuildInterruptedError):
        build(make(act=chance), StopWhileCompiling(), stop)
    summary = _one(make(act=chance))
    assert summary.failed == 1
    assert list(summary.failures.values()) == ["emission: the emitter contradicts itself"]


def test_code_in_the_working_store_outlives_changed_sources(make: Make, behaviour: Behaviour) -> None:
    """A build is stopped and the emitter edited without effect on the IR: all is emitted, no key is compiled twice."""
    stop = StopFlag()

    class StopHalfWay(Silent):
        def advance(self, done: int, counts: Counts) -> None:  # noqa: ARG002
            if done >= LIMIT // 2:
                stop.set()

    with pytest.raises(BuildInterruptedError):
        build(make(act=replace(behaviour, seconds=0.02), jobs=2), StopHalfWay(), stop)
    before = set(logged(behaviour, "compile"))
    behaviour.log.unlink()
    summary = _one(make(provenance={"emitter": "edited"}))
    assert len(logged(behaviour, "emit")) == LIMIT
    assert len(before & set(logged(behaviour, "compile"))) <= 2  # what two workers were on
    assert summary.reused >= LIMIT // 2 - 2
    assert summary.cache.read_bytes() == _one(make("fresh", provenance={"emitter": "edited"})).cache.read_bytes()


def test_a_damaged_working_store_misleads_nobody(make: Make, behaviour: Behaviour) -> None:
    """Builds with two states of the sources are stopped, a byte of the journal is flipped: same bytes as undisturbed.

    Every record is hit: sessions, argument lists, emissions, code.
    """

    class StopEarly(Silent):
        def __init__(self, stop: StopFlag, limit: int) -> None:
            self.stop, self.limit = stop, limit

        def advance(self, done: int, counts: Counts) -> None:  # noqa: ARG002
            if done >= self.limit:
                self.stop.set()

    fresh = _one(make("fresh")).cache.read_bytes()
    act = replace(behaviour, seconds=0.01)
    for provenance in ({"emitter": "edited"}, {}):
        stop = StopFlag()
        with pytest.raises(BuildInterruptedError):
            build(make(act=act, provenance=provenance), StopEarly(stop, 6), stop)
    folder = make().out / ".build-gfx950-bf16"
    whole = (folder / "journal").read_bytes()
    for position in range(40, len(whole), max(1, len(whole) // 40)):
        folder.mkdir(exist_ok=True)
        (folder / "journal").write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        summary = _one(make())
        assert summary.cache.read_bytes() == fresh
        summary.cache.unlink()


def test_nothing_built_is_an_error(make: Make, behaviour: Behaviour) -> None:
    """When every kernel fails there is no file, and the error names the first reason."""
    broken = replace(behaviour, faults={"": "codegen"})
    with pytest.raises(DeliveryError, match=r"nothing was built: 60 kernels failed, first fwd.*Cannot select"):
        build(make(act=broken))
    assert not list(make().out.glob("*.rocke"))


def test_a_damaged_cache_is_rebuilt(make: Make) -> None:
    """A flipped byte anywhere in the old file is noticed or harmless: the result is what a fresh build gives."""
    first = _one(make())
    content = first.cache.read_bytes()
    for position in (40, 500, len(content) // 3, len(content) // 2, len(content) - 5000):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        first.cache.write_bytes(damaged)
        summary = _one(make(provenance={"emitter": "edited"}, replace=True))
        assert summary.complete
        assert check_cache(summary.cache) == ()
        assert summary.cache.read_bytes() == _one(make("fresh", provenance={"emitter": "edited"})).cache.read_bytes()


def test_an_unchanged_file_is_sound(make: Make) -> None:
    """With nothing to build, a damaged byte anywhere is found all the same, and the file made anew."""
    first = _one(make())
    content = first.cache.read_bytes()
    for position in (500, len(content) // 2, len(content) - 300, len(content) - 1):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        first.cache.write_bytes(damaged)
        summary = _one(make(replace=True))
        assert any("the previous cache was not used" in note for note in summary.notes)
        assert summary.sha256 == first.sha256
        assert summary.cache.read_bytes() == content


def test_two_builds_of_one_file_do_not_meet(make: Make) -> None:
    """The second one is told to wait or to go elsewhere."""

    class Meddle(Silent):
        caught: list[str] = []  # noqa: RUF012 - one test, one list

        def stage(self, name: str, total: int) -> None:  # noqa: ARG002
            with pytest.raises(DeliveryError, match="in use by another build") as caught:
                build(make())
            self.caught.append(str(caught.value))

    assert build(make(), Meddle())[0].complete
    assert len(Meddle.caught) == 1


@pytest.mark.parametrize("out", ["file/inside", "/proc/none"])
def test_a_folder_that_cannot_be_written_is_a_bad_request(make: Make, out: str) -> None:
    """A path below a file, and a file system that takes no folders."""
    (make().out.parent / "file").touch()
    with pytest.raises(RequestError, match=r"cannot write to .*; choose another --out"):
        build(make(out))


def test_both_data_types_share_the_workers(make: Make, behaviour: Behaviour) -> None:
    """Two files from one request, each with its own type, and a type named twice is built once."""
    summaries = build(make(dtypes=("bf16", "fp16", "bf16"), limit=20))
    assert [summary.cache.name for summary in summaries] == ["gfx950-bf16.rocke", "gfx950-fp16.rocke"]
    assert len(logged(behaviour, "emit")) == 40


def test_a_leftover_store_is_removed(make: Make) -> None:
    """Killed between writing the file and removing the working store: the next run tidies up."""
    first = _one(make())
    leftover = first.cache.parent / ".build-gfx950-bf16"
    leftover.mkdir()
    (leftover / "journal").write_bytes(b"")
    assert not _one(make()).changed
    assert list(first.cache.parent.iterdir()) == [first.cache]


def test_what_is_in_the_way_is_left_alone(make: Make, tmp_path: Path) -> None:
    """A foreign file of the cache's name, a link in place of the working folder, files of others in that folder."""
    request = make()
    request.out.mkdir(parents=True, exist_ok=True)
    notes = request.out / "gfx950-bf16.rocke"
    notes.write_text("my notes")
    with pytest.raises(RequestError, match="no kernel cache"):
        build(request)
    assert notes.read_text() == "my notes"
    notes.unlink()
    folder = request.out / ".build-gfx950-bf16"
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RequestError, match="in the way"):
        build(request)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    folder.unlink()
    folder.mkdir()
    (folder / "mine").write_text("kept")
    assert _one(request).complete
    assert [path.name for path in folder.iterdir()] == ["mine"]
