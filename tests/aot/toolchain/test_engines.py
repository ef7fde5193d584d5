"""The engines against each other and against bad input."""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from aot.toolchain import Engine, Toolchain, find_toolchain, open_engine
from aot.toolchain.errors import CodegenOptionError, CompileError
from tests.aot.toolchain.samples import Sample, samples

# LLVM's own CodeGenOptLevel and passes make the code; any set of options of the vocabulary has to agree over engines.
OPTION_SETS = [(), ("-disable-lsr",), ("-amdgpu-mfma-vgpr-form",), ("-disable-lsr", "-amdgpu-scalar-ir-passes=false")]
BUSY = Sample("busy", loads=4, loop=True, lds_bytes=16384)


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_engines_agree(arch: str, llvm22: Toolchain, llvmlite22: Toolchain) -> None:
    """libLLVM, llvmlite and a clang process give the same object bytes for every sample of one LLVM version."""
    reference = open_engine(llvm22, arch, kind="clang")
    others = [open_engine(llvm22, arch, kind="libllvm"), open_engine(llvmlite22, arch)]
    for sample in samples(arch)[:13]:
        expected = reference.compile(sample.ir())
        assert [engine.compile(sample.ir()) == expected for engine in others] == [True, True], sample


def test_engines_agree_on_the_full_pipeline(llvm22: Toolchain, llvmlite22: Toolchain) -> None:
    """With default<O3> in front of code generation the engines agree as well."""
    ir = BUSY.ir()
    engines = [open_engine(llvm22, "gfx950", kind=kind) for kind in ("clang", "libllvm")]
    engines.append(open_engine(llvmlite22, "gfx950"))
    results = {engine.compile(ir, "default<O3>") for engine in engines}
    assert len(results) == 1
    assert results != {engines[0].compile(ir)}


@pytest.mark.parametrize("name", ["llvm-22@libllvm", "llvmlite"])
def test_option_sets_switch(name: str, llvm22: Toolchain, llvmlite22: Toolchain) -> None:
    """Engines with different options alternate in one process; each keeps giving what clang gives with its options."""
    toolchain = llvmlite22 if name == "llvmlite" else llvm22
    ir = BUSY.ir()
    expected = [open_engine(llvm22, "gfx950", options, "clang").compile(ir) for options in OPTION_SETS]
    assert len(set(expected)) == 3  # the last set adds nothing to this kernel, the others change it
    engines = [open_engine(toolchain, "gfx950", options) for options in OPTION_SETS]
    for _ in range(2):
        assert [engine.compile(ir) == code for engine, code in zip(engines, expected, strict=True)] == [True] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-no-such-option",), "unknown codegen option '-no-such-option'; known:"),
        (("-disable-lsr", "-disable-lsr=false"), "given twice"),
    ],
)
def test_bad_options(toolchain: Toolchain, options: tuple[str, ...], message: str) -> None:
    """An option that LLVM would silently ignore, or one given two values, is refused before it reaches LLVM."""
    with pytest.raises(CodegenOptionError, match=message):
        open_engine(toolchain, "gfx950", options)


def bad_ir() -> dict[str, tuple[str, str]]:
    """Wrong modules by what is wrong with them, and a part of LLVM's message."""
    good = BUSY.ir()
    return {
        "no IR": ("garbage", "expected top-level entity"),
        "wrong type": (good.replace("ret void", "ret i32 0"), "value doesn't match function result type"),
        "broken phi": (good.replace("[ 0, %entry ], ", ""), "PHINode should have one entry"),
        "too much LDS": (good.replace("[16384 x i8]", "[400000 x i8]"), r"local memory \(400000\) exceeds limit"),
        "foreign layout": ('target datalayout = "e-p:32:32"\n' + good, "data layout"),
    }


@pytest.mark.parametrize("name", ["llvm-22@libllvm", "llvm-22@clang", "llvmlite"])
def test_bad_ir(name: str, llvm22: Toolchain) -> None:
    """Wrong IR is a CompileError with LLVM's words, in process too, and the engine works on afterwards."""
    toolchain = find_toolchain(name)
    engine = open_engine(toolchain, "gfx950")
    expected = open_engine(llvm22, "gfx950").compile(BUSY.ir())
    for what, (ir, message) in bad_ir().items():
        if what == "foreign layout" and toolchain.engine == "clang":
            continue  # the driver overrides the layout
        with pytest.raises(CompileError, match=message):
            engine.compile(ir)
    if toolchain.llvm_major == 22:
        assert engine.compile(BUSY.ir()) == expected


def test_bad_pipeline(toolchain: Toolchain) -> None:
    """A pipeline that does not parse is an error with its text."""
    with pytest.raises(CompileError, match="no-such-pass"):
        open_engine(toolchain, "gfx950").compile(BUSY.ir(), "no-such-pass")


def test_memory_stays_flat(engine: Engine) -> None:
    """After 60 kernels and 60 failures, 60 more of each add no more than 4 MB to the process."""
    good, bad = BUSY.ir(), BUSY.ir().replace("ret void", "ret i32 0")

    def compile_some() -> int:
        for _ in range(60):
            engine.compile(good)
            with pytest.raises(CompileError):
                engine.compile(bad)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = compile_some()
    assert compile_some() - before < 4096


def test_timings(toolchain: Toolchain) -> None:
    """The stages are counted for successful kernels only."""
    engine = open_engine(toolchain, "gfx950")
    engine.compile(BUSY.ir())
    assert engine.timings.kernels == 1
    assert engine.timings.codegen > 0
    with pytest.raises(CompileError):
        engine.compile("garbage")
    assert engine.timings.kernels == 1


@pytest.mark.full
def test_llvm_20(tmp_path: Path) -> None:
    """In an environment of its own, llvmlite 0.45's LLVM 20 gives the bytes of a clang 20 (that of ziglang 0.15.1)."""
    python = tmp_path / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path)], check=True)
    packages = ["llvmlite==0.45.1", "ziglang==0.15.1", "msgpack", "numpy", "pyyaml", "zstandard", "pyelftools"]
    subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"PYTHONPATH": str(root), "ROCKE_AOT_LLVM": ""}
    script = "import tests.aot.toolchain.llvm20 as check; check.main()"
    result = subprocess.run([str(python), "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["flavor"] == "llvm20"
    assert report["different"] == []
    assert report["compared"] >= 20
