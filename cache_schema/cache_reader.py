"""An open cache file: identities, facts, outcomes and code objects. The format is described in `cache_format`."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import stat
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from cache_schema.arguments import ArgumentList
from cache_schema.blobs import BlockCache, decompress_block
from cache_schema.cache_columns import ColumnGroup
from cache_schema.cache_directory import Section, checked_symbol, read_directory
from cache_schema.cache_format import FRONT_BYTES, SEAL_BYTES, Header, read_front, read_header
from cache_schema.cache_ledger import read_ledger
from cache_schema.cache_pages import CheckedIndex
from cache_schema.cache_rules import checked_vocabulary, require_own
from cache_schema.digest import DIGEST_BYTES, identity_digest, table_digests
from cache_schema.errors import CacheError, RequestError
from cache_schema.facts import RESOURCES
from cache_schema.identity import Identity
from cache_schema.ledger import Ledger
from cache_schema.outcome import Outcome, OutcomeKind
from cache_schema.strict_json import loads
from cache_schema.table import FAMILY, IdentityTable

#: Steps of interpolation before the search falls back to halving; digests are uniform, so two or three are enough.
INTERPOLATION_STEPS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One identity of the cache and what is known of its code. Sizes in bytes; registers that the code uses."""

    identity: Identity
    digest: bytes
    symbol: str
    content_key: str
    blob_digest: str
    arguments: ArgumentList
    code_bytes: int
    block_size: int
    lds_bytes: int
    vgprs: int
    agprs: int
    sgprs: int
    scratch_bytes: int
    spills: tuple[int, int]  # (vector, scalar)


class Cache:
    """A cache file opened for reading. Every method raises CacheError when what it needs is damaged.

    Arrays are read-only views of the mapped file; they stay valid after `close`.
    """

    def __init__(self, path: Path, mapped: mmap.mmap, header: Header, front: bytes) -> None:
        self.path, self.header = path, header
        where = str(path)
        data, page_table = read_front(front, header, where)
        self._mapped = mapped
        self._file = memoryview(mapped)
        self.index = CheckedIndex(self._file, header, page_table, where)
        self._directory = directory = read_directory(data, self.index, header)
        self.arch, self.dtype, self.layouts = directory.arch, directory.dtype, directory.layouts
        self.entries, self.kernels, self.blocks = directory.entries, directory.kernels, directory.blocks
        self.digests_offset = self.entries.offset("digest")
        self._decoded = BlockCache(self._decode_block)

    @classmethod
    def open(cls, path: Path | str) -> Cache:
        """Open a file; RequestError when it cannot be read, CacheError when it is not a sound cache of this version."""
        path = Path(path)
        try:
            with open(path, "rb", buffering=0, opener=_open_at_once) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise RequestError(f"cannot read cache {path}: not a regular file")
                size = status.st_size
                front = os.pread(file.fileno(), FRONT_BYTES, 0)
                if not front:
                    raise CacheError(f"{path}: truncated to nothing")
                header = read_header(front, size, str(path))
                if header.front_bytes > len(front):
                    front = os.pread(file.fileno(), header.front_bytes, 0)
                mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise RequestError(f"cannot read cache {path}: {error.strerror or error}") from error
        return cls(path, mapped, header, front)

    def close(self) -> None:
        """Unmap the file, or leave that to the last array that still looks into it."""
        with contextlib.suppress(BufferError):
            self.index.release()
            self._file.release()
            self._mapped.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.entries.rows

    @property
    def seal(self) -> str:
        """The SHA-256 in the last bytes of the open file, in hex: it names the contents without reading them."""
        return bytes(self._file[-SEAL_BYTES:]).hex()

    def content(self, chunk_bytes: int) -> Iterator[memoryview]:
        """All bytes of the open file in front of its seal; whatever has taken its name since is not read."""
        end = self.header.file_bytes - SEAL_BYTES
        for start in range(0, end, chunk_bytes):
            yield self._file[start : min(start + chunk_bytes, end)]

    def sections(self) -> list[tuple[int, int]]:
        """(offset, bytes) of everything in the index."""
        groups = (self.identities, self.entries, self.kernels, self.blocks)
        directory = self._directory
        _ = self.ledger  # which checks what it says of its frame
        parts = [directory.vocabulary, directory.provenance, directory.ledger]
        frame_at, frame_bytes, _ = self._json(directory.ledger)["frame"]
        return [*parts, (frame_at, frame_bytes), *(section for group in groups for section in group.sections())]

    # Identities

    @cached_property
    def identities(self) -> ColumnGroup:
        """The columns of all identities in order of digest, text as positions in the vocabulary."""
        rules = self._directory.families.rules(self._vocab)
        return ColumnGroup(self.index, "identity", self._directory.identity, rules, self.header.index_bytes)

    @cached_property
    def table(self) -> IdentityTable:
        """All identities in order of digest; columns are read when first used."""
        return self._directory.families.table(self.identities, self._vocab)

    @property
    def digests(self) -> npt.NDArray[np.uint8]:
        """Digests, ascending, shape (entries, 20)."""
        return self.entries["digest"]

    def find(self, digest: bytes) -> int | None:
        """Number of the entry with this digest. Reads a few pages, whatever the size of the cache."""
        if len(digest) != DIGEST_BYTES:
            return None
        low, high = 0, len(self)
        low_key, high_key, wanted = 0, 1 << 64, int.from_bytes(digest[:8], "big")
        steps = 0
        while low < high:
            middle = (low + high) // 2
            if steps < INTERPOLATION_STEPS and low_key <= wanted < high_key:
                middle = low + (high - low) * (wanted - low_key) // (high_key - low_key)
            steps += 1
            found = bytes(self.index.view(self.digests_offset + DIGEST_BYTES * middle, DIGEST_BYTES))
            if found == digest:
                return middle
            if found < digest:
                low, low_key = middle + 1, int.from_bytes(found[:8], "big")
            else:
                high, high_key = middle, int.from_bytes(found[:8], "big")
        return None

    def find_identity(self, identity: Identity) -> int | None:
        """Number of the entry of this identity."""
        return self.find(identity_digest(identity))

    def identity(self, entry: int) -> Identity:
        """Identity of one entry, held against its digest."""
        families = self._directory.families
        stored = {name: self.identities.at(name, entry) for name in self.identities}
        code = stored.pop(FAMILY)
        for name, words in self._vocab.items():
            stored[name] = words[stored[name]]
        identity: Identity = families.read[code].record(**families.values(stored, code))
        if identity_digest(identity) != self.entries.at("digest", entry):
            raise CacheError(f"{self.path}: the digest of entry {entry} is not that of its identity")
        return identity

    def entry(self, entry: int) -> Entry:
        """Everything about one entry, reading its own rows only."""
        kernel = self.kernel_of(entry)
        numbers = {name: self.kernels.at(name, kernel) for name in RESOURCES}
        spills = (numbers.pop("vgpr_spills"), numbers.pop("sgpr_spills"))
        return Entry(
            identity=self.identity(entry),
            digest=self.entries.at("digest", entry),
            symbol=self.symbol(kernel),
            content_key=self.kernels.at("content_key", kernel).hex(),
            blob_digest=self.kernels.at("blob_digest", kernel).hex(),
            arguments=self.layouts[self.kernels.at("layout", kernel)],
            spills=spills,
            **numbers,
        )

    # Kernels

    @cached_property
    def facts(self) -> Mapping[str, npt.NDArray[Any]]:
        """Columns per entry by name: `facts.RESOURCES`, and "layout", the number of the argument list in `layouts`."""
        return _Facts(self)

    def kernel_of(self, entry: int) -> int:
        """Number of the kernel that serves an entry."""
        return int(self.entries.at("kernel", entry))

    def symbol(self, kernel: int) -> str:
        """Name of a kernel inside its code object."""
        rule = self._directory.symbol
        if rule is None:
            symbol = self.kernels.at("symbol", kernel).decode("ascii", "backslashreplace")
        else:
            symbol = rule[0] + self.kernels.at("content_key", kernel).hex()[: rule[1]]
        return checked_symbol(str(self.path), symbol)

    def code_object(self, entry: int) -> bytes:
        """The code object of one entry."""
        return self.kernel_code(self.kernel_of(entry))

    def kernel_code(self, kernel: int) -> bytes:
        """The code object of one kernel, verified against its SHA-256."""
        if not 0 <= kernel < self.kernels.rows:
            raise IndexError(f"kernel {kernel} of {self.kernels.rows}")
        block = bisect_right(self._first_kernels, kernel) - 1
        raw, ends = self._decoded[block]
        at = kernel - self._first_kernels[block]
        code = raw[ends[at] : ends[at + 1]]
        if hashlib.sha256(code).digest() != self.kernels.at("blob_digest", kernel):
            raise CacheError(f"{self.path}: code object of kernel {kernel} does not match its digest")
        return code

    @cached_property
    def _first_kernels(self) -> list[int]:
        """First kernel of every block, and the number of kernels; frames stand end to end."""
        firsts = np.append(self.blocks["first_kernel"].astype(np.int64), self.kernels.rows)
        if firsts[0] or (np.diff(firsts) < 1).any():
            raise CacheError(f"{self.path}: blocks do not share out the kernels")
        ends = np.cumsum(self.blocks["bytes"], dtype=np.uint64)
        contiguous = np.array_equal(self.blocks["offset"], np.append(np.uint64(0), ends)[:-1])
        if not contiguous or (ends[-1] if len(ends) else 0) != self.header.frames_bytes:
            raise CacheError(f"{self.path}: blocks do not share out the {self.header.frames_bytes} bytes of frames")
        return firsts.tolist()

    def forget_blocks(self) -> None:
        """Drop decoded blocks, a few megabytes at most."""
        self._decoded = BlockCache(self._decode_block)

    def _decode_block(self, block: int) -> tuple[bytes, list[int]]:
        """The code objects of a block end to end, and where each begins and the last ends."""
        first, stop = self._first_kernels[block : block + 2]
        ends = [0, *np.cumsum(self.kernels.part("code_bytes", first, stop), dtype=np.int64).tolist()]
        offset, length, crc, raw_bytes = (self.blocks.at(n, block) for n in ("offset", "bytes", "crc", "raw_bytes"))
        if ends[-1] != raw_bytes:
            raise CacheError(f"{self.path}: block {block} has {raw_bytes} bytes, its kernels have {ends[-1]}")
        start = self.header.frames_offset + offset
        frame = self._file[start : start + length]
        if zlib.crc32(frame) != crc:
            raise CacheError(f"{self.path}: damaged block {block} of {self.blocks.rows}")
        try:
            return decompress_block(frame, raw_bytes), ends
        except ValueError as error:
            raise CacheError(f"{self.path}: block {block}: {error}") from error

    # Outcomes and provenance

    @cached_property
    def ledger(self) -> Ledger:
        """The candidates that have no kernel, with the reason."""
        families, description = self._directory.families, self._json(self._directory.ledger)
        return read_ledger(self.index, families, description, self.arch, self.dtype)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Toolchain and sources that made this cache."""
        found = self._json(self._directory.provenance)
        if not isinstance(found, dict):
            raise CacheError(f"{self.path}: malformed provenance")
        return found

    def outcome(self, identity: Identity) -> Outcome | None:
        """What became of a candidate; None when it never was one."""
        entry = self.find_identity(identity)
        if entry is None:
            return self.ledger.find(identity)
        first = int(np.argmax(self.entries["kernel"] == self.kernel_of(entry)))
        if first == entry:
            return Outcome(OutcomeKind.BUILT)
        return Outcome(OutcomeKind.DUPLICATE, detail=f"same code as entry {self.entries.at('digest', first).hex()}")

    def outcome_counts(self) -> dict[tuple[OutcomeKind, str], int]:
        """Candidates per (kind, reason), all of them."""
        counts = {
            (OutcomeKind.BUILT, ""): self.kernels.rows,
            (OutcomeKind.DUPLICATE, ""): len(self) - self.kernels.rows,
        }
        return {**{pair: count for pair, count in counts.items() if count}, **self.ledger.counts()}

    def candidate(self, digest: bytes) -> Identity | None:
        """The candidate with this digest, built or not. For one without a kernel the whole ledger is hashed."""
        entry = self.find(digest)
        if entry is not None:
            return self.identity(entry)
        wanted = np.frombuffer(digest, dtype=np.uint8)
        if len(wanted) != DIGEST_BYTES:
            return None
        rows = np.flatnonzero((table_digests(self.ledger.table) == wanted).all(axis=1))
        return self.ledger.table.row(int(rows[0])) if len(rows) else None

    # Inside

    @cached_property
    def _vocab(self) -> dict[str, tuple[str, ...]]:
        vocabulary = checked_vocabulary(
            str(self.path), self._directory.families, self._json(self._directory.vocabulary)
        )
        require_own(str(self.path), vocabulary, self.arch, self.dtype)
        return vocabulary

    def _json(self, section: Section) -> Any:
        try:
            return loads(bytes(self.index.view(*section)))
        except ValueError as error:
            raise CacheError(f"{self.path}: malformed section at {section[0]}: {error}") from error


def _open_at_once(path: str, flags: int) -> int:
    """Without waiting for the writer of a pipe that was named by mistake."""
    return os.open(path, flags | os.O_NONBLOCK)


class _Facts(Mapping[str, npt.NDArray[Any]]):
    """Kernel columns spread over the entries, each when first asked for."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._spread: dict[str, npt.NDArray[Any]] = {}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._spread:
            if name not in (*RESOURCES, "layout"):
                raise KeyError(name)
            self._spread[name] = self._cache.kernels[name][self._cache.entries["kernel"]]
        return self._spread[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*RESOURCES, "layout"))

    def __len__(self) -> int:
        return len(RESOURCES) + 1
