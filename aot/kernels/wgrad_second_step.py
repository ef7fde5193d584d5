"""What the second steps of backward weights share: one thread per result of dW, rounded once from f32."""

from __future__ import annotations

from collections.abc import Mapping

from aot.ir import module
from aot.ir.builder import Builder
from aot.ir.intrinsics import workgroup_id, workitem_id_x
from aot.ir.lds import LdsPool
from aot.ir.types import I64, Type, integer_of
from aot.ir.values import Value
from aot.kernels.source import CODEGEN_OPTIONS, KernelSource
from cache_schema.arguments import ArgumentList
from grids.geometry import REDUCE_THREADS


def own_element(b: Builder) -> Value:
    """Number of this thread's result in dW, of all groups; may lie behind the last."""
    return b.add(b.mul(workgroup_id(b, "x"), REDUCE_THREADS), workitem_id_x(b, REDUCE_THREADS))


def store_rounded(b: Builder, out: Type, args: Mapping[str, Value], element: Value, total: Value) -> None:
    """Write a f32 sum to dW, rounded to its type."""
    rounded = b.bitcast(b.fptrunc(total, out), integer_of(out))
    b.store(rounded, b.offset_pointer(args["dw"], b.mul(b.zext(element, I64), out.bytes)), out.bytes)


def rendered(b: Builder, arguments: ArgumentList) -> KernelSource:
    """What has been built: a kernel without LDS that reads `ws` and writes `dw`."""
    return KernelSource(
        ir=module.render(
            b,
            LdsPool(0),
            arguments,
            threads=REDUCE_THREADS,
            workgroup_axes="x",
            pointer_tags={"ws": "readonly", "dw": "writeonly"},
            attributes={},
        ),
        arguments=arguments,
        block_size=REDUCE_THREADS,
        lds_bytes=0,
        codegen_options=CODEGEN_OPTIONS,
    )
