"""What an instruction reads and writes, and what it is to the rules: its roles and its named sets of registers.

Everything comes from the emulator's decoding and tables; what those do not know cannot be checked, and is refused.
Equal instructions share one `Access`, whatever kernel they stand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.emulator.decode.form import Decoded, OperandUse
from aot.emulator.decode.instruction import Known
from aot.emulator.errors import UnknownInstructionError
from aot.emulator.isa.memory import MEMORY
from aot.hazards.bits import ALWAYS, EXEC, HARDWARE, HARDWARE_NAMES, M0, SCALAR, SCALARS, VCC, VECTORS, joined
from aot.hazards.matrix_passes import matrix_role

#: Units of the emulator's tables that are the vector ALU here.
_VALU_UNITS = frozenset({"valu", "packed", "packed_mov", "cmpx", "lane", "swap_lanes"})
#: The transcendental unit: results come a cycle later than those of other vector instructions (CDNA3 ISA 4.5).
_TRANSCENDENTAL = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")
_READ_LANE = frozenset({"v_readlane_b32", "v_readfirstlane_b32"})
#: Stores of more registers than these read the last of them after the next instructions were issued (CDNA3 ISA 4.5).
_NARROW_DWORDS = 2


@dataclass(frozen=True, slots=True)
class Access:
    """`reads`, `writes`: all registers; `sets`: those that a rule names; `states`: wait states that it counts for.

    `counter`: "vm", "lgkm" (in order), "smem" (lgkm, out of order), "flat" (both, out of order) or "".
    `late`: registers written when the memory system answers. `direct`: a load to LDS; `lds`: a wave's own access.
    """

    name: str
    text: str
    states: int
    reads: int
    writes: int
    roles: frozenset[str]
    sets: Mapping[str, int]
    counter: str
    late: int
    direct: bool
    lds: bool
    waits: tuple[int, int]


def access_of(known: Known) -> Access:
    """Read it off the decoded instruction. Raises UnknownInstructionError for an unknown hardware register."""
    decoded = known.decoded
    unit, name = decoded.form.unit, decoded.form.name
    reads, writes = joined(decoded.reads_v, decoded.reads_s), joined(decoded.writes_v, decoded.writes_s)
    counter = _counter(unit, name)
    late = writes if decoded.late or counter == "smem" else 0
    roles, sets = _roles(decoded, unit, name, reads, writes)
    states = decoded.number + 1 if name == "s_nop" else 1
    direct = unit == "memory" and bool(decoded.form.get("lds"))
    lds = counter == "lgkm" and unit == "memory"
    kept = {key: bits for key, bits in sets.items() if bits}
    return Access(name, known.text, states, reads, writes, roles, kept, counter, late, direct, lds, decoded.waits)


def _counter(unit: str, name: str) -> str:
    """Which counter of outstanding operations it raises."""
    if unit == "scalar_memory" or name in ("s_memtime", "s_memrealtime"):
        return "smem"
    if unit == "lane_exchange":
        return "lgkm"
    if unit == "memory":
        return {"lds": "lgkm", "flat": "flat"}.get(MEMORY[name].space, "vm")
    return ""


def _roles(decoded: Decoded, unit: str, name: str, reads: int, writes: int) -> tuple[frozenset[str], dict[str, int]]:
    sets = {"v_read": reads & VECTORS, "v_write": writes & VECTORS, "v_touch": (reads | writes) & VECTORS}
    # What EXEC does to a vector instruction is interlocked; the exceptions have rules of their own.
    sets |= {"s_read": reads & SCALARS & ~EXEC, "s_write": writes & SCALARS}
    sets |= {"exec": EXEC, "always": ALWAYS}
    if unit == "mfma":
        role = matrix_role(name)
        d, a, b, c = (_span(use) for use in decoded.uses)
        return frozenset({"matrix", "valu_matrix", role, role.rstrip("0123456789")}), {
            **sets, "d": d, "ab": a | b, "c": c,
        }  # fmt: skip
    if unit in _VALU_UNITS:
        return _valu(decoded, name, sets)
    if unit == "salu":
        return frozenset({"salu"}), sets
    if unit == "memory":
        kind = "lds" if MEMORY[name].space == "lds" else "vmem"
        return _memory(decoded, name, kind, sets)
    if unit == "lane_exchange":
        return frozenset({"lds", "memory", "vector"}), sets
    if name.startswith(("s_setreg", "s_getreg")):
        return frozenset({name[:8], "salu"}), sets | {"register": _hardware_register(decoded)}
    return frozenset({"control"}), sets


def _span(use: OperandUse) -> int:
    """Registers of one operand."""
    found = use.operand
    if found.kind not in "vs":
        return 0
    return ((1 << use.dwords) - 1) << found.number + (SCALAR if found.kind == "s" else 0)


def _valu(decoded: Decoded, name: str, sets: dict[str, int]) -> tuple[frozenset[str], dict[str, int]]:
    form = decoded.form
    roles = {"valu", "valu_matrix", "vector"}
    roles.add("transcendental" if name.startswith(_TRANSCENDENTAL) else "plain")
    if form.unit == "cmpx":
        roles.add("cmpx")
    if name.startswith("v_permlane"):
        roles.add("permlane")
    if form.get("dpp"):
        roles.add("dpp")
    if form.get("dst_sel", "DWORD") != "DWORD" or _writes_high_half(decoded):
        roles.add("shifted")
    if name.startswith("v_div_fmas"):
        roles.add("div_fmas")
        sets = sets | {"vcc": VCC}
    if name.startswith(("v_fma_f64", "v_fmac_f64")):
        roles.add("fma64")
    if name.startswith("v_dot"):
        roles.add("dot")
        accumulator = _span(decoded.uses[3] if len(decoded.uses) > 3 else decoded.uses[0])
        sets = sets | {"dot_ab": sets["v_read"] & ~accumulator}
    if name in _READ_LANE:
        roles |= {"read_lane", "cross_lane"}
    if name in ("v_readlane_b32", "v_writelane_b32"):
        roles |= {"lane_select", "cross_lane"}
        sets = sets | {"lane": _span(decoded.uses[2]) & SCALARS}
    return frozenset(roles), sets


def _writes_high_half(decoded: Decoded) -> bool:
    """VOP3 with the last op_sel bit: a 16-bit result goes to the upper half."""
    chosen = decoded.form.get("op_sel", ())
    return decoded.form.unit == "valu" and len(chosen) == len(decoded.uses) and bool(chosen[-1])


def _memory(decoded: Decoded, name: str, kind: str, sets: dict[str, int]) -> tuple[frozenset[str], dict[str, int]]:
    spec, uses, form = MEMORY[name], decoded.uses, decoded.form
    roles = {kind, "memory", "vector"}
    if form.get("lds"):
        roles.add("direct")
        sets = sets | {"m0": M0}
    if spec.action == "load_transposed":
        roles.add("transposed")
    if kind == "vmem" and spec.action in ("store", "atomic"):
        data = uses[1 if form.get("returns") and spec.space != "buffer" else 0]
        if data.dwords > _NARROW_DWORDS:
            by_register = spec.space == "buffer" and uses[-1].operand.kind == "s"
            roles.add("wide_store_sgpr" if by_register else "wide_store")
            sets = sets | {"data": _span(data)}
    return frozenset(roles), sets


def _hardware_register(decoded: Decoded) -> int:
    name = decoded.form.get("register")
    if name not in HARDWARE_NAMES:
        raise UnknownInstructionError("unknown hardware register", str(name))
    return 1 << HARDWARE + HARDWARE_NAMES.index(name)
