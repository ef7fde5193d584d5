"""Backward-weights kernels compiled in process and run on the emulator, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from aot.families import emit
from aot.runtime.bounds import Comparison, compare
from aot.runtime.emulator_device import EmulatorDevice
from aot.runtime.float16 import Bits, quiet_nan
from aot.runtime.inputs import make_inputs
from aot.runtime.plan import make_plan
from aot.runtime.plan_data import Plan
from aot.runtime.plan_options import PlanOptions
from aot.runtime.reference import reference
from aot.toolchain import content_key, find_toolchain, link, open_engine, symbol_of, with_symbol
from cache_schema.arguments import ArgumentList
from cache_schema.digest import identity_digest
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from grids.axes import load_axes
from grids.families import known_family
from grids.families.atomic import Atomic
from grids.families.merged import Merged
from grids.families.nonsplit import Nonsplit
from grids.families.stream_k import StreamK
from grids.families.two_stage import TwoStage
from grids.gemm.records import Wgrad
from grids.rules import evaluate
from grids.selection import spread
from grids.targets import target

#: Families whose kernels run problems by themselves.
LAUNCHED = ("nonsplit", "atomic", "two_stage", "merged", "stream_k")
_CODES: dict[str, bytes] = {}


@dataclass(frozen=True)
class BuiltKernel:
    """What a plan wants to know of a kernel."""

    identity: Identity
    digest: bytes
    symbol: str
    blob_digest: str
    block_size: int
    arguments: ArgumentList


@lru_cache(maxsize=1024)
def built(identity: Identity) -> BuiltKernel:
    """Compile a kernel, once per test run."""
    toolchain = find_toolchain()
    source = emit(identity, toolchain.flavor)
    symbol = symbol_of(content_key(source, toolchain, identity.arch))
    engine = open_engine(toolchain, identity.arch, source.codegen_options)
    code = link(toolchain, engine.compile(with_symbol(source.ir, symbol), source.passes))
    digest = hashlib.sha256(code).hexdigest()
    _CODES[digest] = code
    return BuiltKernel(identity, identity_digest(identity), symbol, digest, source.block_size, source.arguments)


def code_of(identity: Identity) -> bytes:
    """The code object of a kernel."""
    return _CODES[built(identity).blob_digest]


def code_by_digest(digest: str) -> bytes:
    """The code object of a kernel that was built."""
    return _CODES[digest]


def sample(arch: str, dtype: str, family: str, count: int) -> list[Any]:
    """Identities of a family, spread over all axes."""
    table = known_family(family).candidates(target(arch), dtype, load_axes()[family])
    table = spread(table.take(evaluate(table).buildable), count)
    return [table.row(index) for index in range(len(table))]


def wgrad(arch: str = "gfx950", dtype: str = "bf16", /, **fields: Any) -> Wgrad:
    """A backward-weights identity: 64x64x32, two by two waves, widths of 4, unless said otherwise.

    What a family fixes (`split_k`, `two_stage`, `stream_k`, `group_merge`) says which family it is of.
    """
    usual: dict[str, Any] = {
        "tile_m": 64, "tile_n": 64, "tile_k": 32, "warp_m": 2, "warp_n": 2, "warp_tile_m": 16, "warp_tile_n": 16,
        "warp_tile_k": 32 if arch == "gfx950" else 16, "vector_size_a": 4, "vector_size_b": 4, "vector_size_c": 1,
        "lds_k_outer": arch == "gfx950",
    }  # fmt: skip
    split, two_stage, stream_k = (fields.pop(name, None) for name in ("split_k", "two_stage", "stream_k"))
    record: type[Wgrad] = StreamK if stream_k else TwoStage if two_stage else Atomic if split else Nonsplit
    if "group_merge" in fields:
        record, usual = Merged, {name: usual[name] for name in usual if not name.startswith("vector_size")}
    return record(arch, dtype, dtype, dtype, **{**usual, **fields})


def problem(dtype: str = "bf16", /, **fields: int) -> ConvProblem:
    """A small 3x3 backward-weights problem, unless said otherwise."""
    usual = {"n": 2, "c": 16, "h": 9, "w": 7, "k": 24, "y": 3, "x": 3}
    return ConvProblem("wgrad", dtype, **{**usual, **fields})


@dataclass(frozen=True)
class Run:
    """A result, what it is worth, and how it came about."""

    output: Bits
    verdict: Comparison
    plan: Plan
    faults: Sequence[str]

    @property
    def right(self) -> bool:
        """Whether the numbers are right and the emulator saw nothing forbidden."""
        return self.verdict.right and not self.faults


def run(
    identity: Identity,
    at: ConvProblem,
    *,
    inputs: str = "uniform",
    seed: int = 0,
    order: int = 0,
    split_k: int = -1,
    workgroups: int | None = None,
) -> Run:
    """Plan, run from a poisoned dW and workspace, compare. `order` decides how workgroups and waves interleave."""
    plan = make_plan(built(identity), at, PlanOptions(split_k, workgroups=workgroups, helper=built))
    first, second, result = plan.buffers[:3]
    a, b = make_inputs(at, inputs, seed)
    output = np.full(result.shape, quiet_nan(at.dtype), dtype=np.uint16)
    arrays = {first.name: a, second.name: b, result.name: output}
    execution = EmulatorDevice(order).execute(plan, arrays, _CODES.__getitem__)
    verdict = compare(output, reference(at, a, b), at.dtype, plan.partial_sums, plan.rounded_sums)
    return Run(output, verdict, plan, execution.faults)
