"""Questions to a small real cache, with answers counted from the identities that went in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aot.cli.inspect_text import kernel
from aot.inspection.cache_summary import axes, summarise
from aot.inspection.candidates import NoCandidateError, best_candidate, find_candidates
from aot.inspection.kernel_report import report_kernel, set_fields
from aot.inspection.resolve import resolve
from aot.toolchain import Toolchain
from cache_schema.cache_reader import Cache
from cache_schema.digest import identity_digest
from cache_schema.errors import DeliveryError, RequestError
from cache_schema.label import LabelError, encode
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from tests.aot.samples import forward, rejected_identities, sample_identities


def test_summary_counts_what_went_in(small_cache: Path) -> None:
    """Entries, axes, outcomes and histograms add up; the seal is that of the file; all of it is JSON."""
    identities = sample_identities()
    with Cache.open(small_cache) as cache:
        found = summarise(cache)
    assert (found.arch, found.dtype, found.entries) == ("gfx950", "bf16", len(identities))
    assert found.file_bytes == small_cache.stat().st_size
    assert found.seal == small_cache.read_bytes()[-32:].hex()
    (family,) = found.families
    assert (family.name, family.entries) == ("implicit_gemm", len(identities))
    assert family.axes["pipeline"] == {
        name: sum(i.pipeline == name for i in identities) for name in sorted({i.pipeline for i in identities})
    }
    assert family.axes["unroll_k"] == {"False": 4, "True": 1}
    assert "warp_m" not in family.axes
    counts = {(row.kind, row.reason): row.count for row in found.outcomes}
    assert counts == {("built", ""): 5, ("rejected", "F3_store_width"): 1, ("rejected", "F15_accumulators"): 1}
    assert all(row.explanation for row in found.outcomes if row.reason)
    for histogram in (found.vgprs, found.lds, found.occupancy, found.occupancy_limits):
        assert sum(histogram.values()) == found.kernels
    assert found.density == pytest.approx(found.code_bytes / found.file_bytes)
    json.dumps(found.to_json())


def test_axes_of_one_row_or_none_are_empty() -> None:
    """Nothing varies where there is nothing to vary."""
    assert axes(IdentityTable.from_identities([forward()])) == {}
    assert axes(IdentityTable.from_identities([])) == {}


def test_kernels_of_the_cache_have_loops_without_divisions(small_cache: Path, local_toolchain: Toolchain) -> None:
    """Every real kernel has a lean and a general K loop; both multiply what the tile says, and neither divides.

    The count of matrix instructions follows from the tile: fragments of one wave times the atoms of one K tile, twice
    for a loop that handles two tiles.
    """
    with Cache.open(small_cache) as cache:
        for number in range(len(cache)):
            report = report_kernel(cache, number, local_toolchain)
            identity: Any = report.entry.identity
            per_wave = (identity.tile_m // identity.warp_m) * (identity.tile_n // identity.warp_n)
            atoms = per_wave * identity.tile_k // (16 * 16 * identity.warp_tile_k) * (1 + identity.unroll_k)
            assert report.statistics is not None
            assert len(report.statistics.loops) == 2
            for loop in report.statistics.loops:
                assert loop.mix.mfma == atoms
                assert loop.mix.mfma_clk == 16 * atoms
                assert loop.mix.divisions == 0
                assert 0 < loop.mix.share < 1
            hot = report.statistics.hot_loop
            assert hot is not None
            assert hot.mix.share == max(loop.mix.share for loop in report.statistics.loops)
            assert len(report.listing()) == len(report.instructions)
            assert sum(line.startswith("#") for line in report.listing()) == hot.mix.total
            assert 1 <= report.occupancy.waves_per_simd <= 8
            json.dumps(report.to_json())


def test_a_kernel_is_reported_without_a_disassembler(small_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with no LLVM but llvmlite: resources and arguments all the same, and why there are no statistics."""
    monkeypatch.setattr(sys.modules["aot.toolchain.disassemble"], "DISTRIBUTION_MAJORS", ())
    with Cache.open(small_cache) as cache:
        report = report_kernel(cache, 0)
    answer = report.to_json()
    assert answer["statistics"] is None
    assert "no LLVM disassembler" in answer["unread"]
    assert answer["resources"]["vgprs"] > 0
    assert "no LLVM disassembler" in kernel(report, {}, disasm=False)
    with pytest.raises(DeliveryError, match="no LLVM disassembler"):
        report.listing()


def test_candidates_are_those_whose_widths_divide(small_cache: Path) -> None:
    """Six channels leave the widths 1 and 2; the refused are counted by reason and width."""
    problem = ConvProblem("fwd", "bf16", n=2, c=6, h=8, w=8, k=40, y=3, x=3)
    with Cache.open(small_cache) as cache:
        found = find_candidates(cache, problem)
        served = {encode(cache.identity(row)) for row in found.rows.tolist()}
        assert served == {
            encode(i) for i in sample_identities() if 6 % i.vector_size_a == 0 and 40 % i.vector_size_c == 0
        }
        assert best_candidate(cache, problem) == found.rows[0]
        assert found.reasons == {"S_width_a": 3}
        (refused,) = found.refused
        assert refused.fields == {"vector_size_a": {"4": 1, "8": 2}}
        estimates = found.forecast.clk.tolist()
        assert estimates == sorted(estimates)
        assert len(estimates) == 2


def test_no_candidate_says_why(small_cache: Path) -> None:
    """The error counts the reasons; a direction that the cache does not have is one."""
    with Cache.open(small_cache) as cache:
        with pytest.raises(NoCandidateError, match="5 because of S_direction") as caught:
            best_candidate(cache, ConvProblem("dgrad", "bf16", n=1, c=8, h=4, w=4, k=8, y=1, x=1))
        assert caught.value.reasons == {"S_direction": 5}
        found = find_candidates(cache, ConvProblem("dgrad", "bf16", n=1, c=8, h=4, w=4, k=8, y=1, x=1))
        assert found.refused[0].fields == {"family": {"implicit_gemm": 5}}


def test_identities_by_label_digest_and_beginning(small_cache: Path) -> None:
    """All three name the same identity; labels may name anything, digests only what the cache knows."""
    identity, outsider = sample_identities()[1], forward(tile_m=16)
    digest = identity_digest(identity).hex()
    with Cache.open(small_cache) as cache:
        assert resolve(cache, encode(identity)) == identity
        assert resolve(cache, digest) == identity
        assert resolve(cache, digest[:8].upper()) == identity
        assert resolve(cache, encode(outsider)) == outsider
        rejected = rejected_identities()[0]
        assert resolve(cache, identity_digest(rejected).hex()) == rejected
        with pytest.raises(RequestError, match="no candidate"):
            resolve(cache, identity_digest(outsider).hex())
        with pytest.raises(RequestError, match="no entry has"):
            resolve(cache, identity_digest(outsider).hex()[:10])
        with pytest.raises(RequestError, match="neither a label"):
            resolve(cache, "12345")
        with pytest.raises(LabelError):
            resolve(cache, "fwd:implicit_gemm:gfx950:bf16:tile=64")


def test_beginnings_are_found_at_the_ends_of_the_list(small_cache: Path) -> None:
    """The first and the last entry are found by their shortest beginnings as well."""
    with Cache.open(small_cache) as cache:
        for number in (0, len(cache) - 1):
            digest = np.asarray(cache.digests[number]).tobytes().hex()
            assert resolve(cache, digest[:6]) == cache.identity(number)


def test_fields_that_are_set() -> None:
    """The key fields always, the others when they differ from the default."""
    fields = dict(set_fields(forward(pipeline="mem", unroll_k=True)))
    assert fields["arch"] == "gfx950"
    assert fields["unroll_k"] is True
    assert "pipeline" not in fields
