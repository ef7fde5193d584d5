"""Adds up the parts that stream-K workgroups leave (see `wgrad_stream_k`) and writes them to dW.

One thread per result. Results of output tiles that one workgroup finished are left alone.
"""

from __future__ import annotations

from aot.ir import module
from aot.ir.builder import Builder
from aot.ir.control import Loop, if_then
from aot.ir.types import ELEMENTS, F32, I64
from aot.ir.values import Value
from aot.kernels.source import KernelSource
from aot.kernels.wgrad_arguments import FIX_M, FIX_N, FIX_SHARE, fix_up_arguments
from aot.kernels.wgrad_output import WORD_BYTES
from aot.kernels.wgrad_second_step import own_element, rendered, store_rounded
from cache_schema.identity import Identity
from grids.stream_k import PARTS


def emit_fix_up(identity: Identity, flavor: str) -> KernelSource:
    """The kernel of one fix-up; it depends on the type of dW alone."""
    del flavor
    b, arguments = Builder(), fix_up_arguments()
    args = module.KernelArguments(b, arguments)
    element = own_element(b)
    by_share = FIX_SHARE.of(args)
    shifts = args["tile_m_shift"], args["tile_n_shift"]

    def part(place: Value, inside: Value) -> Value:
        """One number of the part at a place."""
        tile = b.shl(b.zext(place, I64), b.zext(b.add(*shifts), I64))
        offset = b.mul(b.add(tile, b.zext(inside, I64)), WORD_BYTES)
        return b.load(F32, b.offset_pointer(args["ws"], offset), WORD_BYTES)

    def add_up() -> None:
        row, n = FIX_N.of(args).divmod(b, element)
        group, m = FIX_M.of(args).divmod(b, row)
        tile_m, tile_n = b.lshr(m, shifts[0]), b.lshr(n, shifts[1])
        tile = b.add(b.mul(b.add(b.mul(group, args["sk_tiles_m"]), tile_m), args["sk_tiles_n"]), tile_n)
        first_k = b.mul(tile, args["k_tiles"])
        first = by_share.divmod(b, first_k)[0]
        last = by_share.divmod(b, b.add(first_k, b.sub(args["k_tiles"], 1)))[0]
        inside_m, inside_n = b.sub(m, b.shl(tile_m, shifts[0])), b.sub(n, b.shl(tile_n, shifts[1]))
        inside = b.add(b.shl(inside_m, shifts[1]), inside_n)

        def parts() -> None:
            begin = part(b.add(b.mul(first, PARTS), 1), inside)
            with Loop(b, [b.add(first, 1), begin], "parts") as loop:
                workgroup, total = loop.carried
                total = b.fadd(total, part(b.mul(workgroup, PARTS), inside))
                following = b.add(workgroup, 1)
                loop.repeat_if(b.icmp("sle", following, last), [following, total], [total])
            store_rounded(b, ELEMENTS[identity.dtype_d], args, element, loop.results[0])

        if_then(b, b.icmp("slt", first, last), parts)

    if_then(b, b.icmp("slt", element, args["p_elements"]), add_up)
    return rendered(b, arguments)
