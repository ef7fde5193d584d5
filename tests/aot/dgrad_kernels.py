"""Backward-data identities and compiled kernels for tests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from aot.families import emit
from aot.runtime.emulator_device import EmulatorDevice
from aot.runtime.float16 import quiet_nan
from aot.runtime.plan import make_plan
from aot.toolchain import Toolchain, content_key, find_toolchain, link, open_engine, symbol_of, with_symbol
from cache_schema.arguments import ArgumentList
from cache_schema.digest import identity_digest
from cache_schema.identity import schema_of
from cache_schema.problem import ConvProblem
from grids.families.stride1 import Stride1
from grids.families.tilde import Tilde
from grids.gemm.records import Dgrad


def dgrad(arch: str = "gfx950", dtype: str = "bf16", *, folded: bool = False, **fields: int | str | bool) -> Dgrad:
    """A backward-data identity: 32x32x32, two waves, widths of 4, K-outer where the policy says so."""
    usual: dict[str, int | str | bool] = {
        "tile_m": 32, "tile_n": 32, "tile_k": 32, "warp_m": 1, "warp_n": 2, "warp_tile_m": 16, "warp_tile_n": 16,
        "warp_tile_k": 32 if arch == "gfx950" else 16, "vector_size_a": 4, "vector_size_b": 4, "vector_size_c": 1,
        "uniform_k_decode": True,
    }  # fmt: skip
    usual["lds_k_outer"] = arch == "gfx950" and fields.get("vector_size_b", usual["vector_size_b"]) != 1
    record: type[Dgrad] = Stride1 if folded else Tilde
    return record(arch, dtype, dtype, dtype, **{**usual, **fields})  # type: ignore[arg-type]


def problem(dtype: str = "bf16", **fields: int) -> ConvProblem:
    """A backward-data problem: 1x1 at stride 1 without padding, unless said otherwise."""
    usual = {"n": 1, "c": 8, "h": 4, "w": 4, "k": 8, "y": 1, "x": 1}
    return ConvProblem("dgrad", dtype, **{**usual, **fields})


def unfolded(identity: Dgrad) -> Dgrad:
    """The kernel for any stride of the same configuration."""
    return Tilde(**{name: getattr(identity, name) for name in schema_of(identity).names})


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, as a cache would describe it."""

    identity: Dgrad
    digest: bytes
    symbol: str
    blob_digest: str
    block_size: int
    arguments: ArgumentList
    code: bytes

    def run(self, of: ConvProblem, dy: npt.NDArray[np.uint16], w: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
        """dX as bits, from a dX full of NaN; no fault may happen and no operand change."""
        plan = make_plan(self, of)
        arrays = {"dy": dy.copy(), "w": w.copy(), "dx": np.full(of.x_shape, quiet_nan(of.dtype), np.uint16)}
        execution = EmulatorDevice(1).execute(plan, arrays, lambda _digest: self.code)
        assert execution.faults == ()
        assert np.array_equal(arrays["dy"], dy)
        assert np.array_equal(arrays["w"], w)
        return arrays["dx"]


@lru_cache(maxsize=64)
def compiled(identity: Dgrad, toolchain: Toolchain | None = None) -> Kernel:
    """Compile one kernel with the default toolchain of this machine."""
    tools = toolchain or find_toolchain()
    source = emit(identity, tools.flavor)
    symbol = symbol_of(content_key(source, tools, identity.arch))
    engine = open_engine(tools, identity.arch, source.codegen_options)
    try:
        code = link(tools, engine.compile(with_symbol(source.ir, symbol), source.passes))
    finally:
        engine.close()
    return Kernel(
        identity,
        identity_digest(identity),
        symbol,
        hashlib.sha256(code).hexdigest(),
        source.block_size,
        source.arguments,
        code,
    )
