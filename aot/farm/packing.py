"""From what the collector knows to the cache file."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from aot.farm.collector import Collector
from aot.farm.previous import Previous
from aot.farm.results import Origin, StoredCode
from aot.farm.selection import Selection
from aot.farm.store import Store
from aot.toolchain import symbol_of
from aot.workers.interrupt import StopFlag
from cache_schema.cache_writer import write_cache
from cache_schema.facts import EntryFacts, KernelFacts, KernelTable
from cache_schema.ledger import Ledger, concat_ledgers


def pack(
    path: Path,
    names: tuple[str, str],
    selection: Selection,
    collector: Collector,
    sources: tuple[Store, Previous | None],
    provenance: Mapping[str, Any],
    threads: int,
    stop: StopFlag,
) -> str:
    """Write the cache file of (arch, dtype) `names`; its SHA-256."""
    rows = np.flatnonzero(collector.delivered())
    used, kernel_of = np.unique(collector.kernel_of[rows], return_inverse=True)
    places = {}
    records = []
    for number in used.tolist():
        record, place = _record(collector, number)
        records.append(record)
        places[place.sha256] = place
    store, previous = sources

    def blob(sha256: bytes) -> bytes:
        stop.check()
        place = places[sha256]
        if place.origin is Origin.JOURNAL:
            return store.code(place)
        assert previous is not None
        return previous.bytes_of(place)

    # zstd lets go of the interpreter lock, so that threads are as good as processes and copy nothing.
    with ThreadPoolExecutor(threads) as executor:
        return write_cache(
            path,
            arch=names[0],
            dtype=names[1],
            table=selection.table.take(rows),
            facts=EntryFacts(KernelTable.from_records(records), kernel_of.astype(np.int64)),
            blobs=blob,
            ledger=full_ledger(selection, collector),
            provenance=provenance,
            executor=executor,
        )


def full_ledger(selection: Selection, collector: Collector) -> Ledger:
    """Rejections and failures: every candidate that has no code."""
    lapses = list(collector.lapses())
    if not lapses:
        return selection.rejected
    rows = np.array([row for row, _ in lapses])
    kinds = np.array([lapse.kind for _, lapse in lapses], dtype=np.uint8)
    details = {position: lapse.detail for position, (_, lapse) in enumerate(lapses)}
    failed = Ledger.of(selection.table.take(rows), kinds, np.zeros(len(rows), dtype=np.int16), ("",), details)
    return concat_ledgers([selection.rejected, failed])


def _record(collector: Collector, number: int) -> tuple[KernelFacts, StoredCode]:
    kernel = collector.kernels[number]
    assert kernel.emission is not None
    assert kernel.code is not None
    facts = kernel.code.facts
    record = KernelFacts(
        content_key=kernel.key.hex(),
        blob_digest=kernel.code.sha256.hex(),
        symbol=symbol_of(kernel.key.hex()),
        arguments=kernel.emission.arguments,
        code_bytes=kernel.code.length,
        block_size=kernel.emission.block_size,
        lds_bytes=facts.lds_bytes,
        vgprs=facts.vgprs,
        agprs=facts.agprs,
        sgprs=facts.sgprs,
        scratch_bytes=facts.scratch_bytes,
        vgpr_spills=facts.vgpr_spills,
        sgpr_spills=facts.sgpr_spills,
    )
    return record, kernel.code
