"""Stage 2 of two-stage backward weights: folds the f32 replicas of a workspace into dW.

The workspace holds, per group, `ws_replicas` slabs of M x N results; dW holds one. A thread sums the replicas of one
result in order and rounds once. One launch covers all groups, however few results a group has.
"""

from __future__ import annotations

from aot.ir import module
from aot.ir.builder import Builder
from aot.ir.control import if_then
from aot.ir.intrinsics import workgroup_id, workitem_id_x
from aot.ir.lds import LdsPool
from aot.ir.types import ELEMENTS, F32, I16, I64
from aot.ir.values import Value
from aot.kernels.fragments import ELEM_BYTES
from aot.kernels.magic import Divisor
from aot.kernels.source import CODEGEN_OPTIONS, KernelSource
from aot.kernels.wgrad_arguments import reduce_arguments
from aot.kernels.wgrad_output import WORD_BYTES
from cache_schema.identity import Identity
from grids.geometry import REDUCE_THREADS


def emit_reduce(identity: Identity, flavor: str) -> KernelSource:
    """The kernel of one reduction; it depends on the type of dW and the number of replicas alone."""
    del flavor
    b, arguments = Builder(), reduce_arguments()
    args, pool = module.KernelArguments(b, arguments), LdsPool(0)
    ws, dw = args["ws"], args["dw"]
    slab = Divisor(args["p_slab"], args["slab_mult"], args["slab_shift"])
    element = b.add(b.mul(workgroup_id(b, "x"), REDUCE_THREADS), workitem_id_x(b, REDUCE_THREADS))

    def fold() -> None:
        group, inside = slab.divmod(b, element)
        first_slab = b.mul(b.zext(b.mul(group, identity.ws_replicas), I64), b.zext(slab.value, I64))
        start = b.mul(b.add(first_slab, b.zext(inside, I64)), WORD_BYTES)
        place = b.offset_pointer(ws, start)
        distance = b.mul(b.zext(slab.value, I64), WORD_BYTES)
        replicas = []
        for _ in range(identity.ws_replicas):
            replicas.append(b.load(F32, place, WORD_BYTES))
            place = b.offset_pointer(place, distance)
        total = replicas[0]
        for value in replicas[1:]:
            total = _sum(b, total, value)
        rounded = b.bitcast(b.fptrunc(total, ELEMENTS[identity.dtype_d]), I16)
        b.store(rounded, b.offset_pointer(dw, b.mul(b.zext(element, I64), ELEM_BYTES)), ELEM_BYTES)

    if_then(b, b.icmp("ult", element, args["p_elements"]), fold)
    return KernelSource(
        ir=module.render(
            b,
            pool,
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


def _sum(b: Builder, left: Value, right: Value) -> Value:
    return b.pure(F32, f"fadd {left}, {right.text}")
