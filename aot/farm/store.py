"""The working store of a build: what the journal's records mean, and the code objects in it.

    SESSION    {sources, toolchain, ...}              the records after it were made by these
    ARGUMENTS  {list}                                 an argument list; they are numbered from 0 in order of appearance
    EMITTED    {row, key, arguments, block}           an identity (its digest) has this content key and launch facts
    CODE       {key, facts, sha256} + code object     a content key is compiled
    FAILED     {row, key, kind, detail}               by key, or by identity when no key is known

A content key covers everything that decides the code object, so CODE counts whoever wrote it. EMITTED and FAILED
count only for those who are made alike today, of which the session that wrote them tells.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from aot.farm.journal import Journal, JournalError, Record
from aot.farm.results import Compiled, Emission, Facts, Lapse, Origin, StoredCode
from cache_schema.arguments import ArgumentList
from cache_schema.errors import DeliveryError, RequestError
from cache_schema.outcome import OutcomeKind


class Kind(IntEnum):
    """Numbers are stored: never renumber."""

    SESSION = 1
    ARGUMENTS = 2
    EMITTED = 3
    CODE = 4
    FAILED = 5


@dataclass(frozen=True, slots=True)
class Recovery:
    """Who is told what an earlier run left behind, in the order in which it happened."""

    session: Callable[[dict[str, Any]], None]  # of what comes next
    emitted: Callable[[bytes, Emission], None]  # identity digest
    code: Callable[[bytes, StoredCode], None]  # content key
    failed: Callable[[bytes, bytes, Lapse], None]  # identity digest, content key or b""


class Store:
    """An open working store; one process at a time has it."""

    def __init__(self, folder: Path, session: dict[str, Any], recovery: Recovery) -> None:
        """Open or create. Raises RequestError for an unusable folder, DeliveryError when another build has it."""
        self.folder = folder
        self._session = session
        self._recovery = recovery
        self._argument_lists: list[ArgumentList] = []
        self._argument_number: dict[ArgumentList, int] = {}
        self._last: dict[str, Any] | None = None  # the session that the journal ends with
        self.seconds = 0.0  # spent writing
        self._lock = _lock(folder)
        try:
            self._journal = Journal(folder / "journal", self._recover, self._lose)
            if self._last != session:
                self._append(Kind.SESSION, session)
                self._begin()
        except BaseException:
            os.close(self._lock)
            raise

    def _recover(self, record: Record) -> None:
        meta = record.meta
        match record.kind:
            case Kind.SESSION:
                self._last = meta
                self._recovery.session(meta)
                self._begin()
            case Kind.ARGUMENTS:
                self._number(ArgumentList.from_json(meta["list"]))
            case Kind.CODE:
                place = StoredCode(
                    Origin.JOURNAL, Facts(*meta["facts"]), meta["sha256"], record.data_offset, record.data_length
                )
                self._recovery.code(meta["key"], place)
            case Kind.EMITTED if self._last is not None:
                emission = Emission(meta["key"], self._argument_lists[meta["arguments"]], meta["block"])
                self._recovery.emitted(meta["row"], emission)
            case Kind.FAILED if self._last is not None:
                self._recovery.failed(meta["row"], meta["key"], Lapse(OutcomeKind(meta["kind"]), meta["detail"]))

    def _begin(self) -> None:
        """Every session numbers its own argument lists: what an earlier one lost shifts nothing in it."""
        self._argument_lists.clear()
        self._argument_number.clear()

    def _lose(self) -> None:
        """A lost record may have been a session or an argument list. Only code, which says what it is, counts on."""
        self._last = None

    def put_emission(self, digest: bytes, emission: Emission) -> None:
        number = self._argument_number.get(emission.arguments)
        if number is None:
            self._append(Kind.ARGUMENTS, {"list": emission.arguments.to_json()})
            number = self._number(emission.arguments)
        meta = {"row": digest, "key": emission.key, "arguments": number, "block": emission.block_size}
        self._append(Kind.EMITTED, meta)

    def put_code(self, key: bytes, made: Compiled) -> StoredCode:
        sha256 = hashlib.sha256(made.code).digest()
        meta = {"key": key, "facts": astuple(made.facts), "sha256": sha256}
        offset = self._append(Kind.CODE, meta, made.code)
        return StoredCode(Origin.JOURNAL, made.facts, sha256, offset, len(made.code))

    def put_failure(self, digest: bytes, key: bytes, lapse: Lapse) -> None:
        meta = {"row": digest, "key": key, "kind": int(lapse.kind), "detail": lapse.detail}
        self._append(Kind.FAILED, meta)

    def code(self, place: StoredCode) -> bytes:
        """A code object, checked; JournalError if the disk gave something else."""
        code = self._journal.read(place.position, place.length)
        if hashlib.sha256(code).digest() != place.sha256:
            raise JournalError(f"{self._journal.path}: damaged at byte {place.position}; remove {self.folder}")
        return code

    def sync(self) -> None:
        self._journal.sync()

    def close(self) -> None:
        self._journal.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove(self) -> None:
        """Close and delete: all of it is in the cache file now. What is not ours stays, and the folder with it."""
        self._journal.close()
        for name in ("journal", "lock"):  # under the lock
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        self.close()

    def _append(self, kind: Kind, meta: dict[str, Any], data: bytes = b"") -> int:
        started = time.perf_counter()
        offset = self._journal.append(kind, meta, data)
        self.seconds += time.perf_counter() - started
        return offset

    def _number(self, arguments: ArgumentList) -> int:
        self._argument_lists.append(arguments)
        return self._argument_number.setdefault(arguments, len(self._argument_lists) - 1)


def _lock(folder: Path) -> int:
    """A lock that ends with this process, however it ends."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RequestError(f"{folder} is in the way: a link or a file, where a build works; move it away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RequestError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise DeliveryError(f"{folder} is in use by another build; wait for it, or choose another --out") from error
    if os.fstat(descriptor).st_nlink == 0:  # the other build ended and removed it between the two calls
        os.close(descriptor)
        return _lock(folder)
    return descriptor
