"""Dialects of LLVM IR text: what differs between the LLVM releases that a toolchain may bring.

A declaration is verified before LLVM upgrades old IR, so the right one has to be written. The data layout differs even
within a release and is left out of the text: the engine adds its compiler's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.types import I32, I64, Type
from cache_schema.errors import UnknownValueError


@dataclass(frozen=True, slots=True)
class Flavor:
    """One dialect. `rsrc_suffix` and `num_records` belong to make.buffer.rsrc."""

    rsrc_suffix: str
    num_records: Type
    #: Function attribute that gives the whole register file to ordinary registers.
    no_agprs: tuple[tuple[str, str], ...]


FLAVORS = {
    "llvm20": Flavor("p1", I32, (("amdgpu-no-agpr", ""),)),
    "llvm22": Flavor("p8.p1", I64, (("amdgpu-agpr-alloc", "0"),)),
}


def flavor(name: str) -> Flavor:
    """The flavor of this name; `UnknownValueError` otherwise."""
    try:
        return FLAVORS[name]
    except KeyError:
        raise UnknownValueError("IR flavor", name, FLAVORS) from None
