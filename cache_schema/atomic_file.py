"""Write a file so that its name only ever leads to the old or to the complete new content."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cache_schema.errors import DeliveryError, RequestError

#: Errors that the same request will always meet again.
_REQUEST_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """A temporary file in the folder of `path`; on success it is synced and takes the name, else it disappears.

    Readable and writable. Raises RequestError when the folder cannot be written, DeliveryError for a full or failing
    disk.
    """
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            length = file.tell()
            os.fsync(descriptor)
            if os.fstat(descriptor).st_size != length:
                raise OSError(f"{os.fstat(descriptor).st_size} bytes arrived of {length}")
            # mkstemp makes private files; a cache is shared like any other build product.
            os.fchmod(descriptor, 0o666 & ~_umask())
        temporary.replace(path)
        temporary = None
        sync_folder(path.parent)
    except OSError as error:
        kind = RequestError if isinstance(error, _REQUEST_ERRORS) else DeliveryError
        raise kind(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames inside the folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
