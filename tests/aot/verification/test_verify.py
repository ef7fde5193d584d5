"""Verification of real caches: right kernels pass, a wrong one is named, evidence is kept, continued and replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aot.runtime.problem_text import problem_text
from aot.verification import verify as verify_module
from aot.verification.edge_case import EdgeCase
from aot.verification.edges import edge_cases
from aot.verification.evidence import Evidence
from aot.verification.evidence_format import Conditions, Head
from aot.verification.evidence_reading import read_evidence, summarise_evidence
from aot.verification.session import VerifyRequest, VerifySummary, verify
from aot.verification.verify import Task, verify_group, verify_groups
from cache_schema.cache_reader import Cache
from cache_schema.digest import identity_digest
from cache_schema.errors import DeliveryError, RequestError
from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from tests.aot.samples import LIAR, QUICK, SHUFFLED
from tests.aot.verification.dying import dying_work

#: Two problems that both quick kernels serve: ragged in every axis, and the smallest.
CASES = (
    EdgeCase(
        "ragged", ConvProblem("fwd", "bf16", n=1, c=24, h=5, w=4, k=20, y=2, x=2, pad_h=1), "uniform", repeat=True
    ),
    EdgeCase("one", ConvProblem("fwd", "bf16", n=1, c=8, h=1, w=1, k=4, y=1, x=1), "ints"),
)


def run(cache: Path, evidence: Path | None = None, **options: object) -> VerifySummary:
    """A verification with the two cases, unless said otherwise."""
    fields: dict[str, object] = {"cases": CASES, **options}
    return verify(VerifyRequest(cache, evidence=evidence, **fields), lambda _left, _summary: None)  # type: ignore[arg-type]


def test_right_kernels_pass(quick_cache: Path, tmp_path: Path) -> None:
    """Every kernel and case is run; the evidence says by what, how often and how exactly."""
    file = tmp_path / "evidence.jsonl"
    summary = run(quick_cache, file)
    assert summary.delivered
    assert (summary.entries, summary.right, summary.runs) == (2, 2, 4)
    assert summary.instructions > 1000
    contents = read_evidence(file)
    head, verdicts = contents.head, contents.verdicts
    assert head is not None
    assert head.cache == quick_cache.read_bytes()[-32:].hex()
    digests = {identity_digest(identity).hex() for identity in (QUICK, SHUFFLED)}
    assert {digest for verdict in verdicts for digest in verdict["digests"]} == digests
    for verdict in verdicts:
        assert verdict["use"] <= 1
        ragged, one = verdict["cases"]
        assert ragged["elements"] == 6 * 3 * 20
        assert 0 < ragged["worst_error"] <= ragged["bound"]
        assert one["exact"] == one["elements"] == 4
    (told,) = summarise_evidence(head.cache, file)
    assert (told["of_this_cache"], told["right"], told["wrong"], told["runs"]) == (True, 2, 0, 4)
    assert not summarise_evidence("other", file)[0]["of_this_cache"]


def test_edges_of_a_real_kernel(quick_cache: Path) -> None:
    """All edge cases of a kernel, NaN and infinity among them, are right."""
    with Cache.open(quick_cache) as cache:
        number = cache.find_identity(QUICK)
        assert number is not None
        verdict = verify_group(Task(quick_cache, None, "llvm", 1), cache, (number,))
    assert verdict["verdict"] == "right", verdict["message"]
    assert [case["name"] for case in verdict["cases"]] == [case.name for case in edge_cases(QUICK)]


def test_a_wrong_kernel_is_named(lying_cache: Path) -> None:
    """A kernel that loads wider than its identity says fails on channels that it straddles, the other one passes."""
    narrow = EdgeCase("narrow", ConvProblem("fwd", "bf16", n=1, c=6, h=4, w=4, k=4, y=2, x=2), "ints")
    wide = EdgeCase("wide", ConvProblem("fwd", "bf16", n=1, c=8, h=4, w=4, k=4, y=2, x=2), "ints")
    summary = run(lying_cache, cases=(wide, narrow))
    assert not summary.delivered
    assert (summary.right, summary.wrong) == (1, 1)
    (failure,) = summary.failures
    assert failure["label"] == encode(LIAR)
    assert failure["message"].startswith("narrow: ")
    assert failure["failing"] == {"problem": problem_text(narrow.problem), "inputs": "ints", "seed": 1, "degree": -1}
    assert ["failure" in case for case in failure["cases"]] == [False, True]
    json.dumps(summary.to_json())


def test_evidence_is_continued(quick_cache: Path, tmp_path: Path) -> None:
    """What is proven is not run again; a torn last line is dropped; the file ends the same as one undisturbed run."""
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    run(quick_cache, whole)
    lines = whole.read_text().splitlines(keepends=True)
    kinds = ['{"format"', '{"conditions"', *['{"case"'] * 2, *['{"code"'] * 2]
    assert [line.split(":")[0] for line in lines] == kinds
    torn.write_text("".join(lines[:5]) + lines[5][:50])
    summary = run(quick_cache, torn)
    assert (summary.right, summary.reused, summary.runs) == (2, 1, 2)
    assert torn.read_text() == whole.read_text()
    assert run(quick_cache, torn).runs == 0


def test_failed_kernels_are_run_again(lying_cache: Path, tmp_path: Path) -> None:
    """Evidence of a failure is no proof of anything."""
    narrow = EdgeCase("narrow", ConvProblem("fwd", "bf16", n=1, c=6, h=4, w=4, k=4, y=2, x=2), "ints")
    file = tmp_path / "evidence.jsonl"
    first = run(lying_cache, file, cases=(narrow,))
    again = run(lying_cache, file, cases=(narrow,))
    assert (first.wrong, again.wrong) == (1, 1)
    assert again.reused == 1
    assert first.without_cases == 1  # the other kernel loads by fours and serves no six channels


def test_other_conditions_stand_beside(quick_cache: Path, tmp_path: Path) -> None:
    """Another seed proves nothing for this one, and takes nothing away; evidence of another cache is replaced."""
    file = tmp_path / "evidence.jsonl"
    run(quick_cache, file)
    assert run(quick_cache, file, seed=2).reused == 0
    assert [row["seed"] for row in summarise_evidence("", file)] == [1, 2]
    assert run(quick_cache, file).reused == 2
    Evidence.resume(file, Head("another", "gfx950", "bf16"), Conditions("1", "llvm", 1, "edges")).settle()
    assert read_evidence(file).verdicts == []


def test_foreign_files_stay(quick_cache: Path, tmp_path: Path) -> None:
    """A file that is no evidence, or damaged, or no file, is somebody's: refused by name, and left as it is."""
    file = tmp_path / "evidence.jsonl"
    run(quick_cache, file)
    damaged = file.read_bytes().replace(b'"gfx950"', b'"gfx942"', 1)
    for content in (b'{"groceries": 1}\n', b"notes", damaged):
        file.write_bytes(content)
        with pytest.raises(RequestError, match=r"evidence\.jsonl.*--evidence"):
            run(quick_cache, file)
        assert file.read_bytes() == content
    for other in (tmp_path, Path("/dev/null"), tmp_path / "none" / "e.jsonl"):
        with pytest.raises(RequestError, match="cannot write"):
            run(quick_cache, other)


def test_selection(quick_cache: Path) -> None:
    """Shards are disjoint and complete, a sample is as large as asked, identities are looked up."""
    counts = [run(quick_cache, shard=(index, 3)).entries for index in (1, 2, 3)]
    assert sum(counts) == 2
    assert run(quick_cache, sample=1).entries == 1
    assert run(quick_cache, identities=(encode(QUICK),)).entries == 1
    with pytest.raises(RequestError, match="no kernel"):
        run(quick_cache, identities=(encode(LIAR),))
    with pytest.raises(RequestError, match="shard"):
        run(quick_cache, shard=(4, 3))


def test_nothing_run_is_nothing_shown(quick_cache: Path) -> None:
    """Kernels that serve none of the problems do not make a verification right."""
    odd = EdgeCase("odd", ConvProblem("fwd", "bf16", n=1, c=3, h=4, w=4, k=4, y=1, x=1), "ints")
    summary = run(quick_cache, cases=(odd,))
    assert (summary.right, summary.without_cases) == (2, 2)
    assert not summary.delivered


def test_processes_give_the_same_verdicts(quick_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers or none, the verdicts are equal."""
    task = Task(quick_cache, CASES[1:], "llvm", 1, seal=seal_of(quick_cache))
    alone = sorted(verify_groups(task, [(0,), (1,)], jobs=1), key=lambda v: str(v["code"]))
    monkeypatch.setattr(verify_module, "FEW_KERNELS", 0)
    shared = sorted(verify_groups(task, [(0,), (1,)], jobs=2), key=lambda v: str(v["code"]))
    assert alone == shared
    assert len(alone) == 2


def test_a_dying_worker_takes_one_kernel_with_it(quick_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadly kernel is an error that says how its process died; all others have their verdicts."""
    monkeypatch.setattr(verify_module, "FEW_KERNELS", 0)
    monkeypatch.setattr(verify_module, "_work", dying_work)
    task = Task(quick_cache, CASES, "llvm", 1, seal=seal_of(quick_cache))
    found = list(verify_groups(task, [(0,), *[(1,)] * 19], jobs=2))
    errors = [verdict for verdict in found if verdict["verdict"] == "error"]
    assert len(errors) == 1
    assert errors[0]["message"] == "worker died: SIGSEGV"
    assert len(found) == 20


@pytest.mark.parametrize("few", [0, 8])
def test_a_cache_that_is_replaced_ends_the_run(quick_cache: Path, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of entries mean nothing in another file: no verdict at all, and one error, here and in workers."""
    monkeypatch.setattr(verify_module, "FEW_KERNELS", few)
    with pytest.raises(DeliveryError, match="was replaced while it was verified"):
        list(verify_groups(Task(quick_cache, CASES, "llvm", 1, seal="00" * 32), [(0,), (1,)], jobs=1))


def seal_of(path: Path) -> str:
    return path.read_bytes()[-32:].hex()
