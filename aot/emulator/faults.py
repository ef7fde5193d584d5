"""What the sanitizer finds: one record per wrong thing that the program did."""

from __future__ import annotations

from dataclasses import dataclass

# Kinds, in the numbering of the generated engine.
KINDS = (
    "none",
    "register in flight",
    "LDS race",
    "global access out of bounds",
    "LDS access out of bounds",
    "scratch access out of bounds",
    "LDS read never written",
    "LDS read in flight",
    "scratch read never written",
    "misaligned atomic",
    "unmodelled state",
    "in-flight LDS overwritten",
    "load of a bad buffer resource",
    "trap",
    "LDS access overtaken by a direct load",
    "conflicting stores",
    "lanes exchanged under a partial EXEC",
    "buffer offset beyond 32 bits",
    "misaligned direct-to-LDS load",
)
(
    NONE,
    IN_FLIGHT,
    LDS_RACE,
    GLOBAL_BOUNDS,
    LDS_BOUNDS,
    SCRATCH_BOUNDS,
    LDS_UNWRITTEN,
    LDS_IN_FLIGHT,
    SCRATCH_UNWRITTEN,
    MISALIGNED,
    UNMODELLED,
    LDS_OVERWRITTEN,
    BAD_RESOURCE,
    TRAP,
    LDS_OVERTAKEN,
    CONFLICTING_STORES,
    PARTIAL_EXEC,
    OFFSET_WRAPS,
    MISALIGNED_DIRECT,
) = range(len(KINDS))


@dataclass(frozen=True)
class Fault:
    """One fault: what, where in the code, and which lane, register or address."""

    kind: str
    kernel: str
    pc: int
    instruction: str
    workgroup: tuple[int, int, int]
    wave: int
    lane: int = -1
    address: int = -1
    register: str = ""
    detail: str = ""

    def __str__(self) -> str:
        parts = [
            f"{self.kind} in {self.kernel} at 0x{self.pc:x}: {self.instruction}",
            f"workgroup {self.workgroup}, wave {self.wave}",
        ]
        if self.lane >= 0:
            parts.append(f"lane {self.lane}")
        if self.address >= 0:
            parts.append(f"address 0x{self.address:x}")
        if self.register:
            parts.append(self.register)
        if self.detail:
            parts.append(self.detail)
        return "; ".join(parts)


class FaultSignal(Exception):  # noqa: N818 - control flow inside the numpy engine, never seen by callers
    """Stops the wave that did it."""

    def __init__(
        self, kind: int, lane: int = -1, address: int = -1, register: str = "", detail: str = "", instruction: int = -1
    ) -> None:
        super().__init__(KINDS[kind])
        self.kind, self.lane, self.address, self.register, self.detail = kind, lane, address, register, detail
        self.instruction = instruction


def register_name(vector_bits: int, scalar_bits: int) -> str:
    """The lowest register of a set, by its assembly name."""
    if vector_bits:
        index = (vector_bits & -vector_bits).bit_length() - 1
        return f"v{index}" if index < 256 else f"a{index - 256}"
    if scalar_bits:
        index = (scalar_bits & -scalar_bits).bit_length() - 1
        named = {106: "vcc_lo", 107: "vcc_hi", 124: "m0", 126: "exec_lo", 127: "exec_hi"}
        return named.get(index, f"s{index}")
    return ""
