"""Evidence files, kept by any number of verifiers at once.

A verifier locks the file, takes up what others have written since, and appends behind it: nothing that is in a file is
lost. At the end of a run the verdicts are brought to one order, so that equal runs give equal files. The lock belongs
to the file and not to its name; whoever gets it looks whether the name still leads there.

A code object is verified once, with the cases of all its identities.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aot.verification.evidence_format import RIGHT, Conditions, Contents, EvidenceError, Head, Record, Writing
from cache_schema.atomic_file import replace_file, writing
from cache_schema.errors import RequestError

SUFFIX = ".evidence.jsonl"
#: By how much of its end a file is known again: more than a line has.
TAIL_BYTES = 1 << 16


class Evidence:
    """An evidence file that is being written, by this verifier and by others."""

    def __init__(self, path: Path, head: Head, conditions: Conditions) -> None:
        self.path, self._head, self._conditions = path.resolve(), head, conditions
        self._contents, self._end, self._tail = Contents(), 0, b""

    @classmethod
    def resume(cls, path: Path, head: Head, conditions: Conditions) -> Evidence:
        """Take up what earlier runs left; evidence of another cache file is replaced.

        Raises RequestError for a file that is no evidence, or damaged: it is somebody's, and is not overwritten.
        """
        evidence = cls(path, head, conditions)
        try:
            with evidence._locked() as file:
                if evidence._contents.head in (None, head):
                    evidence._append(file)
                else:
                    with replace_file(evidence.path) as new:
                        new.write(Writing(Contents()).head(head))
        except EvidenceError as error:
            raise RequestError(f"{error}; remove it, or name another file with --evidence") from error
        return evidence

    def proven(self) -> dict[str, list[Record]]:
        """Right verdicts under the conditions of this run, by code object."""
        found: dict[str, list[Record]] = {}
        for verdict in self._contents.verdicts:
            if verdict["verdict"] == RIGHT and verdict["conditions"] == self._conditions:
                found.setdefault(verdict["code"], []).append(verdict)
        return found

    def add(self, verdict: Mapping[str, Any]) -> None:
        """Append one verdict; when this returns the file has it, though not yet in its place."""
        with self._locked() as file:
            self._append(file, {**verdict, "conditions": self._conditions})

    def settle(self) -> None:
        """Bring all verdicts to their order, those of others too; whole or not at all."""
        with self._locked() as file:
            self._append(file)
            text = Writing(Contents())
            with replace_file(self.path) as new:
                new.write(text.head(self._head))
                new.writelines(map(text.conditions, sorted({*self._contents.conditions, self._conditions})))
                new.writelines(map(text.verdict, in_order(self._contents.verdicts)))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, after all that is in it has been read; nobody else writes."""
        with writing(self.path):
            descriptor = self._open()
        try:
            self._catch_up(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise RequestError(f"cannot write {self.path}: not a regular file")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                        return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _catch_up(self, descriptor: int) -> None:
        # A file that somebody else brought to its order is another one, though it may have the number and more than
        # the length of the one that was read. Lines are sealed in a chain: an equal end stands behind an equal front.
        if os.pread(descriptor, len(self._tail), self._end - len(self._tail)) != self._tail:
            self._contents, self._end = Contents(), 0
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(self._end)
            self._end += take_lines(self._contents, file, self.path)
        self._keep_tail(descriptor)

    def _keep_tail(self, descriptor: int) -> None:
        length = min(self._end, TAIL_BYTES)
        self._tail = os.pread(descriptor, length, self._end - length)

    def _append(self, descriptor: int, verdict: Mapping[str, Any] | None = None) -> None:
        """Write behind what was read; half a line there is of somebody who is gone, or the lock were theirs."""
        if self._contents.head not in (None, self._head):
            raise EvidenceError(f"{self.path} has become evidence of another cache")
        text = Writing(self._contents)
        lines = text.head(self._head) if self._contents.head is None else b""
        lines += text.verdict(verdict) if verdict else text.conditions(self._conditions)
        with writing(self.path):
            os.ftruncate(descriptor, self._end)
            if (written := os.pwrite(descriptor, lines, self._end)) != len(lines):
                raise OSError(f"{written} bytes arrived of {len(lines)}")
        self._end += take_lines(self._contents, lines.splitlines(keepends=True), self.path)
        self._keep_tail(descriptor)


def take_lines(contents: Contents, lines: Iterable[bytes], path: Path) -> int:
    """Read lines; their bytes. What was cut off at the end is left out, unless it is all there is of a file."""
    taken = 0
    for line in lines:
        if not line.endswith(b"\n") and contents.head is not None:
            break
        try:
            contents.take(line)
        except EvidenceError as error:
            raise EvidenceError(f"{path}{' ' if str(error).startswith('is ') else ': '}{error}") from error
        taken += len(line)
    return taken


def in_order(verdicts: Iterable[Record]) -> list[Record]:
    """Verdicts by conditions and code, without those that another one stands for: it names at least their identities
    over the same code, and is right or follows one that is not."""
    groups: dict[tuple[Conditions, str], list[Record]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict["conditions"], verdict["code"]), []).append(verdict)
    return [verdict for key in sorted(groups) for verdict in _standing(groups[key])]


def _standing(group: list[Record]) -> list[Record]:
    """Of one code object: each verdict with a set of identities that is not within that of another."""
    best: dict[tuple[str, ...], Record] = {}
    for verdict in group:
        names = tuple(sorted(verdict["digests"]))
        if names not in best or verdict["verdict"] == RIGHT or best[names]["verdict"] != RIGHT:
            best[names] = verdict
    return [
        best[names]
        for names in sorted(best)
        if not any(
            set(names) < set(others) and (other["verdict"] == RIGHT or best[names]["verdict"] != RIGHT)
            for others, other in best.items()
        )
    ]
