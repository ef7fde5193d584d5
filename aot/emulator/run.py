"""The one way in."""

from __future__ import annotations

import time
from collections.abc import Sequence

from aot.emulator.engine_llvm.engine import LlvmEngine
from aot.emulator.engine_llvm.records import Records, build_records
from aot.emulator.engine_numpy.engine import NumpyEngine
from aot.emulator.launch import Launch, prepare
from aot.emulator.report import Report, Result
from aot.emulator.state.hardware_registers import DENORMALS_F16_F64, DENORMALS_F32
from aot.emulator.state.memory import Memory
from cache_schema.errors import UnknownValueError

# Part of the evidence that a kernel was verified: raise it when any instruction changes its meaning.
EMULATOR_VERSION = "2"
ENGINES = ("llvm", "numpy")
_ALL_DENORMALS = DENORMALS_F32 | DENORMALS_F16_F64


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
    scalar_counts: bool = True,
) -> Report:
    """Run a kernel over a grid (in workgroups) on mapped buffers, which it changes in place.

    `kernarg` holds the explicit arguments; hidden ones are filled in. `budget` bounds the wave-instructions of the
    whole run. `scalar_counts` says whether the range check of raw buffers counts the scalar offset, as hardware was
    seen to do, or leaves it out, as the ISA manual of CDNA4 has it. Faults of the program are in the report, which ends
    at the first one. Raises `CodeObjectError` (foreign or damaged bytes), `LaunchError` (parameters that do not fit),
    `UnknownInstructionError`, `UnmodelledStateError`, `BudgetError`.
    """
    if engine not in ENGINES:
        raise UnknownValueError("emulator engine", engine, ENGINES)
    start = time.perf_counter()
    launch = prepare(
        code, symbol, grid=grid, block=block, dynamic_lds=dynamic_lds, kernarg=kernarg, memory=memory, target=target
    )
    prepared = time.perf_counter()
    handler_seconds = 0.0
    if engine == "numpy":
        result: Result = NumpyEngine(launch, seed, budget, scalar_counts).run()
    else:
        records = _records(launch)
        handler_seconds = time.perf_counter() - prepared
        result = LlvmEngine(launch, records, seed, budget, scalar_counts).run()
    done = time.perf_counter()
    return Report(
        kernel=symbol,
        engine=engine,
        faults=() if result.fault is None else (result.fault,),
        seconds=done - prepared - handler_seconds,
        prepare_seconds=prepared - start,
        handler_seconds=handler_seconds,
        listing=launch.program.instructions,
        times=result.times,
    )


def _records(launch: Launch) -> Records:
    """The records of a program; handlers that need not look at MODE where it keeps all denormals throughout."""
    keeps_denormals = launch.mode & _ALL_DENORMALS == _ALL_DENORMALS and not launch.program.sets_mode
    return build_records(launch.program, keeps_denormals)
