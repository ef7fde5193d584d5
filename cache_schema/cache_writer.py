"""Write a cache file. The bytes depend on what is stored and on nothing else: not on order, jobs, time or place."""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import zstandard

from cache_schema import blobs as blob_blocks
from cache_schema.atomic_file import replace_file, scratch_file
from cache_schema.cache_columns import Sections
from cache_schema.cache_format import HEADER_BYTES, PAGE, SEAL_BYTES, Header, to_json
from cache_schema.cache_rules import (
    LEDGER_BYTES,
    LEDGER_ROWS,
    block_rules,
    entry_rules,
    kernel_rules,
    outcome_rules,
)
from cache_schema.digest import DIGEST_BYTES, table_digests
from cache_schema.errors import DeliveryError
from cache_schema.facts import RESOURCES, EntryFacts, KernelTable
from cache_schema.file_families import FileFamilies, describe_families
from cache_schema.ledger import Ledger
from cache_schema.similarity import similarity_order
from cache_schema.table import FAMILY, IdentityTable, concat, merged_schemas

#: SHA-256 of a code object -> its bytes.
BlobProvider = Callable[[bytes], bytes]
#: Blocks in the hands of an executor at a time; bounds memory, and is plenty for any machine's cores.
WINDOW_BLOCKS = 64
_COPY_BYTES = 1 << 20


def write_cache(
    path: Path | str,
    *,
    arch: str,
    dtype: str,
    table: IdentityTable,
    facts: EntryFacts,
    blobs: BlobProvider,
    ledger: Ledger,
    provenance: Mapping[str, Any],
    executor: Executor | None = None,
) -> str:
    """Write the cache of one architecture and data type; returns the SHA-256 of the file in hex.

    `table` and `facts.kernel_of` are parallel, in any order. `blobs` is called once per kernel, in similarity order;
    at most a few blocks are held at a time. With an executor (threads will do: zstd releases the interpreter lock)
    blocks are compressed through it, to the same bytes. `ledger` has the candidates that have no kernel. `provenance`
    is JSON data; it must not hold anything that differs between two builds of the same thing.

    Raises ValueError for contradictions in the input (two rows with one identity, foreign arch or dtype, an identity
    both built and rejected), DeliveryError when a blob is not what its digest says or the disk fails, RequestError
    when the path cannot be written.
    """
    path = Path(path)
    _check_names(table, arch, dtype)
    order, digests = _digest_order(table)
    table = concat([table.take(order)])
    kernels, kernel_of = _similar_kernels(table, facts, order)
    ledger = ledger.canonical()
    _check_names(ledger.table, arch, dtype)
    _check_disjoint(digests, ledger)
    schemas = merged_schemas((*table.schemas, *ledger.table.schemas))
    families = FileFamilies(str(path), schemas, schemas)

    with replace_file(path) as file, scratch_file(path) as frames:
        block = _write_frames(frames, kernels, blobs, executor)
        index = Sections()
        directory = {
            "arch": arch,
            "dtype": dtype,
            "families": describe_families(schemas),
            "groups": {
                "identity": _add_identities(index, table, families),
                "entry": index.add_group(
                    len(table), {"digest": digests, "kernel": kernel_of}, entry_rules(len(kernels))
                ),
                "kernel": _add_kernels(index, kernels),
                "block": index.add_group(len(block["offset"]), block, block_rules(len(kernels), frames.tell())),
            },
            "layouts": [layout.to_json() for layout in kernels.layouts],
            "symbol": _symbol_rule(kernels),
            "provenance": _add_json(index, dict(provenance)),
            "ledger": _add_ledger(index, ledger, families),
        }
        return _assemble(file, to_json(directory), index, frames)


def _assemble(file: BinaryIO, directory: bytes, index: Sections, frames: BinaryIO) -> str:
    """Put the parts together; returns the hash of the file."""
    index.data += bytes(-len(index.data) % PAGE)
    pages = (index.data[start : start + PAGE] for start in range(0, len(index.data), PAGE))
    page_table = b"".join(zlib.crc32(page).to_bytes(4, "little") for page in pages)
    front_bytes = HEADER_BYTES + len(directory) + len(page_table)
    index_offset = front_bytes + -front_bytes % PAGE
    header = Header(
        file_bytes=index_offset + len(index.data) + frames.tell() + SEAL_BYTES,
        index_offset=index_offset,
        index_bytes=len(index.data),
        directory_bytes=len(directory),
        directory_crc=zlib.crc32(directory),
        page_table_crc=zlib.crc32(page_table),
    )
    hasher = hashlib.sha256()
    frames.seek(0)
    front = (header.to_bytes(), directory, page_table, bytes(index_offset - front_bytes), bytes(index.data))
    copied: Iterator[bytes] = iter(lambda: frames.read(_COPY_BYTES), b"")
    for part in itertools.chain(front, copied):
        hasher.update(part)
        file.write(part)
    seal = hasher.digest()
    hasher.update(seal)
    file.write(seal)
    return hasher.hexdigest()


def _check_names(table: IdentityTable, arch: str, dtype: str) -> None:
    for name, wanted in (("arch", arch), ("dtype_a", dtype)):
        if any(word != wanted for word in table.vocab[name]):
            raise ValueError(f"cache of {arch} {dtype}: a row has another {name}, of {table.vocab[name]}")


def _digest_order(table: IdentityTable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Row numbers in ascending order of digest, and the digests in that order."""
    digests = table_digests(table)
    # As big-endian numbers: bytes columns of numpy compare without their trailing zeros.
    words = np.zeros((len(table), 24), dtype=np.uint8)
    words[:, :DIGEST_BYTES] = digests
    order = np.lexsort(words.view(">u8").T[::-1]) if len(table) else np.arange(0)
    digests = digests[order]
    same = (digests[1:] == digests[:-1]).all(axis=1) if len(table) > 1 else np.zeros(0, dtype=np.bool_)
    if same.any():
        raise ValueError(f"an identity appears twice: {table.row(int(order[int(np.argmax(same))]))}")
    return order, digests


def _similar_kernels(
    table: IdentityTable, facts: EntryFacts, order: npt.NDArray[np.int64]
) -> tuple[KernelTable, npt.NDArray[np.uint32]]:
    """The kernels in similarity order of the first identity that uses each, and the kernel of each row of `table`."""
    given = np.asarray(facts.kernel_of, dtype=np.int64)
    if given.shape != (len(table),) or (len(given) and not 0 <= given.min() <= given.max() < len(facts.kernels)):
        raise ValueError("facts: kernel_of does not point from each identity to a kernel")
    if len({bytes(key) for key in facts.kernels.content_keys}) != len(facts.kernels):
        raise ValueError("facts: two kernels have one content key")
    given = given[order]
    used, first = np.unique(given[similarity_order(table)], return_index=True)
    used = used[np.argsort(first)]
    number = np.zeros(len(facts.kernels), dtype=np.uint32)
    number[used] = np.arange(len(used), dtype=np.uint32)
    return facts.kernels.take(used), number[given]


def _check_disjoint(digests: npt.NDArray[np.uint8], ledger: Ledger) -> None:
    entries = {bytes(digest) for digest in digests}
    for row, digest in enumerate(table_digests(ledger.table)):
        if bytes(digest) in entries:
            raise ValueError(f"an identity is both built and {ledger.outcome(row)}: {ledger.table.row(row)}")


def _write_frames(
    file: BinaryIO, kernels: KernelTable, blobs: BlobProvider, executor: Executor | None
) -> dict[str, npt.NDArray[Any]]:
    """Write one frame per block; returns the columns of the block group."""
    code_bytes = kernels.resources["code_bytes"].tolist()
    starts = blob_blocks.block_starts(code_bytes)
    stops = [*starts[1:], len(kernels)]
    digests = [bytes(digest) for digest in kernels.blob_digests]
    loaded = (
        _load(blobs, digests[start:stop], code_bytes[start:stop])
        for start, stop in zip(starts, stops[: len(starts)], strict=True)
    )
    offsets, lengths, raw_bytes, checksums = [], [], [], []
    for raw, frame in _compressed(loaded, executor):
        if blob_blocks.decompress_block(frame, len(raw)) != raw:
            raise DeliveryError("a compressed block does not decode to its content")
        offsets.append(file.tell())
        lengths.append(len(frame))
        raw_bytes.append(len(raw))
        checksums.append(zlib.crc32(frame))
        file.write(frame)
    return {
        "first_kernel": np.array(starts, dtype=np.uint32),
        "offset": np.array(offsets, dtype=np.uint64),
        "bytes": np.array(lengths, dtype=np.uint32),
        "raw_bytes": np.array(raw_bytes, dtype=np.uint32),
        "crc": np.array(checksums, dtype=np.uint32),
    }


def _load(blobs: BlobProvider, digests: Sequence[bytes], code_bytes: Sequence[int]) -> list[bytes]:
    block = []
    for digest, length in zip(digests, code_bytes, strict=True):
        blob = blobs(digest)
        if len(blob) != length or hashlib.sha256(blob).digest() != digest:
            raise DeliveryError(f"code object {digest.hex()} is not what its digest and length say")
        block.append(blob)
    return block


def _compressed(blocks: Iterable[list[bytes]], executor: Executor | None) -> Iterator[tuple[bytes, bytes]]:
    """(content, frame) of each block, in order."""
    if executor is None:
        for block in blocks:
            yield b"".join(block), blob_blocks.compress_block(block)
        return
    pending: deque[tuple[bytes, Future[bytes]]] = deque()
    for block in blocks:
        pending.append((b"".join(block), executor.submit(blob_blocks.compress_block, block)))
        if len(pending) == WINDOW_BLOCKS:
            raw, frame = pending.popleft()
            yield raw, frame.result()
    for raw, frame in pending:
        yield raw, frame.result()


def _add_json(index: Sections, data: Any) -> list[int]:
    text = to_json(data)
    return [index.add(text), len(text)]


def _add_identities(index: Sections, table: IdentityTable, families: FileFamilies) -> dict[str, Any]:
    group, vocabulary = _identity_group(index, table, families)
    return {**group, "vocab": _add_json(index, vocabulary)}


def _identity_group(
    index: Sections, table: IdentityTable, families: FileFamilies
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The columns of identities, all families of the file considered, and their words."""
    wide = table.widened(families.written)
    columns = {name: wide.columns[name] for name in (FAMILY, *families.stored)}
    group = index.add_group(len(wide), columns, families.rules(wide.vocab))
    return group, {name: list(words) for name, words in wide.vocab.items() if name != FAMILY}


def _add_kernels(index: Sections, kernels: KernelTable) -> dict[str, Any]:
    columns: dict[str, npt.NDArray[Any]] = {
        "content_key": kernels.content_keys,
        "blob_digest": kernels.blob_digests,
        "layout": kernels.layout,
        **{name: _narrow(kernels.resources[name]) for name in RESOURCES},
    }
    if _symbol_rule(kernels) is None:
        columns["symbol"] = kernels.symbols
    return index.add_group(len(kernels), columns, kernel_rules(len(kernels.layouts), "symbol" in columns))


def _narrow(column: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
    most = int(column.max()) if len(column) else 0
    return column.astype(np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32)


def _symbol_rule(kernels: KernelTable) -> list[Any] | None:
    """[prefix, digits] if all symbols are a common prefix and the front of the content key."""
    if not len(kernels):
        return None
    first, key = kernels.symbols[0].decode(), bytes(kernels.content_keys[0]).hex()
    digits = next((count for count in range(len(key), 0, -1) if first.endswith(key[:count])), 0)
    prefix = first[: len(first) - digits]
    for symbol, content_key in zip(kernels.symbols, kernels.content_keys, strict=True):
        if symbol.decode() != prefix + bytes(content_key).hex()[:digits]:
            return None
    return [prefix, digits]


def _add_ledger(index: Sections, ledger: Ledger, families: FileFamilies) -> list[int]:
    packed = Sections()
    identity, vocabulary = _identity_group(packed, ledger.table, families)
    columns: dict[str, npt.NDArray[Any]] = {"kind": ledger.kind, "reason": ledger.reason}
    outcome = packed.add_group(len(ledger), columns, outcome_rules(len(ledger.reasons)))
    if len(ledger) > LEDGER_ROWS or len(packed.data) > LEDGER_BYTES:
        raise ValueError(f"a ledger of {len(ledger)} rows and {len(packed.data)} bytes")
    frame = zstandard.ZstdCompressor(level=blob_blocks.LEVEL).compress(bytes(packed.data))
    return _add_json(
        index,
        {
            "identity": identity,
            "outcome": outcome,
            "vocab": vocabulary,
            "frame": [index.add(frame), len(frame), len(packed.data)],
            "reasons": list(ledger.reasons),
            "details": [[row, text] for row, text in ledger.details.items()],
        },
    )
