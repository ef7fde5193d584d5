"""Which toolchain is found, in which order, and what is said if there is none."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from aot.toolchain import Toolchain, discover, file_digest, find_toolchain, open_engine
from aot.toolchain.doctor import doctor
from aot.toolchain.errors import ToolchainChoiceError, ToolchainMissingError, ToolchainVersionError
from aot.toolchain.toolchain import flavor_of
from cache_schema.errors import DeliveryError, RequestError


@pytest.fixture
def rocm(tmp_path: Path, llvm22: Toolchain) -> Path:
    """A ROCm-shaped folder whose LLVM is the distribution's."""
    prefix = tmp_path / "rocm" / "llvm"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    assert llvm22.libllvm is not None
    (prefix / "lib" / "libLLVM.so.22.1").symlink_to(llvm22.libllvm)
    (prefix / "bin" / "ld.lld").symlink_to(llvm22.linker[0])
    return prefix.parent


@pytest.fixture(autouse=True)
def without_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test here depends on the environment of who runs it."""
    monkeypatch.delenv(discover.ENV_CHOICE, raising=False)
    monkeypatch.delenv(discover.ENV_ROCM, raising=False)
    monkeypatch.setattr(discover, "ROCM_FOLDER", tmp_path / "no-rocm")


def test_rocm_is_preferred(rocm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROCM_PATH comes before the distribution, a plain ROCm folder as well, and the record says why."""
    monkeypatch.setenv(discover.ENV_ROCM, str(rocm))
    found = find_toolchain()
    assert (found.name, found.engine, found.chosen_because) == ("rocm", "libllvm", f"ROCM_PATH={rocm}")
    monkeypatch.delenv(discover.ENV_ROCM)
    monkeypatch.setattr(discover, "ROCM_FOLDER", rocm)
    assert find_toolchain().name == "rocm"


def test_broken_library_beside_a_clang(rocm: Path, llvm22: Toolchain) -> None:
    """Where libLLVM does not load, the clang of the same LLVM compiles, and the record says why."""
    library = rocm / "llvm" / "lib" / "libLLVM.so.22.1"
    library.unlink()
    library.write_bytes(b"\x7fELF but not really")
    (rocm / "llvm" / "bin" / "clang").symlink_to(str(llvm22.clang))
    found = find_toolchain(str(rocm))
    assert (found.engine, found.engines, found.llvm_version) == ("clang", ("clang",), llvm22.llvm_version)
    assert "cannot load" in found.chosen_because


def test_digest_is_of_bytes_alone(rocm: Path, llvm22: Toolchain) -> None:
    """The same compiler under another path has the same digest; another linker or library has another one."""
    elsewhere = find_toolchain(str(rocm))
    assert elsewhere.compiler_digest == llvm22.compiler_digest
    (rocm / "llvm" / "bin" / "ld.lld").unlink()
    assert find_toolchain(str(rocm)).compiler_digest != llvm22.compiler_digest
    assert find_toolchain("llvmlite").compiler_digest != llvm22.compiler_digest


def test_choice_by_name_engine_and_environment(monkeypatch: pytest.MonkeyPatch, llvm22: Toolchain) -> None:
    """A name wins over the environment, the environment over the search, and a suffix chooses the engine."""
    assert find_toolchain("llvm-22@clang").engine == "clang"
    monkeypatch.setenv(discover.ENV_CHOICE, "llvmlite")
    assert find_toolchain().name == "llvmlite"
    assert find_toolchain("llvm-22").compiler_digest == llvm22.compiler_digest


def test_choice_by_path(llvm22: Toolchain) -> None:
    """A libLLVM and a clang can be named by their files."""
    assert find_toolchain(str(llvm22.libllvm)).engines == ("libllvm",)
    by_clang = find_toolchain(str(llvm22.clang))
    assert (by_clang.engines, by_clang.llvm_version) == (("clang",), llvm22.llvm_version)


@pytest.mark.parametrize("name", ["nonsense", "llvm-7", "/no/such/folder", "llvmlite@clang", "llvm-22@llvmlite"])
def test_unusable_choice(name: str) -> None:
    """A choice that means nothing here is a wrong request, and the message repeats it."""
    with pytest.raises(ToolchainChoiceError, match=name.split("@")[0]) as caught:
        find_toolchain(name)
    assert isinstance(caught.value, RequestError)


def test_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any LLVM the error names the commands that get one."""
    monkeypatch.setattr(discover, "DISTRIBUTION_MAJORS", ())
    monkeypatch.setattr(discover, "has_llvmlite", lambda: False)
    with pytest.raises(ToolchainMissingError, match=r"apt-get install clang-22 .* pip install llvmlite") as caught:
        find_toolchain()
    assert isinstance(caught.value, DeliveryError)
    diagnosis = doctor()
    assert diagnosis.chosen is None
    assert not diagnosis.is_healthy
    assert str(caught.value) == diagnosis.problem


def test_flavors() -> None:
    """LLVM 20 speaks one flavor, 21 and 22 the other; anything else is refused by name."""
    assert [flavor_of(version) for version in ("20.1.8", "21.1.0", "22.1.8")] == ["llvm20", "llvm22", "llvm22"]
    for version in ("19.1.7", "23.0.0"):
        with pytest.raises(ToolchainVersionError, match=version):
            flavor_of(version)


def test_not_a_compiler(tmp_path: Path) -> None:
    """A file that only looks like a libLLVM is a missing toolchain, not a crash."""
    fake = tmp_path / "libLLVM.so.22.1"
    fake.write_bytes(b"\x7fELF but not really")
    with pytest.raises(ToolchainMissingError, match="cannot load"):
        find_toolchain(str(fake))


def test_a_compiler_that_hangs_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clang that never tells its version holds nothing up for long; asked for by name it is an error."""
    clang = tmp_path / "hanging/llvm/bin/clang"
    clang.parent.mkdir(parents=True)
    clang.write_text("#!/bin/sh\nsleep 600\n")
    clang.chmod(0o755)
    monkeypatch.setattr(discover, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setenv(discover.ENV_ROCM, str(tmp_path / "hanging"))
    assert find_toolchain().name != "rocm"
    with pytest.raises(ToolchainMissingError, match=r"clang took longer than 0.3 s"):
        find_toolchain(str(clang))


def test_workers_can_be_handed_a_toolchain(toolchain: Toolchain) -> None:
    """The record survives pickling, and an engine that it does not have is refused."""
    assert pickle.loads(pickle.dumps(toolchain)) == toolchain  # noqa: S301 - our own bytes
    with pytest.raises(ToolchainChoiceError, match="no engine 'abacus'"):
        open_engine(toolchain, "gfx950", kind="abacus")


def test_doctor_is_plain_data(toolchain: Toolchain) -> None:
    """The diagnosis of a machine that compiles is healthy, names every candidate's version and is JSON."""
    diagnosis = doctor()
    assert diagnosis.is_healthy
    assert diagnosis.chosen is not None
    assert diagnosis.chosen.compiler_digest == toolchain.compiler_digest
    assert json.loads(json.dumps(diagnosis.to_json()))["chosen"]["flavor"] == toolchain.flavor
    assert all(candidate.problem or candidate.llvm_version for candidate in diagnosis.candidates)
    assert all(tool.found or tool.command for tool in diagnosis.tools)


def test_remembered_digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A digest is remembered over processes until the file changes; a damaged or unwritable memory only costs time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tool = tmp_path / "tool"
    tool.write_bytes(b"one")
    first = file_digest.file_sha256(tool)
    assert str(tool) in file_digest.memory_path().read_text()
    tool.write_bytes(b"two")
    os.utime(tool, ns=(1, 1))
    assert file_digest.file_sha256(tool) != first
    tool.write_bytes(b"one")
    os.utime(tool, ns=(2, 2))
    assert file_digest.file_sha256(tool) == first
    file_digest.memory_path().write_text("{")
    os.utime(tool, ns=(3, 3))
    assert file_digest.file_sha256(tool) == first
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no-such-place")
    os.utime(tool, ns=(4, 4))
    assert file_digest.file_sha256(tool) == first
