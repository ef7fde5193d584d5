"""Second steps of backward weights, judged by themselves: replicas, or stream-K parts, in f32 to dW in 16 bits.

| name | what it reaches |
|---|---|
| ragged | several groups, results that fill no whole workgroup, f32 values that round |
| exact | integers: only one result is right |
| planted-nan | specials in one replica of one result |
| smallest | one result |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aot.kernels.wgrad_arguments import reduce_values
from aot.runtime.bounds import tolerance
from aot.runtime.device import CodeProvider, Device
from aot.runtime.float16 import Bits, quiet_nan
from aot.runtime.plan_data import Buffer, Plan
from aot.runtime.plan_parts import KernelEntry, bind_launch
from aot.runtime.reference import Reference, tensor_shape
from aot.verification import stream_k_parts
from aot.verification.edge_case import EdgeCase
from aot.verification.run_case import CaseResult, judged
from cache_schema.identity import Identity
from cache_schema.problem import ConvProblem
from grids.geometry import reduce_grid

#: Integers of this size are multiples of one and their sums are exact in f32.
_LIMIT = 64


def reduce_cases(identity: Identity) -> Iterator[EdgeCase]:
    """Extents of dW; nothing else of the problem matters here."""
    base = ConvProblem("wgrad", identity.dtype_d, n=1, c=1, h=1, w=1, k=1, y=1, x=1)
    ragged = ConvProblem("wgrad", identity.dtype_d, n=1, c=15, h=3, w=3, k=21, y=3, x=1, groups=3)
    yield EdgeCase("ragged", ragged, "uniform", repeat=True)
    yield EdgeCase("exact", ragged, "ints")
    yield EdgeCase("planted-nan", ragged, "nan")
    yield EdgeCase("smallest", base, "uniform")


def run_reduce(
    case: EdgeCase, entry: KernelEntry, devices: tuple[Device, Device], code: CodeProvider, seed: int
) -> CaseResult:
    """Fold random replicas and compare."""
    identity, problem = entry.identity, case.problem
    dw_shape = tensor_shape(problem, "dw")
    elements = int(np.prod(dw_shape))
    addends = stream_k_parts.PER_TILE if identity.stream_k else identity.ws_replicas
    replicas = _replicas(case.inputs, (problem.groups, addends, elements // problem.groups), seed)
    workspace, values = replicas, reduce_values(problem)
    if identity.stream_k:
        workspace = stream_k_parts.scattered(replicas.swapaxes(0, 1).reshape(addends, elements), problem)
        values = stream_k_parts.values(identity, problem)
    plan = Plan(
        identity.arch,
        problem,
        (
            Buffer("ws", "input", "fp32", workspace.shape, workspace.nbytes),
            Buffer("dw", "output", problem.dtype, dw_shape, 2 * elements),
        ),
        (bind_launch(entry, reduce_grid(elements=elements), {"ws": "ws", "dw": "dw"}, values),),
    )
    runs: list[Bits] = []
    faults: list[str] = []
    instructions = 0
    for device in devices[: 2 if case.repeat else 1]:
        output = np.full(dw_shape, quiet_nan(problem.dtype), dtype=np.uint16)
        execution = device.execute(plan, {"ws": workspace.copy(), "dw": output}, code)
        runs.append(output)
        faults += execution.faults
        instructions += execution.instructions
    allowed = tolerance(_reference(replicas, dw_shape, case.inputs), problem.dtype)
    return judged(case, runs, allowed, faults, instructions, seed, deterministic=True)


def _replicas(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    generator = np.random.default_rng(seed)
    if kind == "ints":
        return generator.integers(-_LIMIT, _LIMIT + 1, shape).astype(np.float32)
    values = generator.uniform(-1, 1, shape).astype(np.float32)
    if kind == "nan":
        values[0, -1, 0], values[-1, 0, -1] = np.nan, np.inf
    return values


def _reference(
    workspace: np.ndarray[tuple[int, ...], np.dtype[np.float32]], shape: tuple[int, ...], kind: str
) -> Reference:
    reals = workspace.astype(np.float64)
    with np.errstate(invalid="ignore"):
        value, magnitude = reals.sum(axis=1).reshape(shape), np.abs(reals).sum(axis=1).reshape(shape)
    # f32 numbers up to one are multiples of 2^-149, which says nothing about the exactness of sums.
    return Reference(value, magnitude, workspace.shape[1], 0 if kind == "ints" else -149, np.zeros(shape, dtype=bool))
