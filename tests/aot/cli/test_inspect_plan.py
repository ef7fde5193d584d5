"""The commands inspect and plan, run as a person runs them, over a small real cache."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from aot.cli.main import run
from aot.cli.problem_options import ProblemRequest
from aot.runtime.plan_data import Plan
from aot.runtime.problem_text import problem_text
from aot.toolchain import Toolchain, read_code_object
from cache_schema.digest import identity_digest
from cache_schema.errors import RequestError
from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from tests.aot.kernels.wgrad_machine import wgrad
from tests.aot.samples import QUICK, reduce_identity, rejected_identities, sample_identities
from tests.aot.small_cache import write_small_cache

LINE = "convbfp16 -n 8 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1"
FLAGS = ["--n", "8", "--c", "64", "--h", "56", "--w", "56", "--k", "64", "--y", "3", "--x", "3", "--pad", "1"]
LABEL = encode(sample_identities()[1])


def ask(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    """Run a command with --json; its exit code is 0."""
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def fails(capsys: pytest.CaptureFixture[str], code: int, *arguments: str | Path) -> str:
    """Run a command that ends with this code and one line; the line."""
    assert run([*map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("rocke-aot: error: ")
    return captured.err


def test_inspect_a_cache(small_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text and JSON say the same of the whole cache."""
    answer = ask(capsys, "inspect", small_cache)
    assert answer["entries"] == 5
    assert run(["inspect", str(small_cache)]) == 0
    shown = capsys.readouterr().out
    for part in ("gfx950", "F3_store_width", answer["seal"], "waves per SIMD", "toolchain.llvm", "vector_size_a"):
        assert part in shown
    assert max(map(len, shown.splitlines())) <= 160


def test_inspect_one_kernel(small_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Resources, arguments, loops and the disassembly of a kernel named by its label or its digest."""
    answer = ask(capsys, "inspect", small_cache, "--identity", LABEL, "--disasm")
    assert answer["label"] == LABEL
    assert answer["arguments"][0] == {"name": "A", "kind": "ptr", "offset": 0, "size": 8}
    assert any("v_mfma_f32_16x16x32_bf16" in line for line in answer["disassembly"])
    assert answer["loader_contract"] == []
    assert ask(capsys, "inspect", small_cache, "--identity", answer["digest"])["symbol"] == answer["symbol"]
    assert run(["inspect", str(small_cache), "--identity", answer["digest"][:10], "--disasm"]) == 0
    shown = capsys.readouterr().out
    assert "16x16x32_bf16" in shown
    assert "s_endpgm" in shown
    assert re.search(r"^ *loader contract +ok$", shown, re.MULTILINE)


def test_inspect_tells_of_steps(tmp_path: Path, local_toolchain: Toolchain, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel of two stages names the other one, which says that it is no answer by itself."""
    fields = {"tile_m": 16, "tile_n": 32, "warp_m": 1, "warp_n": 1}
    first, second = wgrad(split_k=2, two_stage=True, ws_replicas=8, **fields), reduce_identity("gfx950", "bf16", 8)
    cache = write_small_cache(tmp_path / "two.rocke", local_toolchain, [first, second])
    answers = [ask(capsys, "inspect", cache, "--identity", encode(identity)) for identity in (first, second)]
    told = [(answer["family"], answer["alone"], answer["steps"]) for answer in answers]
    assert told == [("two_stage", True, [encode(second)]), ("reduce", False, [])]
    for identity, words in ((first, encode(second)), (second, "a step of other kernels' plans")):
        assert run(["inspect", str(cache), "--identity", encode(identity)]) == 0
        assert words in capsys.readouterr().out


def test_inspect_shows_a_broken_contract(
    tmp_path: Path, local_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cache with a code object that no loader takes says which requirements are broken and who makes them."""
    linking = importlib.import_module("aot.toolchain.link")
    monkeypatch.setattr("aot.farm.units.link", lambda chosen, obj: _without_strtab(linking.link(chosen, obj)))
    monkeypatch.setattr("aot.farm.units.check_loader_contract", lambda *_: None)
    cache = write_small_cache(tmp_path / "old.rocke", local_toolchain, [QUICK])
    found = ask(capsys, "inspect", cache, "--identity", encode(QUICK))["loader_contract"]
    assert {"requirement": "section .strtab", "required_by": "clr", "found": "0 sections .strtab"} in found
    assert run(["inspect", str(cache), "--identity", encode(QUICK)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ *loader contract +violated$", shown, re.MULTILINE)
    for violation in found:
        assert f"  {violation['requirement']}: {violation['found']}; required by {violation['required_by']}: " in shown


def _without_strtab(code: bytes) -> bytes:
    names = code.rindex(b"\0.strtab\0")
    return code[:names] + b"\0.xtrtab\0" + code[names + 9 :]


def test_inspect_serving(small_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Candidates by any spelling of the problem, cut at the limit; the refused with their reasons on request."""
    by_line = ask(capsys, "inspect", small_cache, "--problem", LINE)
    assert by_line == ask(capsys, "inspect", small_cache, *FLAGS)
    assert by_line["serving"] == 5
    assert "refused" not in by_line
    odd = [*FLAGS[:2], "--c", "6", *FLAGS[4:]]
    answer = ask(capsys, "inspect", small_cache, *odd, "--why", "--limit", "1")
    assert (answer["serving"], len(answer["candidates"])) == (2, 1)
    assert [(r["reason"], r["entries"]) for r in answer["refused"]] == [("S_width_a", 3)]
    assert run(["inspect", str(small_cache), *odd, "--why", "--limit", "1"]) == 0
    shown = capsys.readouterr().out
    assert "2 of 5 entries" in shown
    assert "and 1 more" in shown
    assert "S_width_a" in shown


def test_inspect_why(small_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What became of a candidate: built, rejected with its reason, or never one; and whether it serves a problem."""
    built = ask(capsys, "inspect", small_cache, "--identity", LABEL, "--why")
    assert built["outcome"] == "built"
    rejected = encode(rejected_identities()[0])
    answer = ask(capsys, "inspect", small_cache, "--identity", rejected, "--why")
    assert (answer["outcome"], answer["reason"]) == ("rejected", "F3_store_width")
    assert answer["explanation"]
    unknown = ask(capsys, "inspect", small_cache, "--identity", LABEL + ":unroll", "--why")
    assert unknown["outcome"] == "unknown"
    serving = ask(capsys, "inspect", small_cache, "--identity", LABEL, "--problem", LINE)
    assert serving["serves"] is True
    odd = ask(capsys, "inspect", small_cache, "--identity", LABEL, "--why", *FLAGS[:2], "--c", "6", *FLAGS[4:])
    assert (odd["serves"], odd["serving_reason"]) == (False, "S_width_a")
    assert run(["inspect", str(small_cache), "--identity", rejected, "--why"]) == 0
    assert "F3_store_width" in capsys.readouterr().out


def test_inspect_refuses(small_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Contradicting options, absent kernels, missing and damaged files: one line each and the right exit code."""
    assert "--identity" in fails(capsys, 2, "inspect", small_cache, "--disasm")
    assert "--why" in fails(capsys, 2, "inspect", small_cache, "--why")
    rejected = encode(rejected_identities()[0])
    assert "--why" in fails(capsys, 2, "inspect", small_cache, "--identity", rejected)
    assert "missing" in fails(capsys, 2, "inspect", small_cache, "--n", "8")
    assert "not both" in fails(capsys, 2, "inspect", small_cache, "--problem", LINE, "--n", "8")
    fails(capsys, 2, "inspect", tmp_path / "absent.rocke")
    damaged = tmp_path / "damaged.rocke"
    damaged.write_bytes(small_cache.read_bytes()[:-100])
    fails(capsys, 1, "inspect", damaged)


def test_plan_json_is_a_plan(small_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed plan reads back as one; the extracted code object is the one it names and has its symbol."""
    answer = ask(capsys, "plan", small_cache, "--problem", LINE, "--identity", LABEL, "--extract", tmp_path / "out")
    plan = Plan.from_json(answer)
    (launch,) = plan.launches
    assert launch.identity == LABEL
    assert launch.identity_digest == identity_digest(sample_identities()[1]).hex()
    code = Path(answer["code_object_files"][launch.code_object]).read_bytes()
    assert hashlib.sha256(code).hexdigest() == launch.code_object
    assert read_code_object(code).symbol == launch.symbol
    assert plan.problem == ConvProblem("fwd", "bf16", n=8, c=64, h=56, w=56, k=64, y=3, x=3, pad_h=1, pad_w=1)


def test_plan_chooses_the_best_estimate(small_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --identity it is the first candidate that inspect lists."""
    first = ask(capsys, "inspect", small_cache, *FLAGS)["candidates"][0]["label"]
    assert ask(capsys, "plan", small_cache, *FLAGS)["steps"][0]["identity"] == first


def test_plan_text(small_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person sees grid, buffers and arguments, or that there is only a fill, or nothing to do."""
    assert run(["plan", str(small_cache), *FLAGS]) == 0
    shown = capsys.readouterr().out
    for part in ("workgroups", "address of x", "A_bytes", "output", "step 1: launch"):
        assert part in shown
    assert run(["plan", str(small_cache), "--problem", "n=2 c=32 h=0 w=5 k=32 y=2 x=2 pad=1"]) == 0
    assert "fill buffer y with bytes 0x00" in capsys.readouterr().out
    assert run(["plan", str(small_cache), "--problem", "n=0 c=32 h=4 w=5 k=32 y=2 x=2"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_plan_refuses(small_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unserved problems, absent kernels, a folder that cannot be made."""
    odd = [*FLAGS[:2], "--c", "6", *FLAGS[4:]]
    assert "S_width_a" in fails(capsys, 2, "plan", small_cache, *odd, "--identity", LABEL)
    assert "S_direction" in fails(capsys, 1, "plan", small_cache, *FLAGS, "--direction", "dgrad")
    fails(capsys, 2, "plan", small_cache)
    (tmp_path / "file").write_text("")
    assert "cannot write" in fails(capsys, 2, "plan", small_cache, *FLAGS, "--extract", tmp_path / "file" / "out")


@pytest.mark.parametrize(
    "problem",
    [
        ConvProblem("fwd", "bf16", n=8, c=64, h=56, w=56, k=64, y=3, x=3, pad_h=1, pad_w=1),
        ConvProblem("wgrad", "fp16", n=1, c=6, h=5, w=4, k=9, y=2, x=3, stride_h=2, pad_w=3, dilation_w=2, groups=3),
    ],
)
def test_problem_text_reads_back(problem: ConvProblem) -> None:
    """The short text of a problem, as reproducers print it, is read as the same problem."""
    assert ProblemRequest(problem_text(problem), None, {}).one("bf16", ["fwd"]) == problem


def test_problem_files_and_lines(tmp_path: Path) -> None:
    """A file gives its cases, --case one of them; a line for all directions gives the one that the cache has."""
    file = tmp_path / "problems.yaml"
    record = "n: 1, c: 8, h: 4, w: 4, k: 8, y: 1, x: 1, direction: fwd, dtype: bf16"
    file.write_text(f"problems:\n  - {{id: first, {record}}}\n  - {{id: second, {record}, stride: 2}}\n")
    assert len(ProblemRequest(str(file), None, {}).cases("bf16", ["fwd"])) == 2
    assert ProblemRequest(str(file), "second", {}).one("bf16", ["fwd"]).stride_h == 2
    with pytest.raises(RequestError, match="2 problems"):
        ProblemRequest(str(file), None, {}).one("bf16", ["fwd"])
    with pytest.raises(RequestError, match="no case 'third'"):
        ProblemRequest(str(file), "third", {}).one("bf16", ["fwd"])
    with pytest.raises(RequestError, match="--case"):
        ProblemRequest(LINE, "x", {}).one("bf16", ["fwd"])
    every = LINE.replace("-F 1", "-F 0")
    assert ProblemRequest(every, None, {}).one("bf16", ["wgrad"]).direction == "wgrad"
    assert len(ProblemRequest(every, None, {}).cases("bf16", ["wgrad", "dgrad"])) == 2
    with pytest.raises(RequestError):
        ProblemRequest("n=8 c", None, {}).one("bf16", ["fwd"])
