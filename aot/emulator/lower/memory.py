"""Addresses of memory instructions, stated once; the machines do the accesses."""

from __future__ import annotations

from aot.emulator import faults
from aot.emulator.decode.form import Form
from aot.emulator.isa.memory import MemorySpec
from aot.emulator.isa.values import Value, pack64
from aot.emulator.lower.machine import Machine
from aot.emulator.state import layout


def lower_memory(m: Machine, form: Form, spec: MemorySpec) -> None:
    if spec.space == "lds":
        _lds(m, form, spec)
    elif spec.space == "buffer":
        _buffer(m, form, spec)
    else:
        _flat(m, form, spec)


def _lds(m: Machine, form: Form, spec: MemorySpec) -> None:
    mask = m.exec_mask()
    offset = len(form.kinds)
    if spec.action in ("load", "load_transposed"):
        base = m.vector(1)
        if spec.action == "load_transposed":
            # Lanes exchange what they read; what a lane that is masked off contributes is not documented.
            m.refuse(m.cell64(layout.EXEC).ne(-1), faults.PARTIAL_EXEC)
            m.transposed(spec, base + m.number(offset), mask, slot=0)
        else:
            m.access(spec, "lds", base + m.number(offset), mask, slot=0)
            if spec.pair:
                m.access(spec, "lds", base + m.number(offset + 1), mask, slot=0, first_dword=spec.dwords)
    elif spec.action == "store":
        base = m.vector(0)
        m.access(spec, "lds", base + m.number(offset), mask, slot=1)
        if spec.pair:
            m.access(spec, "lds", base + m.number(offset + 1), mask, slot=2)
    else:
        returns = form.get("returns")
        first = 1 if returns else 0
        m.atomic(spec, "lds", m.vector(first) + m.number(offset), mask, data=first + 1, result=0 if returns else -1)
    m.issued("lgkm")


def _buffer(m: Machine, form: Form, spec: MemorySpec) -> None:
    """Raw buffers: the offset that is range checked is VGPR offset + instruction offset, which must not pass 32 bits;
    the scalar offset moves the address and, as a run is told, lowers the limit."""
    mask = m.exec_mask()
    to_lds = form.get("lds")
    data = 0 if to_lds else 1
    address, resource, scalar = data, data + 1, data + 2
    offset = m.number(len(form.kinds)).to("u64")
    if form.get("offen"):
        offset = m.vector(address).to("u64") + offset
    offset = m.ops.splat(offset)
    soffset = m.scalar(scalar)
    if to_lds:
        m.access_buffer(spec, resource, soffset, offset, mask, slot=-1)
    elif spec.action == "atomic":
        m.access_buffer(spec, resource, soffset, offset, mask, slot=0)
    else:
        m.access_buffer(spec, resource, soffset, offset, mask, slot=0)
    m.issued("vm")


def _signed_number(m: Machine, slot: int) -> Value:
    return m.number(slot).cast("i32").to("i64").cast("u64")


def _flat(m: Machine, form: Form, spec: MemorySpec) -> None:
    mask = m.exec_mask()
    kinds = form.kinds
    address, base, offset = len(kinds) - 2, len(kinds) - 1, len(kinds)
    if spec.space == "scratch":
        where = m.number(offset)
        if kinds[base] != "0":
            where = where + m.scalar(base)
        if kinds[address] != "0":
            where = m.vector(address) + where
        m.access(spec, "scratch", m.ops.splat(where), mask, slot=0)
        m.issued("vm")
        return
    if kinds[base] != "0":
        where = m.scalar64(base) + m.vector(address).to("u64")
    else:
        where = pack64(m.vector(address, 0), m.vector(address, 1))
    where = where + _signed_number(m, offset)
    space = "flat" if spec.space == "flat" else "global"
    if spec.action == "load_lds":
        m.load_to_lds(spec, where, mask, m.cell(layout.M0) + m.number(offset))
    elif spec.action == "atomic":
        returns = form.get("returns")
        m.atomic(spec, space, where, mask, data=1 if returns else 0, result=0 if returns else -1)
    else:
        m.access(spec, space, where, mask, slot=0)
    m.issued("flat" if space == "flat" else "vm")


def lower_scalar_memory(m: Machine, form: Form, spec: MemorySpec) -> None:
    offset = _signed_number(m, len(form.kinds))
    if form.get("sgpr"):
        offset = offset + m.scalar(2).to("u64")
    base = m.scalar64(1)
    if spec.space == "scalar_buffer":
        # With a stride the limit counts in it.
        m.refuse((m.scalar(1, 1) >> 16).ne(0), faults.BAD_RESOURCE)
        base = base & ((1 << 48) - 1)
        limit = m.scalar(1, 2)
        m.load_scalar(spec, base + (offset & ~3), base + limit.to("u64"))
    else:
        m.load_scalar(spec, (base + offset) & ~3, None)
    m.issued("smem")
