"""Second steps of backward weights, judged by themselves: replicas, or stream-K parts, in f32 to dW in 16 bits.

| name | what it reaches |
|---|---|
| ragged | several groups, results that fill no whole workgroup, f32 values that round |
| exact | integers: only one result is right |
| planted-nan | specials in one addend of one result |
| smallest | one result |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

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

Floats = npt.NDArray[np.float32]
Devices = tuple[Device, Device]


def second_step_cases(identity: Identity) -> Iterator[EdgeCase]:
    """Extents of dW; nothing else of the problem matters here."""
    base = ConvProblem("wgrad", identity.dtype_d, n=1, c=1, h=1, w=1, k=1, y=1, x=1)
    ragged = ConvProblem("wgrad", identity.dtype_d, n=1, c=15, h=3, w=3, k=21, y=3, x=1, groups=3)
    yield EdgeCase("ragged", ragged, "uniform", repeat=True)
    yield EdgeCase("exact", ragged, "ints")
    yield EdgeCase("planted-nan", ragged, "nan")
    yield EdgeCase("smallest", base, "uniform")


def run_reduce(case: EdgeCase, entry: KernelEntry, devices: Devices, code: CodeProvider, seed: int) -> CaseResult:
    """Fold random replicas and compare."""
    replicas = _addends(case, entry.identity.ws_replicas, seed)
    plan = _plan(entry, case.problem, replicas, reduce_values(case.problem))
    return _run(case, plan, (replicas, replicas), devices, code, seed)


def run_fix_up(case: EdgeCase, entry: KernelEntry, devices: Devices, code: CodeProvider, seed: int) -> CaseResult:
    """Add up random parts and compare; where they lie is what `stream_k_parts` makes up."""
    parts = _addends(case, stream_k_parts.PER_TILE, seed)
    by_part = parts.swapaxes(0, 1).reshape(stream_k_parts.PER_TILE, -1)
    workspace = stream_k_parts.scattered(by_part, case.problem)
    plan = _plan(entry, case.problem, workspace, stream_k_parts.values(case.problem))
    return _run(case, plan, (parts, workspace), devices, code, seed)


def _plan(entry: KernelEntry, problem: ConvProblem, workspace: Floats, values: dict[str, int]) -> Plan:
    shape = tensor_shape(problem, "dw")
    elements = int(np.prod(shape))
    buffers = (
        Buffer("ws", "input", "fp32", workspace.shape, workspace.nbytes),
        Buffer("dw", "output", problem.dtype, shape, 2 * elements),
    )
    launch = bind_launch(entry, reduce_grid(elements=elements), {"ws": "ws", "dw": "dw"}, values)
    return Plan(entry.identity.arch, problem, buffers, (launch,))


def _addends(case: EdgeCase, count: int, seed: int) -> Floats:
    """Random numbers, [group, addend, result]."""
    problem = case.problem
    shape = problem.groups, count, int(np.prod(tensor_shape(problem, "dw"))) // problem.groups
    generator = np.random.default_rng(seed)
    if case.inputs == "ints":
        return generator.integers(-_LIMIT, _LIMIT + 1, shape).astype(np.float32)
    values = generator.uniform(-1, 1, shape).astype(np.float32)
    if case.inputs == "nan":
        values[0, -1, 0], values[-1, 0, -1] = np.nan, np.inf
    return values


def _run(
    case: EdgeCase,
    plan: Plan,
    numbers: tuple[Floats, Floats],
    devices: Devices,
    code: CodeProvider,
    seed: int,
) -> CaseResult:
    """`numbers` are the addends, and the workspace that holds them."""
    (addends, workspace), problem = numbers, case.problem
    shape = tensor_shape(problem, "dw")
    runs: list[Bits] = []
    faults: list[str] = []
    instructions = 0
    for device in devices[: 2 if case.repeat else 1]:
        output = np.full(shape, quiet_nan(problem.dtype), dtype=np.uint16)
        execution = device.execute(plan, {"ws": workspace.copy(), "dw": output}, code)
        runs.append(output)
        faults += execution.faults
        instructions += execution.instructions
    allowed = tolerance(_reference(addends, shape, case.inputs), problem.dtype)
    return judged(case, runs, allowed, faults, instructions, seed, deterministic=True)


def _reference(addends: Floats, shape: tuple[int, ...], kind: str) -> Reference:
    reals = addends.astype(np.float64)
    with np.errstate(invalid="ignore"):
        value, magnitude = reals.sum(axis=1).reshape(shape), np.abs(reals).sum(axis=1).reshape(shape)
    # f32 numbers up to one are multiples of 2^-149, which says nothing about the exactness of sums.
    return Reference(value, magnitude, addends.shape[1], 0 if kind == "ints" else -149, np.zeros(shape, dtype=bool))
