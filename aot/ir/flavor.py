"""Dialects of LLVM IR text: what differs between the LLVM releases that a toolchain may bring.

A declaration is verified before LLVM upgrades old IR, so the right one has to be written.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.types import I32, I64, Type
from cache_schema.errors import UnknownValueError

TRIPLE = "amdgcn-amd-amdhsa"


@dataclass(frozen=True, slots=True)
class Flavor:
    """One dialect. `buffer_layout` is the p8 entry of the data layout, `rsrc_suffix` the mangling of make.buffer.rsrc."""

    name: str
    buffer_layout: str
    rsrc_suffix: str
    num_records: Type
    #: Function attribute that gives the whole register file to ordinary registers.
    no_agprs: tuple[tuple[str, str], ...]

    @property
    def data_layout(self) -> str:
        """The data layout string, the same for every GPU of the triple."""
        return (
            "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-"
            f"{self.buffer_layout}-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-"
            "v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
        )


FLAVORS = {
    "llvm20": Flavor("llvm20", "p8:128:128", "p1", I32, (("amdgpu-no-agpr", ""),)),
    "llvm22": Flavor("llvm22", "p8:128:128:128:48", "p8.p1", I64, (("amdgpu-agpr-alloc", "0"),)),
}


def flavor(name: str) -> Flavor:
    """The flavor of this name; `UnknownValueError` otherwise."""
    try:
        return FLAVORS[name]
    except KeyError:
        raise UnknownValueError("IR flavor", name, FLAVORS) from None
