"""Small caches of made-up kernels, the same on every run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cache_schema.arguments import Argument, ArgumentList
from cache_schema.cache_writer import write_cache
from cache_schema.facts import EntryFacts, KernelFacts
from cache_schema.ledger import Ledger
from cache_schema.outcome import OutcomeKind
from cache_schema.table import ColumnSource, IdentityTable
from tests.cache_schema.records import Alpha

PLAIN = ArgumentList((Argument("x", "ptr"), Argument("w", "ptr"), Argument("y", "ptr"), Argument("n", "i32")))
SPLIT = ArgumentList((*PLAIN.arguments, Argument("split_k", "u32"), Argument("stride", "i64")))
REASONS = ("F1_divides", "F5_lds", "compile")
PROVENANCE = {"toolchain": {"llvm": "22.1", "digest": "ab" * 32}, "sources": "cd" * 32}


@dataclass(frozen=True)
class Sample:
    """What goes into a cache: row i of `table` has `records[i]`; `blobs` by raw SHA-256."""

    table: IdentityTable
    records: list[KernelFacts]
    blobs: dict[bytes, bytes]
    ledger: Ledger

    def write(self, path: Path, order: np.ndarray[Any, Any] | None = None, **options: Any) -> str:
        """Write it, the rows given in some order."""
        order = np.arange(len(self.table)) if order is None else order
        arguments: dict[str, Any] = {
            "arch": "gfx950",
            "dtype": "bf16",
            "table": self.table.take(order),
            "facts": EntryFacts.from_entries([self.records[row] for row in order]),
            "blobs": self.blobs.__getitem__,
            "ledger": self.ledger,
            "provenance": PROVENANCE,
        }
        return write_cache(path, **{**arguments, **options})


def geometry(rows: int, first: int = 0) -> IdentityTable:
    """Distinct identities of one family, numbered in mixed radix over a few axes."""
    number = np.arange(first, first + rows)
    axes = {"tile_m": [16, 64, 256], "tile_n": [16, 128], "vector_size_a": [1, 2, 4, 8], "warp_m": [1, 2]}
    values: dict[str, ColumnSource] = {
        "arch": "gfx950", "dtype_a": "bf16", "dtype_b": "bf16", "dtype_d": "bf16",
    }  # fmt: skip
    for name, choices in axes.items():
        values[name] = np.array(choices)[number % len(choices)]
        number = number // len(choices)
    values["pipeline"] = (number % 2, ["mem", "compv3"])
    values["unroll_k"] = number // 2 % 2 == 1
    values["cpg"] = number // 4
    return IdentityTable.from_columns(Alpha, rows, values)


def sample(entries: int = 150, rejected: int = 90, code_bytes: int = 400, seed: int = 5) -> Sample:
    """A cache where every third entry shares the kernel of the one before."""
    random = np.random.default_rng(seed)
    common = random.bytes(code_bytes)
    blobs: dict[bytes, bytes] = {}
    records: list[KernelFacts] = []
    for row in range(entries):
        if row % 3 == 2:
            records.append(records[-1])
            continue
        code = common + row.to_bytes(4, "little") + random.bytes(row % 7)
        digest, key = hashlib.sha256(code).digest(), hashlib.sha256(b"key" + code).hexdigest()
        blobs[digest] = code
        records.append(
            KernelFacts(
                content_key=key,
                blob_digest=digest.hex(),
                symbol=f"rocke_{key[:24]}",
                arguments=SPLIT if row % 5 == 0 else PLAIN,
                code_bytes=len(code),
                block_size=64 << row % 4,
                lds_bytes=row * 512,
                vgprs=row,
                scratch_bytes=16 * (row == 4),
                vgpr_spills=row % 2,
            )
        )
    kinds = np.full(rejected, OutcomeKind.REJECTED, dtype=np.uint8)
    reasons = np.arange(rejected) % 2
    details: dict[int, str] = {}
    if rejected >= 2:
        kinds[:2] = OutcomeKind.FAILED, OutcomeKind.TIMED_OUT
        reasons[:2] = 2
        details = {0: "error: no such intrinsic", 1: "30 s"}
    ledger = Ledger.of(geometry(rejected, entries), kinds, reasons, REASONS, details)
    return Sample(geometry(entries), records, blobs, ledger)
