"""AMDGPU intrinsics as functions on a builder."""

from __future__ import annotations

from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.flavor import Flavor
from aot.ir.types import BUFFER, F32, GLOBAL_PTR, I1, I16, I32, VOID, Type, integer_of, vector
from aot.ir.values import Value, constant

#: Word 3 of a raw buffer descriptor on gfx9: 32-bit data format.
RAW_BUFFER_WORD3 = 0x00027000
#: Always out of bounds: tensors are smaller than 2^31 bytes. Aligned, and adding an offset below 2^31 cannot wrap.
OUT_OF_BOUNDS = 0x80000000
#: Scheduling groups of sched.group.barrier.
SCHED_MFMA, SCHED_DS_READ = 0x008, 0x100

_PREFIX = "llvm.amdgcn."


def workitem_id_x(b: Builder, threads: int) -> Value:
    """Thread number in the workgroup."""
    b.declare(_PREFIX + "workitem.id.x", I32, "")
    return b.pure(I32, f"call noundef range(i32 0, {threads}) i32 @{_PREFIX}workitem.id.x()")


def workgroup_id(b: Builder, axis: str) -> Value:
    """Workgroup number along x, y or z."""
    b.declare(f"{_PREFIX}workgroup.id.{axis}", I32, "")
    return b.pure(I32, f"call noundef i32 @{_PREFIX}workgroup.id.{axis}()")


def lane_id(b: Builder) -> Value:
    """Number of this lane in its wave of 64, of which all lanes in front of it are counted."""
    for half in ("lo", "hi"):
        b.declare(f"{_PREFIX}mbcnt.{half}", I32, "i32, i32")
    low = b.pure(I32, f"call i32 @{_PREFIX}mbcnt.lo(i32 -1, i32 0)")
    return b.pure(I32, f"call range(i32 0, 64) i32 @{_PREFIX}mbcnt.hi(i32 -1, {low})")


def readfirstlane(b: Builder, value: Value) -> Value:
    """A value that the caller knows to be equal in all lanes, as a scalar."""
    if value.const is not None:
        return value
    b.declare(_PREFIX + "readfirstlane.i32", I32, "i32")
    return b.pure(I32, f"call i32 @{_PREFIX}readfirstlane.i32({value})")


def buffer_resource(b: Builder, flavor: Flavor, base: Value, num_bytes: Value) -> Value:
    """A raw buffer: loads past `num_bytes` give zero, stores past it are dropped. base: global pointer, bytes: i32.

    What is past it is said by the lane offset, whether or not scalar ones count too.
    """
    name = f"{_PREFIX}make.buffer.rsrc.{flavor.rsrc_suffix}"
    b.declare(name, BUFFER, f"{GLOBAL_PTR}, i16, {flavor.num_records}, i32")
    size = b.zext(num_bytes, flavor.num_records)
    return b.pure(BUFFER, f"call {BUFFER} @{name}({base}, i16 0, {size}, i32 {RAW_BUFFER_WORD3})")


def _memory_type(type_: Type) -> tuple[Type, str]:
    """The integer type that a buffer instruction moves for this type, and its mangling."""
    if type_.bytes <= 4:
        return integer_of(type_), f"i{8 * type_.bytes}"
    return vector(type_.bytes // 4, I32), f"v{type_.bytes // 4}i32"


def buffer_load(b: Builder, type_: Type, resource: Value, voffset: Value, soffset: Value) -> Value:
    """Load at byte voffset + soffset.

    Readings of the range check differ on whether soffset counts: where voffset is in range, both together have to be.
    """
    moved, suffix = _memory_type(type_)
    name = f"{_PREFIX}raw.ptr.buffer.load.{suffix}"
    b.declare(name, moved, "ptr addrspace(8), i32, i32, i32 immarg")
    return b.bitcast(b.effect(moved, f"call {moved} @{name}({resource}, {voffset}, {soffset}, i32 0)"), type_)


def buffer_store(b: Builder, value: Value, resource: Value, offset: Value) -> None:
    """Store at a byte of a buffer, given per lane.

    There is no scalar offset: readings of the range check differ on whether it counts, and behind a store of more than
    64 bits that has one LLVM (22) misses the wait state that gfx942 and gfx950 need before its data is overwritten.
    """
    moved, suffix = _memory_type(value.type)
    name = f"{_PREFIX}raw.ptr.buffer.store.{suffix}"
    b.declare(name, VOID, f"{moved}, ptr addrspace(8), i32, i32, i32 immarg")
    b.line(f"call void @{name}({b.bitcast(value, moved)}, {resource}, {offset}, i32 0, i32 0)")


def buffer_load_to_lds(
    b: Builder, resource: Value, lds: Value, num_bytes: int, voffset: Value, soffset: Value, tags: str = ""
) -> None:
    """Each lane moves `num_bytes` from its voffset + soffset to lds + lane * num_bytes; lds is uniform over the wave.

    Lanes out of bounds write zeros; as in `buffer_load`, soffset must not take others out of the buffer.
    """
    name = f"{_PREFIX}raw.ptr.buffer.load.lds"
    b.declare(name, VOID, "ptr addrspace(8), ptr addrspace(3), i32 immarg, i32, i32, i32 immarg, i32 immarg")
    b.line(
        f"call void @{name}({resource}, {lds}, i32 {num_bytes}, {voffset}, {soffset}, i32 0, i32 0)"
        f"{', ' + tags if tags else ''}"
    )


@dataclass(frozen=True, slots=True)
class Atom:
    """One matrix instruction: D (edge x edge, f32) += A (edge x k) * B (k x edge)."""

    edge: int
    k: int
    name: str
    operand: Type

    @property
    def accumulator(self) -> Type:
        """Accumulators of one lane."""
        return vector(self.edge * self.edge // 64, F32)


def atom(dtype: Type, edge: int, k: int) -> Atom:
    """The 16-bit matrix instruction of this shape: short ones are older and take bf16 as i16 (.1k)."""
    shape = f"{edge}x{edge}x{k}"
    short = edge * k == 256
    lanes = edge * k // 64
    kind = {"half": "f16", "bfloat": "bf16"}[dtype.text]
    if not short:
        return Atom(edge, k, f"mfma.f32.{shape}.{kind}", vector(lanes, dtype))
    if kind == "f16":
        return Atom(edge, k, f"mfma.f32.{shape}f16", vector(lanes, dtype))
    return Atom(edge, k, f"mfma.f32.{shape}bf16.1k", vector(lanes, I16))


def mfma(b: Builder, kind: Atom, left: Value, right: Value, accumulator: Value) -> Value:
    """accumulator + left * right."""
    b.declare(
        _PREFIX + kind.name,
        kind.accumulator,
        f"{kind.operand}, {kind.operand}, {kind.accumulator}, i32 immarg, i32 immarg, i32 immarg",
    )
    return b.pure(
        kind.accumulator,
        f"call {kind.accumulator} @{_PREFIX}{kind.name}({left}, {right}, {accumulator}, i32 0, i32 0, i32 0)",
    )


def keep_in_agprs(b: Builder, value: Value) -> Value:
    """The same value, defined in accumulation registers; emits no instruction.

    The phis of loops and joins then stay there too: else the accumulators of a full register file are copied.
    """
    return b.effect(value.type, f'call {value.type} asm "", "=a,0"({value})')


def opaque(b: Builder, value: Value) -> Value:
    """The same 32-bit lane value under a name that expressions in front of this point do not share; no instruction."""
    return b.effect(value.type, f'call {value.type} asm "", "=v,0"({value})')


def not_invariant(b: Builder, value: Value, registers: str = "s") -> Value:
    """The same value, but nothing that is computed from it is moved before this point; emits no instruction.

    `registers` it is kept in: `s` for scalars, `v` for what differs between lanes.
    """
    if value.const is not None:
        return value
    return b.effect(value.type, f'call {value.type} asm sideeffect "", "={registers},0"({value})')


def sched_group_barrier(b: Builder, mask: int, count: int, group: int = 0) -> None:
    """Ask the scheduler for `count` instructions of a class next."""
    b.declare(_PREFIX + "sched.group.barrier", VOID, "i32 immarg, i32 immarg, i32 immarg")
    b.line(f"call void @{_PREFIX}sched.group.barrier(i32 {mask}, i32 {count}, i32 {group})")


def sched_barrier(b: Builder) -> None:
    """Nothing is scheduled across this point."""
    b.declare(_PREFIX + "sched.barrier", VOID, "i32 immarg")
    b.line(f"call void @{_PREFIX}sched.barrier(i32 0)")


def set_priority(b: Builder, priority: int) -> None:
    """Issue priority of this wave, 0 to 3."""
    b.declare(_PREFIX + "s.setprio", VOID, "i16 immarg")
    b.line(f"call void @{_PREFIX}s.setprio(i16 {priority})")


def is_one(b: Builder, value: Value) -> Value:
    """A 0/1 word as a condition."""
    return constant(value.const, I1) if value.const is not None else b.icmp("ne", value, 0)
