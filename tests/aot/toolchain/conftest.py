"""Toolchains and compiled samples, once per run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aot.toolchain import Engine, Toolchain, find_toolchain, link, open_engine
from aot.toolchain.discover import distribution_parts
from tests.aot.toolchain.samples import Sample, samples
from tests.needs import lacking


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """What this machine compiles with by default."""
    return find_toolchain()


@pytest.fixture(scope="session")
def engine(toolchain: Toolchain) -> Iterator[Engine]:
    """A warm gfx950 engine without options."""
    opened = open_engine(toolchain, "gfx950")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def objects(toolchain: Toolchain) -> dict[Sample, bytes]:
    """Every sample of both architectures, compiled."""
    compiled: dict[Sample, bytes] = {}
    for arch in ("gfx950", "gfx942"):
        compiler = open_engine(toolchain, arch)
        compiled |= {sample: compiler.compile(sample.ir()) for sample in samples(arch)}
        compiler.close()
    return compiled


@pytest.fixture(scope="session")
def code(toolchain: Toolchain, objects: dict[Sample, bytes]) -> dict[Sample, bytes]:
    """Every sample, linked."""
    return {sample: link(toolchain, obj) for sample, obj in objects.items()}


@pytest.fixture(scope="session")
def llvm22() -> Toolchain:
    """The distribution's LLVM 22, where all three engines can be compared."""
    if not distribution_parts(22).engines:
        lacking("the distribution's LLVM 22")
    return find_toolchain("llvm-22")


@pytest.fixture(scope="session")
def llvmlite22() -> Toolchain:
    """llvmlite's LLVM, where it is the 22 that the distribution's is compared with."""
    toolchain = find_toolchain("llvmlite")
    if toolchain.llvm_major != 22:
        lacking(f"the LLVM wanted in llvmlite, which has {toolchain.llvm_version}")
    return toolchain
