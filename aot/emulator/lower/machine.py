"""What a lowering may ask of the machine: registers, state and memory of one wave, in terms of `Value`.

One implementation evaluates at once (`engine_numpy`), the other writes handlers (`engine_llvm`). `slot` is the
position of an operand (or, behind the operands, of a number) in the instruction; `dword` counts from the low end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from aot.emulator.decode.form import Form
from aot.emulator.isa.memory import MemorySpec
from aot.emulator.isa.mfma import MatrixSpec
from aot.emulator.isa.values import Ops, Value, pack64
from aot.emulator.state import layout


class Machine(ABC):
    """State of the wave that executes one instruction."""

    ops: Ops
    form: Form

    @abstractmethod
    def vector(self, slot: int, dword: int = 0) -> Value:
        """A vector register operand, u32 per lane."""

    @abstractmethod
    def scalar(self, slot: int, dword: int = 0) -> Value:
        """A scalar register or constant operand, u32."""

    @abstractmethod
    def set_vector(self, slot: int, dword: int, value: Value, mask: Value) -> None:
        """Write the lanes of the mask."""

    @abstractmethod
    def set_scalar(self, slot: int, dword: int, value: Value) -> None: ...

    @abstractmethod
    def number(self, slot: int) -> Value:
        """A number of the instruction, u32."""

    @abstractmethod
    def cell(self, index: int) -> Value:
        """A fixed scalar cell, u32."""

    @abstractmethod
    def set_cell(self, index: int, value: Value) -> None: ...

    @abstractmethod
    def scc(self) -> Value:
        """b1."""

    @abstractmethod
    def set_scc(self, value: Value) -> None: ...

    @abstractmethod
    def flushed(self, value: Value) -> Value:
        """A float operand or result with denormals as MODE has them; other types as they are."""

    @abstractmethod
    def pc(self) -> Value:
        """u64 address of the next instruction."""

    @abstractmethod
    def clock(self) -> Value:
        """u64 of no particular value that never falls."""

    @abstractmethod
    def refuse(self, condition: Value, kind: int) -> None:
        """Stop with a fault of a kind if the b1 is set."""

    # --- memory; `slot` of data operands; faults are raised or recorded by the machine ---
    @abstractmethod
    def access(
        self, spec: MemorySpec, space: str, address: Value, mask: Value, slot: int, first_dword: int = 0
    ) -> None:
        """Load into, or store from, the registers at `slot`. `address`: u64 device address (global), u32 offset (lds,
        scratch)."""

    @abstractmethod
    def access_buffer(
        self, spec: MemorySpec, resource: int, soffset: Value, offset: Value, mask: Value, slot: int
    ) -> None:
        """As `access` for a raw buffer: `offset` u64 per lane, range checked per dword against the resource at a
        slot."""

    @abstractmethod
    def atomic(self, spec: MemorySpec, space: str, address: Value, mask: Value, data: int, result: int) -> None:
        """Read-modify-write in lane order; `result` is the slot for the old values, or -1."""

    @abstractmethod
    def load_to_lds(self, spec: MemorySpec, address: Value, mask: Value, lds_base: Value) -> None:
        """Direct load: lane l writes its bytes (at least 4) at lds_base + l*bytes."""

    @abstractmethod
    def load_scalar(self, spec: MemorySpec, address: Value, limit: Value | None) -> None:
        """Scalar load into slot 0 from a u64 address; `limit` bounds a scalar buffer: dwords beyond it are zero."""

    @abstractmethod
    def issued(self, counter: str) -> None:
        """The instruction is outstanding in a wait counter: vm, lgkm, smem, flat."""

    @abstractmethod
    def transposed(self, spec: MemorySpec, address: Value, mask: Value, slot: int) -> None:
        """ds_read_*_tr: read 8 bytes per lane, transposed within groups of 16 lanes."""

    @abstractmethod
    def matrix(self, spec: MatrixSpec) -> None:
        """Slots 0..3 are D, A, B, C."""

    # --- derived ---
    def cell64(self, index: int) -> Value:
        return pack64(self.cell(index), self.cell(index + 1))

    def set_cell64(self, index: int, value: Value) -> None:
        bits = value.bits()
        self.set_cell(index, bits.to("u32"))
        self.set_cell(index + 1, (bits >> 32).to("u32"))

    def exec_mask(self) -> Value:
        """b1 vector of active lanes."""
        return self.ops.unballot(self.cell64(layout.EXEC))

    def scalar64(self, slot: int) -> Value:
        return pack64(self.scalar(slot, 0), self.scalar(slot, 1))

    def constant_mask(self, lanes: Sequence[bool]) -> Value:
        bits = sum(1 << lane for lane, on in enumerate(lanes) if on)
        return self.ops.unballot(self.ops.const(bits, "u64"))
