"""What is recorded about the code of an entry.

Everything here follows from the content key (the hash of what the compiler was given), so it is kept once per kernel
and entries point to kernels. Two entries with one content key and different facts are a contradiction and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cache_schema.arguments import ArgumentList

#: Numbers per kernel. Bytes are bytes; spills are counts. Registers are those that the code uses, as its metadata say,
#: and not the granules that hardware allocates; `vgprs` counts ordinary and accumulation registers together, `agprs`
#: the latter alone.
RESOURCES = (
    "code_bytes",
    "block_size",
    "lds_bytes",
    "vgprs",
    "agprs",
    "sgprs",
    "scratch_bytes",
    "vgpr_spills",
    "sgpr_spills",
)
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One kernel. `content_key` and `blob_digest` (SHA-256 of the code object) are 64 hex digits."""

    content_key: str
    blob_digest: str
    symbol: str
    arguments: ArgumentList
    code_bytes: int
    block_size: int
    lds_bytes: int = 0
    vgprs: int = 0
    agprs: int = 0
    sgprs: int = 0
    scratch_bytes: int = 0
    vgpr_spills: int = 0
    sgpr_spills: int = 0


@dataclass(frozen=True, eq=False)
class KernelTable:
    """Kernels as columns: keys and digests (rows, 32) uint8, symbols as bytes, one uint32 column per resource."""

    content_keys: npt.NDArray[np.uint8]
    blob_digests: npt.NDArray[np.uint8]
    symbols: npt.NDArray[np.bytes_]
    resources: dict[str, npt.NDArray[np.uint32]]
    layout: npt.NDArray[np.uint16]
    layouts: tuple[ArgumentList, ...]

    @classmethod
    def from_records(cls, records: Iterable[KernelFacts]) -> KernelTable:
        """One row per record, in order."""
        keys, blobs, symbols, layout = bytearray(), bytearray(), [], []
        numbers: dict[str, list[int]] = {name: [] for name in RESOURCES}
        layouts: dict[ArgumentList, int] = {}
        for record in records:
            keys += _hash_bytes(record.symbol, record.content_key)
            blobs += _hash_bytes(record.symbol, record.blob_digest)
            symbols.append(record.symbol.encode("ascii"))
            layout.append(layouts.setdefault(record.arguments, len(layouts)))
            for name, column in numbers.items():
                column.append(getattr(record, name))
        return cls(
            content_keys=np.frombuffer(bytes(keys), dtype=np.uint8).reshape(-1, KEY_BYTES),
            blob_digests=np.frombuffer(bytes(blobs), dtype=np.uint8).reshape(-1, KEY_BYTES),
            symbols=np.array(symbols, dtype=np.bytes_),
            resources={name: np.array(column, dtype=np.uint32) for name, column in numbers.items()},
            layout=np.array(layout, dtype=np.uint16),
            layouts=tuple(layouts),
        )

    def __len__(self) -> int:
        return len(self.content_keys)

    def take(self, index: npt.NDArray[np.integer]) -> KernelTable:
        """The selected rows in that order, with the argument lists that they use, sorted by their own text."""
        used = sorted({int(code) for code in self.layout[index]}, key=lambda code: self.layouts[code].to_json())
        recode = np.zeros(max(len(self.layouts), 1), dtype=np.uint16)
        recode[used] = np.arange(len(used), dtype=np.uint16)
        return KernelTable(
            self.content_keys[index],
            self.blob_digests[index],
            self.symbols[index],
            {name: column[index] for name, column in self.resources.items()},
            recode[self.layout[index]],
            tuple(self.layouts[code] for code in used),
        )


@dataclass(frozen=True, eq=False)
class EntryFacts:
    """Row i of an identity table is served by kernel `kernel_of[i]`."""

    kernels: KernelTable
    kernel_of: npt.NDArray[np.int64]

    @classmethod
    def from_entries(cls, records: Iterable[KernelFacts]) -> EntryFacts:
        """From one record per entry; records with one content key have to be equal (ValueError)."""
        known: dict[str, tuple[int, KernelFacts]] = {}
        kernel_of: list[int] = []
        for record in records:
            number, first = known.setdefault(record.content_key, (len(known), record))
            if first != record:
                raise ValueError(f"content key {record.content_key} has two sets of facts: {first} and {record}")
            kernel_of.append(number)
        kernels = KernelTable.from_records(record for _, record in known.values())
        return cls(kernels, np.array(kernel_of, dtype=np.int64))


def _hash_bytes(symbol: str, text: str) -> bytes:
    if len(text) != 2 * KEY_BYTES:
        raise ValueError(f"kernel {symbol}: {text!r} is not {2 * KEY_BYTES} hex digits")
    return bytes.fromhex(text)
