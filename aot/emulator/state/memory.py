"""Device memory: named host buffers at 64-bit device addresses with gaps that no wild pointer crosses by accident.

Every buffer has a window of 2^36 bytes of its own and starts 2^20 bytes into it, so an address names its buffer by its
upper bits and anything before, behind or far from a buffer is recognised as out of bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aot.emulator.errors import LaunchError

WINDOW_BITS = 36
LEAD = 1 << 20
MAX_BUFFERS = 1023
# High halves of the flat apertures, which lie behind the last window.
SHARED_APERTURE, PRIVATE_APERTURE = 0x00020000, 0x00030000


@dataclass(frozen=True)
class Buffer:
    """One mapped buffer; `bytes` is a view of the owner's array."""

    name: str
    address: int
    bytes: npt.NDArray[np.uint8]


class Memory:
    """Named buffers. The arrays stay the caller's: a store of the kernel is seen in them at once."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def add(self, name: str, array: npt.NDArray[Any]) -> int:
        """Map an array (C-contiguous, writable) and return its device address."""
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise LaunchError(f"buffer {name!r} must be a writable C-contiguous array")
        if any(buffer.name == name for buffer in self.buffers):
            raise LaunchError(f"buffer {name!r} is mapped already")
        if len(self.buffers) >= MAX_BUFFERS or array.nbytes >= 1 << (WINDOW_BITS - 1):
            raise LaunchError(f"buffer {name!r}: too many or too large buffers")
        address = ((len(self.buffers) + 1) << WINDOW_BITS) + LEAD
        self.buffers.append(Buffer(name, address, array.reshape(-1).view(np.uint8)))
        return address

    def address(self, name: str) -> int:
        """The device address of a mapped buffer."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer.address
        raise LaunchError(f"no buffer {name!r} is mapped; there are {', '.join(b.name for b in self.buffers)}")

    def extended(self) -> Memory:
        """A copy of the map (not of the bytes), to which a launch adds its own buffers."""
        copy = Memory()
        copy.buffers = list(self.buffers)
        return copy

    def find(self, address: int, size: int) -> tuple[Buffer, int] | None:
        """The buffer that holds [address, address+size), and the offset in it."""
        number = (address >> WINDOW_BITS) - 1
        if not 0 <= number < len(self.buffers):
            return None
        buffer = self.buffers[number]
        offset = address - buffer.address
        return (buffer, offset) if offset >= 0 and offset + size <= buffer.bytes.size else None

    def table(self) -> npt.NDArray[np.uint64]:
        """Rows of (host pointer, bytes) by window number, for the generated engine; row 0 is empty."""
        rows = np.zeros((MAX_BUFFERS + 1, 2), np.uint64)
        for number, buffer in enumerate(self.buffers):
            rows[number + 1] = buffer.bytes.ctypes.data, buffer.bytes.size
        return rows
