"""The one way in."""

from __future__ import annotations

import time
from collections.abc import Sequence

from aot.emulator.engine_numpy import NumpyEngine
from aot.emulator.memory import Memory
from aot.emulator.report import Report, count_classes
from aot.emulator.setup import prepare
from cache_schema.errors import UnknownValueError

# Part of the evidence that a kernel was verified: raise it when any instruction changes its meaning.
EMULATOR_VERSION = "1"
ENGINES = ("llvm", "numpy")


def run(
    code: bytes,
    symbol: str,
    *,
    grid: Sequence[int],
    block: Sequence[int],
    dynamic_lds: int = 0,
    kernarg: bytes,
    memory: Memory,
    seed: int = 0,
    budget: int = 1 << 40,
    engine: str = "llvm",
    target: str | None = None,
) -> Report:
    """Run a kernel over a grid (in workgroups) on mapped buffers, which it changes in place.

    `kernarg` holds the explicit arguments; hidden ones are filled in. `budget` bounds the wave-instructions of the whole
    run. Faults of the program are in the report, which ends at the first one. Raises `CodeObjectError` (foreign or damaged
    bytes), `LaunchError` (parameters that do not fit), `UnknownInstructionError`, `UnmodelledStateError`, `BudgetError`.
    """
    if engine not in ENGINES:
        raise UnknownValueError("emulator engine", engine, ENGINES)
    start = time.perf_counter()
    launch = prepare(code, symbol, grid=grid, block=block, dynamic_lds=dynamic_lds, kernarg=kernarg, memory=memory, target=target)
    prepared = time.perf_counter()
    result = NumpyEngine(launch, seed, budget).run()
    done = time.perf_counter()
    instructions = launch.program.instructions
    return Report(
        kernel=symbol, engine=engine, instructions=count_classes(instructions, result.times),
        faults=() if result.fault is None else (result.fault,), seconds=done - prepared, prepare_seconds=prepared - start,
        executed={instructions[index].pc: number for index, number in result.times.items() if number},
    )
