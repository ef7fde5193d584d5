"""Launches a Triton code object on the emulator: arguments packed by the code object's own metadata."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aot import emulator
from aot.toolchain import code_object
from tests.aot.emulator.triton.variants import FLOAT_SCALARS, POINTERS, SCALARS, VARIANTS, Variant

DATA = Path(__file__).parent / "data"
BUDGET = 50_000_000


@dataclass(frozen=True)
class CompiledKernel:
    """A code object with the variant that it was compiled from and what its launch needs."""

    variant: Variant
    arch: str
    code: bytes
    symbol: str
    block: int
    dynamic_lds: int

    def __str__(self) -> str:
        return f"{self.arch}-{self.variant.name}"


def load(folder: Path) -> list[CompiledKernel]:
    """Every kernel that the index of a folder names."""
    variants = {variant.name: variant for variant in VARIANTS}
    index: dict[str, Any] = json.loads((folder / "kernels.json").read_text())
    return [
        CompiledKernel(
            variants[entry["variant"]],
            entry["arch"],
            (folder / entry["file"]).read_bytes(),
            entry["symbol"],
            entry["block"],
            entry["dynamic_lds"],
        )
        for entry in index["kernels"]
    ]


def pack(kernel: CompiledKernel, pointers: Mapping[str, int], scalars: Mapping[str, float]) -> bytes:
    """The kernarg segment. Arguments behind the declared ones are Triton's scratch pointers, which stay null."""
    described = code_object.read(kernel.code)
    names = (*POINTERS[kernel.variant.kernel], *SCALARS[kernel.variant.kernel])
    segment = bytearray(described.kernarg_bytes)
    for name, argument in zip(names, described.arguments, strict=False):
        if name in pointers:
            form, value = "<Q", pointers[name]
        elif name in FLOAT_SCALARS:
            form, value = "<f", scalars[name]  # type: ignore[assignment]
        else:
            form, value = "<i", int(scalars[name])
        assert argument.size == struct.calcsize(form), (name, argument)
        struct.pack_into(form, segment, argument.offset, value)
    return bytes(segment)


def run(
    kernel: CompiledKernel,
    buffers: Mapping[str, npt.NDArray[Any]],
    scalars: Mapping[str, float],
    grid: tuple[int, int],
    *,
    engine: str = "llvm",
    seed: int = 0,
    code: bytes | None = None,
    budget: int = BUDGET,
) -> emulator.Report:
    """Executes the kernel; the buffers are changed in place. `code` replaces the kernel's bytes, for mutants."""
    memory = emulator.Memory()
    views = {name: array.reshape(-1).view(np.uint8) for name, array in buffers.items()}
    addresses = {name: memory.add(name, view) for name, view in views.items()}
    return emulator.run(
        code if code is not None else kernel.code,
        kernel.symbol,
        grid=(*grid, 1),
        block=(kernel.block, 1, 1),
        dynamic_lds=kernel.dynamic_lds,
        kernarg=pack(kernel, addresses, scalars),
        memory=memory,
        seed=seed,
        budget=budget,
        engine=engine,
        target=kernel.arch,
    )
