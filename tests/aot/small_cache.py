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


def forward(arch: str = "gfx950", dtype: str = "bf16", **fields: int | str | bool) -> Identity:
    """A forward identity: 64x64x32, two by two waves, 16x16 atoms, widths of 4, unless said otherwise."""
    usual: dict[str, int | str | bool] = {
        "tile_m": 64, "tile_n": 64, "tile_k": 32, "warp_m": 2, "warp_n": 2, "warp_tile_m": 16, "warp_tile_n": 16,
        "warp_tile_k": 32 if arch == "gfx950" else 16, "vector_size_a": 4, "vector_size_b": 4, "vector_size_c": 1,
        "grouped": True,
    }  # fmt: skip
    return Identity(arch, "fwd", "implicit_gemm", dtype, dtype, dtype, **{**usual, **fields})  # type: ignore[arg-type]


def sample_identities(arch: str = "gfx950") -> list[Identity]:
    """A handful that differ in tile, pipeline, epilogue and widths."""
    return [
        forward(arch),
        forward(arch, pipeline="compv3", epilogue="cshuffle", vector_size_a=8, vector_size_b=8, vector_size_c=8),
        forward(arch, tile_m=32, tile_n=32, vector_size_a=1, vector_size_b=1),
        forward(arch, tile_m=128, tile_k=64, vector_size_a=8, vector_size_b=8, epilogue="cshuffle", vector_size_c=4),
        forward(arch, unroll_k=True, vector_size_a=2, vector_size_b=2),
    ]


def rejected_identities(arch: str = "gfx950") -> list[Identity]:
    """Candidates that stand in the ledger of the small cache."""
    return [forward(arch, vector_size_c=2), forward(arch, tile_m=256, tile_n=256, warp_m=1, warp_n=1)]


def write_small_cache(path: Path, toolchain: Toolchain, identities: Sequence[Identity]) -> Path:
    """Build and store; kernels with one content key are compiled once, as the farm does."""
    table = IdentityTable.from_identities(identities)
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
    refused = IdentityTable.from_identities(rejected_identities(identities[0].arch))
    write_cache(
        path,
        arch=identities[0].arch,
        dtype=identities[0].dtype_a,
        table=table,
        facts=EntryFacts.from_entries(facts[key] for key in keys),
        blobs=blobs.__getitem__,
        ledger=Ledger.of(refused, OutcomeKind.REJECTED, np.array([0, 1]), ("F3_store_width", "F15_accumulators")),
        provenance={"toolchain": {"llvm": toolchain.llvm_version, "flavor": toolchain.flavor}},
    )
    return path
