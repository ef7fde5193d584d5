"""A real cache of a few real kernels, built in process, for tests that look at caches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aot.farm.results import Chunk, Compiled
from aot.farm.units import build_chunk
from aot.toolchain import Toolchain, symbol_of
from cache_schema.cache_writer import write_cache
from cache_schema.facts import EntryFacts, KernelFacts
from cache_schema.identity import Identity
from cache_schema.ledger import Ledger
from cache_schema.outcome import OutcomeKind
from cache_schema.table import IdentityTable
from tests.aot.samples import rejected_identities


def write_small_cache(
    path: Path, toolchain: Toolchain, identities: Sequence[Identity], codes: Sequence[Identity] | None = None
) -> Path:
    """Build and store; kernels with one content key are compiled once, as the farm does.

    With `codes` the cache lies: entry i has the kernel of `codes[i]`.
    """
    table = IdentityTable.from_identities(codes or identities)
    blobs: dict[bytes, bytes] = {}
    facts: dict[bytes, KernelFacts] = {}
    keys = []
    for _, result in build_chunk(Chunk(tuple(range(len(table))), table, toolchain)):
        assert result.emission is not None, result.made
        keys.append(result.emission.key)
        if result.made is None:
            continue
        assert isinstance(result.made, Compiled), result.made
        digest = hashlib.sha256(result.made.code)
        blobs[digest.digest()] = result.made.code
        key = result.emission.key.hex()
        facts[result.emission.key] = KernelFacts(
            content_key=key,
            blob_digest=digest.hexdigest(),
            symbol=symbol_of(key),
            arguments=result.emission.arguments,
            code_bytes=len(result.made.code),
            block_size=result.emission.block_size,
            **{name: getattr(result.made.facts, name) for name in result.made.facts.__slots__},
        )
    refused = IdentityTable.from_identities(rejected_identities(identities[0].arch, identities[0].dtype_a))
    write_cache(
        path,
        arch=identities[0].arch,
        dtype=identities[0].dtype_a,
        table=IdentityTable.from_identities(identities),
        facts=EntryFacts.from_entries(facts[key] for key in keys),
        blobs=blobs.__getitem__,
        ledger=Ledger.of(refused, OutcomeKind.REJECTED, np.array([0, 1]), ("F3_store_width", "F15_accumulators")),
        provenance={"toolchain": {"llvm": toolchain.llvm_version, "flavor": toolchain.flavor}},
    )
    return path
