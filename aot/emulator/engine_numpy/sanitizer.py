"""The sanitizer of the numpy engine: what is outstanding in a wave, and who touched LDS within a barrier interval.

Model. Vector memory instructions complete in order (vmcnt); LDS instructions complete in order (lgkmcnt); scalar
loads complete in any order, so only lgkmcnt(0) vouches for them; flat instructions wait in both. A register that an
outstanding instruction will write may be neither read nor written. An LDS access still outstanding at a barrier also
counts in the next interval. Two accesses of one interval by different waves to one byte, at least one a write, are a
race, except: atomics do not race with atomics, and writing again the bytes that are there does not race with the
write before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aot.emulator import faults
from aot.emulator.decode.instruction import Instruction
from aot.emulator.faults import FaultSignal, register_name

READ, WRITE, ATOMIC = 0, 1, 2


@dataclass
class LdsAccess:
    """One LDS instruction of one wave: byte addresses of the active lanes, each `size` bytes."""

    wave: int
    kind: int
    instruction: int
    addresses: npt.NDArray[np.int64]
    size: int
    silent: bool = False  # a write of the bytes that were there already


@dataclass
class DirectLoad:
    """A direct-to-LDS load in flight: where its bytes go, and the bytes."""

    addresses: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]


@dataclass
class Outstanding:
    """An entry of a wait queue."""

    instruction: Instruction
    accesses: list[LdsAccess]
    direct: DirectLoad | None

    @property
    def late_v(self) -> int:
        return self.instruction.decoded.writes_v if self.instruction.decoded.late else 0

    @property
    def late_s(self) -> int:
        return self.instruction.decoded.writes_s if self.instruction.decoded.late else 0


@dataclass
class WaitQueues:
    """The outstanding instructions of a wave."""

    vm: deque[Outstanding] = field(default_factory=deque)
    lgkm: deque[Outstanding] = field(default_factory=deque)
    smem: list[Outstanding] = field(default_factory=list)

    def all(self) -> list[Outstanding]:
        return [*self.vm, *self.lgkm, *self.smem]

    def check(self, instruction: Instruction) -> None:
        """No register in flight may be touched."""
        decoded = instruction.decoded
        touched_v, touched_s = decoded.reads_v | decoded.writes_v, decoded.reads_s | decoded.writes_s
        for entry in self.all():
            in_v, in_s = entry.late_v & touched_v, entry.late_s & touched_s
            if in_v or in_s:
                raise FaultSignal(
                    faults.IN_FLIGHT,
                    register=register_name(in_v, in_s),
                    detail=f"outstanding: {entry.instruction.text} at 0x{entry.instruction.pc:x}",
                )

    def wait(self, vm: int, lgkm: int) -> list[Outstanding]:
        """Complete entries; returns those whose bytes now land in LDS."""
        done: list[Outstanding] = []
        while vm >= 0 and len(self.vm) > vm:
            done.append(self.vm.popleft())
        while lgkm >= 0 and len(self.lgkm) > lgkm:
            self.lgkm.popleft()
        if lgkm == 0:
            self.smem.clear()
        return done


def find_race(log: list[LdsAccess], lds_bytes: int) -> FaultSignal | None:
    """The first race of an interval, by exact byte ownership."""
    writer = np.full(lds_bytes + 64, -1, np.int32)
    atomic = np.full(lds_bytes + 64, -1, np.int32)
    for kind, owner in ((WRITE, writer), (ATOMIC, atomic)):
        for access in log:
            if access.kind == kind:
                touched = (access.addresses[:, None] + np.arange(access.size)).ravel()
                clash = (writer[touched] >= 0) & (writer[touched] != access.wave)
                if clash.any() and not (access.silent and kind == WRITE):
                    return _race(access, touched[clash][0])
                owner[touched] = access.wave
    for access in log:
        if access.kind == READ:
            touched = (access.addresses[:, None] + np.arange(access.size)).ravel()
            for owner in (writer, atomic):
                clash = (owner[touched] >= 0) & (owner[touched] != access.wave)
                if clash.any():
                    return _race(access, touched[clash][0])
    return None


def _race(access: LdsAccess, address: int) -> FaultSignal:
    lane = int(np.flatnonzero((access.addresses <= address) & (address < access.addresses + access.size))[0])
    return FaultSignal(
        faults.LDS_RACE,
        lane=lane,
        address=int(address),
        instruction=access.instruction,
        detail=f"wave {access.wave} and another wave in one barrier interval",
    )
