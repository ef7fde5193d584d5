"""The registry of kernel families: the one list of them, and how the rest of the project asks it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aot.families import (
    atomic,
    fix_up,
    implicit_gemm,
    merged,
    nonsplit,
    reduce,
    stream_k,
    stride1,
    tilde,
    two_stage,
)
from aot.family import KernelFamily, Offer
from aot.kernels.source import KernelSource
from aot.workers.setup import at_start
from cache_schema.errors import RequestError, UnknownValueError
from cache_schema.identity import Identity
from cache_schema.table import IdentityTable, RowIndex

FAMILIES: tuple[KernelFamily, ...] = (
    implicit_gemm.FAMILY,
    tilde.FAMILY,
    stride1.FAMILY,
    nonsplit.FAMILY,
    atomic.FAMILY,
    two_stage.FAMILY,
    merged.FAMILY,
    stream_k.FAMILY,
    reduce.FAMILY,
    fix_up.FAMILY,
)

_added: list[KernelFamily] = []


def all_families() -> tuple[KernelFamily, ...]:
    """`FAMILIES`, and what was added for a while."""
    return (*FAMILIES, *_added)


def add(family: KernelFamily) -> None:
    """One family more in this process."""
    _added.append(family)


@contextmanager
def added(family: KernelFamily, in_workers: str, folder: Path) -> Iterator[None]:
    """One family more until the block ends, here and in workers that are started inside of it.

    These call `in_workers`, a "module:function" that `add`s the family; `folder` is where they find the module.
    """
    with at_start(in_workers, folder):
        add(family)
        try:
            yield
        finally:
            _added.remove(family)


def known_family(name: str) -> KernelFamily:
    """The family of this name; `UnknownValueError` if there is none."""
    for family in all_families():
        if family.name == name:
            return family
    raise UnknownValueError("kernel family", name, (family.name for family in all_families()))


def family_of(identity: Identity) -> KernelFamily:
    """The family of a kernel; `UnknownValueError` for one that belongs to none."""
    return known_family(identity.family)


def offer_of(family: KernelFamily) -> Offer:
    """What a family does for problems; `RequestError` for one that does nothing by itself."""
    if not isinstance(family.role, Offer):
        raise RequestError(f"kernels of family {family.name} are steps of other kernels' plans")
    return family.role


def emit(identity: Identity, flavor: str) -> KernelSource:
    """Source of the kernel of this identity in this IR flavor; `UnknownValueError` for one of no family."""
    return family_of(identity).emit(identity, flavor)


def per_row(table: IdentityTable) -> Iterator[tuple[KernelFamily, RowIndex, IdentityTable]]:
    """Every family of a table with its rows, where they stand and as a table of their own.

    `UnknownValueError` for a kernel of a family that is not known here.
    """
    for schema, rows, part in table.parts():
        yield known_family(schema.family), rows, part
