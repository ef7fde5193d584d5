"""Replacing a file: whole or not at all, and each error under its own name."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from cache_schema.atomic_file import replace_file, scratch_file
from cache_schema.errors import DeliveryError, RequestError


def write(path: Path, content: bytes = b"new") -> None:
    with replace_file(path) as file:
        file.write(content)


def fail_with(number: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_the_new_content_takes_the_name(tmp_path: Path) -> None:
    """A file is made, then replaced, and nothing stands beside it; it can be read back while it is written."""
    path = tmp_path / "file"
    write(path, b"old")
    with replace_file(path) as file:
        file.write(b"longer than before")
        file.seek(0)
        assert file.read(6) == b"longer"
        file.seek(0, os.SEEK_END)
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"longer than before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EIO, errno.ENOSPC])
def test_errors_of_the_body_are_its_own(number: int, tmp_path: Path) -> None:
    """An OSError that has nothing to do with the file leaves the body as it is: no other path is blamed for it."""
    path = tmp_path / "file"
    write(path, b"old")
    other = OSError(number, os.strerror(number), "/somewhere/else")

    def body() -> None:
        with replace_file(path) as file:
            file.write(b"new")
            raise other

    with pytest.raises(OSError, match="/somewhere/else") as error:
        body()
    assert error.value is other
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "fstat"])
def test_its_own_errors_name_the_path(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails in putting the content on disk is a failure to write this path, and the old content stays."""
    path = tmp_path / "file"
    write(path, b"old")
    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail_with(errno.EIO))
        with pytest.raises(DeliveryError, match=r"cannot write .*file: Input/output error"):
            write(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("opened", [replace_file, scratch_file])
def test_a_full_disk_is_named_at_any_write(
    opened: Callable[[Path], AbstractContextManager[BinaryIO]], tmp_path: Path
) -> None:
    """Writes that fail in the middle are failures to write the path, whichever of its files they go to."""

    def fill() -> None:
        with Path("/dev/full").open("r+b", buffering=0) as full, opened(tmp_path / "file") as file:
            os.dup2(full.fileno(), file.fileno())
            file.write(bytes(1 << 20))

    with pytest.raises(DeliveryError, match=r"cannot write .*file: No space left on device"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_wrong_request(tmp_path: Path) -> None:
    """The same request would always fail."""
    for opened in (replace_file, scratch_file):
        with pytest.raises(RequestError, match="No such file or directory"), opened(tmp_path / "no" / "file"):
            pass
    with pytest.raises(RequestError, match="Is a directory"):
        write(tmp_path)


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_files_have_the_mode_of_any_new_file(umask: int, tmp_path: Path) -> None:
    """A new file is as readable as the umask lets files be."""
    before = os.umask(umask)
    try:
        write(tmp_path / "file")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~umask


def test_the_umask_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to the whole process: not even for a moment does another thread see another one."""
    monkeypatch.setattr(os, "umask", fail_with(errno.EPERM))
    threads = [threading.Thread(target=write, args=(tmp_path / f"file {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 4
