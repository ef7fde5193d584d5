"""Kernels are right under both readings of the range check of buffers: scalar offsets count in it, or do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aot.ir.values import Value
from aot.kernels.streams import UniformStream
from aot.toolchain import Toolchain
from aot.verification import verify as verify_module
from aot.verification.session import VerifyRequest, VerifySummary, verify
from cache_schema.identity import Identity
from grids.catalogue import buildable
from grids.families import family_of, step_families
from tests.aot.samples import forward
from tests.aot.small_cache import write_small_cache

FEW = 4


def both_readings(cache: Path, patch: pytest.MonkeyPatch) -> list[VerifySummary]:
    """All edges of all kernels: with scalar offsets counted, and without."""
    summaries = []
    for counts in (True, False):
        patch.setattr(verify_module, "scalar_counts_first", lambda _entry, _case, counts=counts: counts)
        request = VerifyRequest(cache, evidence=cache.with_suffix(f".{counts}"), jobs=1)
        summaries.append(verify(request, lambda _left, _summary: None))
    return summaries


def spread(arch: str, direction: str) -> Sequence[Identity]:
    """A few kernels of a direction, small tiles first: every edge is quick on them."""
    table = buildable(arch, ["bf16"], [direction], limit=40)
    table = table.take(~table.of_families(sorted(step_families())))
    identities: list[Any] = [table.row(index) for index in range(len(table))]
    return sorted(identities, key=lambda one: one.tile_m * one.tile_n * one.tile_k)[: 3 * FEW : 3]


@pytest.mark.parametrize("direction", ["fwd", "dgrad", "wgrad"])
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_every_edge_under_both_readings(
    arch: str, direction: str, tmp_path: Path, local_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store, atomic or load of any family depends on the reading, those of tiles behind the last included."""
    kernels = spread(arch, direction)
    steps = {step for kernel in kernels for step in family_of(kernel).steps(kernel)}
    cache = write_small_cache(tmp_path / "c.rocke", local_toolchain, [*kernels, *steps])
    for summary in both_readings(cache, monkeypatch):
        assert [failure["message"] for failure in summary.failures] == []
        assert summary.right == FEW + len(steps)


def test_what_depends_on_the_reading_is_found(
    tmp_path: Path, local_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights fetched behind the last tile, with nothing but a scalar offset to stop them, are right where that counts
    and a fault where it does not."""

    stopped = UniformStream.advance

    def unstopped(stream: UniformStream, state: Sequence[Value]) -> list[Value]:
        a_scalar, _, *rest = stopped(stream, state)
        return [a_scalar, stream.b.add(state[1], stream.walk.tile_k * stream.walk.elem_bytes), *rest]

    monkeypatch.setattr(UniformStream, "advance", unstopped)
    kernel = forward(pipeline="compv3", vector_size_a=8, vector_size_b=8)
    cache = write_small_cache(tmp_path / "c.rocke", local_toolchain, [kernel])
    counted, left_out = both_readings(cache, monkeypatch)
    assert counted.failures == []
    assert all("global access out of bounds" in failure["message"] for failure in left_out.failures)
    assert left_out.wrong == 1
