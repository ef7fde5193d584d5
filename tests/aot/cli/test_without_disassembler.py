"""Where llvmlite's LLVM is the only one, what needs LLVM's disassembler says so, and how to get it."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from aot.cli.main import run
from cache_schema.cache_reader import Cache

COMMAND = "apt-get install clang-22 lld-22 llvm-22"
PROBLEM = "n=1 c=8 h=4 w=4 k=4 y=2 x=2"


@pytest.fixture(autouse=True)
def _only_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """No LLVM of a distribution."""
    # By name, since the package has a function of the module's name.
    for module in ("disassemble", "discover"):
        monkeypatch.setattr(import_module(f"aot.toolchain.{module}"), "DISTRIBUTION_MAJORS", ())
    monkeypatch.delenv("ROCKE_AOT_LLVM", raising=False)


def _error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line of a command that ends with exit code 1."""
    assert run([str(argument) for argument in arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    return line


def test_doctor_lists_the_disassembler(capsys: pytest.CaptureFixture[str]) -> None:
    """Such a machine is healthy, but for verify and loop statistics something is missing, with its command."""
    assert run(["doctor", "--toolchain", "llvmlite", "--json"]) == 0
    missing = json.loads(capsys.readouterr().out)["missing"]
    (entry,) = [line for line in missing if "disassembler" in line]
    assert "verify" in entry
    assert "hot-loop statistics" in entry
    assert entry.endswith(COMMAND)


def test_verify_is_one_clear_line(quick_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is executed and no evidence is written."""
    cache = Path(shutil.copy(quick_cache, tmp_path / "own.rocke"))
    line = _error(capsys, "verify", cache, "--problem", PROBLEM, "--jobs", "1")
    assert "disassembler" in line
    assert COMMAND in line
    assert list(tmp_path.iterdir()) == [cache]


def test_inspect_refuses_the_listing_alone(quick_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The listing is one line of error; the rest of a kernel is shown, with why its loops are unknown."""
    with Cache.open(quick_cache) as cache:
        digest = cache.entry(0).digest.hex()
    line = _error(capsys, "inspect", quick_cache, "--identity", digest, "--disasm")
    assert "disassembler" in line
    assert COMMAND in line
    assert run(["inspect", str(quick_cache), "--identity", digest]) == 0
    shown = capsys.readouterr().out
    assert "occupancy" in shown
    assert COMMAND in shown
