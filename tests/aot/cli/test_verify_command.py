"""The command verify, and what inspect tells of its evidence, run as a person runs them."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aot.cli.main import run
from aot.toolchain import Toolchain
from aot.verification.evidence_format import Contents, Writing
from aot.verification.evidence_reading import read_evidence
from cache_schema.label import encode
from tests.aot.hazards.faulty_cache import without_first_wait
from tests.aot.samples import LIAR, QUICK, SHUFFLED

PROBLEM = "n=1 c=8 h=4 w=4 k=4 y=2 x=2"
FILE = """
problems:
  - {id: fine, direction: fwd, dtype: bf16, n: 1, c: 8, h: 4, w: 4, k: 4, y: 2, x: 2, inputs: ints}
  - {id: refused, direction: fwd, dtype: bf16, n: 1, c: 8, h: 4, w: 4, k: 4, y: 0, x: 2, expect: rejected-with-reason}
  - {id: other, direction: dgrad, dtype: bf16, n: 1, c: 8, h: 4, w: 4, k: 4, y: 2, x: 2}
"""


@pytest.fixture
def own_cache(quick_cache: Path, tmp_path: Path) -> Path:
    """A copy in a folder of its own, so that evidence beside it is seen by one test only."""
    return Path(shutil.copy(quick_cache, tmp_path / "own.rocke"))


def test_one_problem(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both kernels get the problem right; a single problem leaves no evidence."""
    assert run(["verify", str(own_cache), "--problem", PROBLEM, "--jobs", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["right"], answer["wrong"], answer["runs"], answer["delivered"]) == (2, 0, 2, True)
    assert answer["evidence"] is None
    assert list(own_cache.parent.iterdir()) == [own_cache]


def test_evidence_is_shown(own_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of problems leaves evidence beside the cache, which inspect shows for the cache and for a kernel."""
    problems = tmp_path / "few.yaml"
    problems.write_text(FILE)
    assert run(["verify", str(own_cache), "--problems", str(problems), "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    for part in ("fine", "refused", "unserved (outside)", "own.rocke.few.evidence.jsonl"):
        assert part in shown
    assert run(["inspect", str(own_cache), "--json"]) == 0
    (proof,) = json.loads(capsys.readouterr().out)["evidence"]
    assert (proof["right"], proof["wrong"], proof["of_this_cache"]) == (2, 0, True)
    assert run(["inspect", str(own_cache)]) == 0
    assert "few.evidence.jsonl" in capsys.readouterr().out
    assert run(["inspect", str(own_cache), "--identity", encode(SHUFFLED)]) == 0
    shown = capsys.readouterr().out
    assert "evidence in" in shown
    assert "inputs" in shown


def test_a_failure_names_its_reproducer(lying_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed command fails again on that kernel and problem alone, with exit code 1."""
    cache = Path(shutil.copy(lying_cache, tmp_path / "lying.rocke"))
    problem = PROBLEM.replace("c=8", "c=6")
    assert run(["verify", str(cache), "--problem", problem, "--inputs", "ints", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "NOT verified" in shown
    assert encode(LIAR) in shown
    (command,) = [line.strip() for line in shown.splitlines() if line.strip().startswith("rocke-aot verify")]
    words = shlex.split(command)[1:]
    assert "ints" in words
    assert run([*words, "--jobs", "1", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [failure["label"] for failure in answer["failures"]] == [encode(LIAR)]
    assert answer["entries"] == 1
    assert answer["failures"][0]["reproduce"] == command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "x"], "shard"),
        (["--shard", "3/2"], "'3/2' is not I/N"),
        (["--problems", "absent.yaml"], "absent.yaml"),
        (["--problems", "absent.yaml", "--problem", PROBLEM], "not both"),
        (["--identity", encode(QUICK) + ":unroll"], "no kernel"),
        (["--engine", "fpga"], "fpga"),
        (["--split-k", "4"], "--problem"),
        (["--check", "absent.jsonl", "--problem", PROBLEM], "--check"),
    ],
)
def test_bad_requests(own_cache: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    """One line and exit code 2."""
    assert run(["verify", str(own_cache), "--jobs", "1", *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["", "/", ".", "..", "/dev/null", "absent", "absent/", "x" * 300])
@pytest.mark.parametrize("command", ["verify", "inspect", "plan"])
def test_names_of_no_file(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing, folders, devices and names without a file: one line and exit code 2, whichever command it is."""
    assert run([command, name, *(["--problem", PROBLEM] if command == "plan" else [])]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\n", b"[]\n", b"null\n", b"{", b'{"case": 1}\n', b"1\n" * 3])
def test_files_that_are_no_evidence(own_cache: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    """Foreign or damaged evidence: one line that names the file, exit code 1."""
    file = own_cache.with_name("foreign.jsonl")
    file.write_bytes(content)
    assert run(["verify", str(own_cache), "--check", str(file)]) == 1
    captured = capsys.readouterr()
    assert str(file) in captured.err
    assert len(captured.err.splitlines()) == 1


def test_nothing_to_read_machine_code_with(
    own_cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a disassembler no kernel is called wrong: one line says what is missing, exit code 1."""
    monkeypatch.setattr(sys.modules["aot.toolchain.disassemble"], "DISTRIBUTION_MAJORS", ())
    assert run(["verify", str(own_cache), "--jobs", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no LLVM disassembler" in captured.err
    assert "apt-get install" in captured.err
    assert len(captured.err.splitlines()) == 1


def test_a_release_asks_for_evidence(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every kernel needs a right verdict over its edges; parts add up; what is missing is named."""
    parts: list[str] = []
    for identity in (QUICK, SHUFFLED):
        parts.append(str(own_cache.with_name(f"{encode(identity).count('x')}{len(parts)}.jsonl")))
        options = ["--identity", encode(identity), "--evidence", parts[-1], "--jobs", "1"]
        assert run(["verify", str(own_cache), *options]) == 0
    capsys.readouterr()
    assert run(["verify", str(own_cache), "--check", parts[0]]) == 1
    shown = capsys.readouterr().out
    assert "1 of 2 kernels" in shown
    assert f"{encode(SHUFFLED)}: no evidence" in shown
    complete = ["verify", str(own_cache), "--check", parts[0], "--check", parts[1], "--json"]
    assert run(complete) == 0
    assert json.loads(capsys.readouterr().out)["covered"] == 2
    sound = own_cache.read_bytes()
    own_cache.write_bytes(sound[:-100] + bytes([sound[-100] ^ 1]) + sound[-99:])
    assert run(complete) == 1
    assert "damaged" in capsys.readouterr().err
    own_cache.write_bytes(sound)
    old, contents = Path(parts[0]), read_evidence(Path(parts[0]))
    assert contents.head is not None
    older = replace(contents.conditions[0], emulator="older")
    text = Writing(Contents())
    head = text.head(contents.head)
    old.write_bytes(head + b"".join(text.verdict({**v, "conditions": older}) for v in contents.verdicts))
    assert run(["verify", str(own_cache), "--check", parts[0], "--check", parts[1]]) == 1
    assert "counts for nothing: emulator older" in capsys.readouterr().out
    assert run(["verify", str(own_cache), "--check", "absent.jsonl"]) == 2


def test_static_checks_run_nothing(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels without hazards pass, nothing is executed and no evidence is left; text and JSON say how fast it was."""
    assert run(["verify", str(own_cache), "--static", "--jobs", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["right"], answer["runs"], answer["static"], answer["delivered"]) == (2, 0, True, True)
    assert answer["kernels_per_second"] > 0
    assert list(own_cache.parent.iterdir()) == [own_cache]
    assert run(["verify", str(own_cache), "--static", "--jobs", "1"]) == 0
    assert "without hazards" in capsys.readouterr().out


def test_a_hazard_makes_a_kernel_wrong(
    tmp_path: Path, local_toolchain: Toolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that lacks a wait fails with rule and address: alone, and before it is run, in the evidence too."""
    cache = without_first_wait(tmp_path / "faulty.rocke", local_toolchain, [QUICK])
    assert run(["verify", str(cache), "--static", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "hazard: register in flight at 0x" in shown
    (command,) = [line.strip() for line in shown.splitlines() if line.strip().startswith("rocke-aot verify")]
    assert run([*shlex.split(command)[1:], "--jobs", "1"]) == 1
    capsys.readouterr()
    assert run(["verify", str(cache), "--jobs", "1", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (failure,) = answer["failures"]
    assert answer["runs"] == 0
    assert failure["hazards"][0]["rule"] == "register in flight"
    (verdict,) = read_evidence(Path(answer["evidence"])).verdicts
    assert verdict["hazards"] == failure["hazards"]


def test_static_checks_take_no_problem(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is run, so there is nothing to say about a problem."""
    assert run(["verify", str(own_cache), "--static", "--problem", PROBLEM]) == 2
    assert "--static runs nothing" in capsys.readouterr().err
