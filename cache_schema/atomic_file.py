"""Write a file so that its name only ever leads to the old or to the complete new content."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cache_schema.errors import DeliveryError, RequestError

#: Errors that the same request will always meet again.
_REQUEST_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
#: Bytes of a temporary name's random part: no two writers of any machine meet, so none has to try again.
_NAME_BYTES = 16


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """A temporary file in the folder of `path`; on success it is synced and takes the name, else it disappears.

    Readable and writable. Raises RequestError when the folder cannot be written, DeliveryError for a full or failing
    disk. Whatever else fails in the body of the `with` statement passes through as it is.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(_NAME_BYTES)}.tmp")
    with writing(path):
        # Created with the mode of any new file, less the umask: a cache is shared like any other build product.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with io.BufferedRandom(_Written(descriptor, path)) as file:
            yield file
            file.flush()
            with writing(path):
                os.fsync(descriptor)
                if (arrived := os.fstat(descriptor).st_size) != file.tell():
                    raise OSError(f"{arrived} bytes arrived of {file.tell()}")
        with writing(path):
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def scratch_file(path: Path) -> Iterator[BinaryIO]:
    """A file without a name for parts of what `path` is going to be; errors as those of `replace_file`."""
    with writing(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        Path(name).unlink()
    with io.BufferedRandom(_Written(descriptor, path)) as file:
        yield file


def sync_folder(folder: Path) -> None:
    """Make renames inside the folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Written(io.FileIO):
    """An open file whose failing writes are failures to write `path`."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "r+b")
        self._path = path

    def write(self, data: object, /) -> int:
        with writing(self._path):
            return super().write(data)  # type: ignore[arg-type]


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Failures inside are failures to write `path`: RequestError or DeliveryError as for `replace_file`."""
    try:
        yield
    except OSError as error:
        kind = RequestError if isinstance(error, _REQUEST_ERRORS) else DeliveryError
        raise kind(f"cannot write {path}: {error.strerror or error}") from error
