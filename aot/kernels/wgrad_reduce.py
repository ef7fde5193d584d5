"""Stage 2 of two-stage backward weights: folds the f32 replicas of a workspace into dW.

The workspace holds, per group, `ws_replicas` slabs of M x N results; dW holds one. A thread sums the replicas of one
result in order and rounds once. One launch covers all groups, however few results a group has.
"""

from __future__ import annotations

from aot.ir import module
from aot.ir.builder import Builder
from aot.ir.control import if_then
from aot.ir.types import ELEMENTS, F32, I64
from aot.kernels.source import KernelSource
from aot.kernels.wgrad_arguments import SLAB, reduce_arguments
from aot.kernels.wgrad_output import WORD_BYTES
from aot.kernels.wgrad_second_step import own_element, rendered, store_rounded
from grids.families.reduce import Reduce


def emit_reduce(identity: Reduce, flavor: str) -> KernelSource:
    """The kernel of one reduction; it depends on the type of dW and the number of replicas alone."""
    del flavor
    b, arguments = Builder(), reduce_arguments()
    args = module.KernelArguments(b, arguments)
    # Both pointers are loaded in front of the branch.
    ws, _ = args["ws"], args["dw"]
    slab = SLAB.of(args)
    element = own_element(b)

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
            total = b.fadd(total, value)
        store_rounded(b, ELEMENTS[identity.dtype_d], args, element, total)

    if_then(b, b.icmp("ult", element, args["p_elements"]), fold)
    return rendered(b, arguments)
