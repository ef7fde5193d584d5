"""Kernels that Triton compiled give numpy's results on the emulator, on both architectures, without a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot.toolchain.disassemble import disassemble
from tests.aot.emulator.triton import environment
from tests.aot.emulator.triton.launch import DATA, CompiledKernel, load, run
from tests.aot.emulator.triton.problems import Problem, problems, worst
from tests.aot.emulator.triton.variants import ARCHITECTURES, VARIANTS

COMMITTED = load(DATA)


def check(kernel: CompiledKernel, problem: Problem, *, engine: str) -> None:
    buffers = {name: array.copy() for name, array in problem.buffers.items()}
    report = run(kernel, buffers, problem.scalars, problem.grid, engine=engine)
    assert not report.faults, (str(kernel), problem.name, report.faults[:3])
    assert worst(problem, buffers) <= 1, (str(kernel), problem.name, worst(problem, buffers))
    for name, array in problem.buffers.items():
        if name != problem.output:
            assert buffers[name].tobytes() == array.tobytes(), f"{name} is an input"


def test_the_committed_kernels_are_complete_and_small() -> None:
    """Every committed variant is there for both architectures, within the size that a repository may carry."""
    names = {(kernel.arch, kernel.variant.name) for kernel in COMMITTED}
    assert names == {(arch, variant.name) for arch in ARCHITECTURES for variant in VARIANTS if variant.committed}
    assert max(len(kernel.code) for kernel in COMMITTED) < 25_000
    assert sum(len(kernel.code) for kernel in COMMITTED) < 400_000


def test_committed_kernels_load_to_lds() -> None:
    """Direct loads of 4 and of 16 bytes a lane are among what another toolchain made and the emulator is held to."""
    found = {
        (str(kernel), line.mnemonic)
        for kernel in COMMITTED
        for line in disassemble(None, kernel.code)
        if "load_lds" in line.mnemonic
    }
    assert ("gfx950-attention_fp16_64x32", "global_load_lds_dword") in found
    assert ("gfx950-gemm_bf16_64x64x64_direct", "global_load_lds_dwordx4") in found


@pytest.mark.parametrize("kernel", COMMITTED, ids=str)
def test_committed_kernels_compute_what_numpy_does(kernel: CompiledKernel) -> None:
    """GEMM, softmax, attention, convolution and atomics on ragged problems stay within the derived bound."""
    for problem in problems(kernel.variant):
        check(kernel, problem, engine="llvm")


@pytest.mark.parametrize("kernel", [k for k in COMMITTED if k.variant.kernel in ("softmax", "row_add")], ids=str)
def test_the_plain_engine_agrees(kernel: CompiledKernel) -> None:
    """The slow engine passes the same comparison on the small kernels."""
    check(kernel, next(problems(kernel.variant)), engine="numpy")


@pytest.mark.full
def test_every_variant_freshly_compiled(tmp_path: Path) -> None:
    """All variants, compiled now by Triton in its own environment, on more sizes."""
    environment.compile_kernels(tmp_path)
    kernels = load(tmp_path)
    assert len(kernels) == len(VARIANTS) * len(ARCHITECTURES)
    for kernel in kernels:
        for problem in problems(kernel.variant, full=True):
            check(kernel, problem, engine="llvm")
