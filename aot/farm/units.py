"""The farm's unit: a pure function from a chunk of grid points and a toolchain to outcomes and code objects.

Everything it takes and gives is picklable and nothing outside of it is read or written, so any scheduler can run it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache

from aot.families import emit
from aot.farm.results import STAGES, Chunk, Claim, Compiled, Emission, Facts, Failure, UnitResult
from aot.kernels.source import KernelSource
from aot.toolchain import Engine, Toolchain, content_key, link, open_engine, read_code_object, symbol_of, with_symbol
from aot.toolchain.loader_contract import Expected, check_loader_contract
from aot.workers.child import MachineError
from cache_schema.identity import Identity

# What says nothing of a kernel: no memory, no file, no compiler at this moment.
_OF_THE_MACHINE = (MemoryError, OSError, MachineError)


def first_of_each_key() -> Claim:
    """A claim for a chunk on its own: every distinct content key is compiled once."""
    seen: set[bytes] = set()

    def claim(row: int, emission: Emission) -> bool:  # noqa: ARG001 - the protocol of claims
        new = emission.key not in seen
        seen.add(emission.key)
        return new

    return claim


def build_chunk(chunk: Chunk, claim: Claim | None = None) -> Iterator[tuple[int, UnitResult]]:
    """One (row, result) per row, in order. `claim` decides whether this call compiles a key or somebody else does."""
    claim = claim or first_of_each_key()
    for index, row in enumerate(chunk.rows):
        yield row, _build(chunk.toolchain, chunk.identities.row(index), row, claim)


def _build(toolchain: Toolchain, identity: Identity, row: int, claim: Claim) -> UnitResult:
    emission: Emission | None = None
    watch = _Stopwatch()
    try:
        source = emit(identity, toolchain.flavor)
        key = content_key(source, toolchain, identity.arch)
        emission = Emission(bytes.fromhex(key), source.arguments, source.block_size)
        watch.lap("emission")
        granted = claim(row, emission)
        watch.lap("claim")
        made = _compile(toolchain, identity.arch, source, key, watch) if granted else None
    except Exception as error:  # whatever went wrong, it is this kernel's outcome and not the build's end
        passing = isinstance(error, _OF_THE_MACHINE)
        return UnitResult(emission, Failure(watch.next_stage, one_line(error), passing), watch.seconds)
    return UnitResult(emission, made, watch.seconds)


def _compile(toolchain: Toolchain, arch: str, source: KernelSource, key: str, watch: _Stopwatch) -> Compiled:
    engine = _engine(toolchain, arch, source.codegen_options)
    before = (engine.timings.parse, engine.timings.passes)
    relocatable = engine.compile(with_symbol(source.ir, symbol_of(key)), source.passes)
    watch.lap("codegen")
    watch.move("codegen", "parse", engine.timings.parse - before[0])
    watch.move("codegen", "passes", engine.timings.passes - before[1])
    code = link(toolchain, relocatable)
    watch.lap("link")
    check_loader_contract(code, Expected(arch, symbol_of(key), source.arguments, source.block_size))
    facts = _facts(code)
    watch.lap("read")
    return Compiled(facts, code)


class _Stopwatch:
    """Seconds by stage of one kernel."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.next_stage = STAGES[0]
        self._started = time.perf_counter()

    def lap(self, stage: str) -> None:
        """What passed since the last lap was this stage."""
        now = time.perf_counter()
        self.seconds[stage] += now - self._started
        self._started = now
        self.next_stage = STAGES[min(STAGES.index(stage) + 1, len(STAGES) - 1)]

    def move(self, source: str, target: str, seconds: float) -> None:
        """Part of one stage was really another."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds


@lru_cache(maxsize=16)
def _engine(toolchain: Toolchain, arch: str, codegen_options: tuple[str, ...]) -> Engine:
    """One target machine per process and set of options: making one costs as much as a small kernel."""
    return open_engine(toolchain, arch, codegen_options)


def _facts(code: bytes) -> Facts:
    described = read_code_object(code)
    return Facts(
        lds_bytes=described.lds_bytes,
        vgprs=described.vgprs,
        agprs=described.agprs,
        sgprs=described.sgprs,
        scratch_bytes=described.scratch_bytes,
        vgpr_spills=described.vgpr_spills,
        sgpr_spills=described.sgpr_spills,
    )


def one_line(error: Exception) -> str:
    """An exception as a message that fits a ledger."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]
