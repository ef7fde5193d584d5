"""Stores to device memory of one launch: who stored to a byte last, and which stores conflict. For the numpy engine.

Model. Two waves that store different values to one byte race, unless a barrier of their workgroup lies between and
the first had waited for its stores before it; equal values do no harm. So do two lanes of one instruction. Atomics
are not looked at. A wave has a token per stretch of its stores that nothing orders; a byte has the token of its last
store. Two workgroups are never ordered.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aot.emulator import faults
from aot.emulator.errors import LaunchError
from aot.emulator.faults import FaultSignal
from aot.emulator.memory import Buffer, Memory

TOKEN_BYTES = 4
# The token of a byte that several workgroups have stored the same value to.
SHARED_FOR_EVER = 0xFFFFFFFF
# Pages that nobody stores to take no memory, so none is to be set aside for them.
_NORESERVE = 0x4000


def token_memory(memory: Memory) -> tuple[mmap.mmap, npt.NDArray[np.uint64]]:
    """Tokens of all bytes of all buffers, zero and untouched, and per window where those of its buffer begin (as an
    offset)."""
    starts = np.zeros(len(memory.table()), np.uint64)
    total = 0
    for number, buffer in enumerate(memory.buffers):
        starts[number + 1] = total
        total += TOKEN_BYTES * (buffer.bytes.size + 64)
    try:
        return mmap.mmap(-1, max(total, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE), starts
    except OSError as error:
        raise LaunchError(f"no room to follow the stores to these buffers: {total} bytes; {error.strerror}") from error


@dataclass
class StoreLog:
    """Tokens and instruction numbers per byte of the buffers that were stored to."""

    next_token: int = 1
    group: int = 0
    shared: int = 0
    waves: list[int] = field(default_factory=list)
    serial: int = 0
    _tokens: dict[str, npt.NDArray[np.uint32]] = field(default_factory=dict)
    _serials: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def token(self) -> int:
        self.next_token += 1
        return self.next_token - 1

    def start_group(self, waves: int) -> None:
        self.group = self.next_token
        self.shared = self.token()
        self.waves = [self.token() for _ in range(waves)]

    def at_barrier(self, outstanding: list[bool]) -> None:
        """`outstanding`: whether a wave has stores that it has not waited for."""
        for wave, late in enumerate(outstanding):
            if not late:
                self.waves[wave] = self.token()
        if not any(outstanding):
            self.shared = self.token()

    def store(self, wave: int, lane: int, buffer: Buffer, offset: int, data: npt.NDArray[np.uint8]) -> None:
        """Store bytes. Raises `FaultSignal` where they conflict with an earlier store."""
        if buffer.name not in self._tokens:
            self._tokens[buffer.name] = np.zeros(buffer.bytes.size, np.uint32)
            self._serials[buffer.name] = np.zeros(buffer.bytes.size, np.int64)
        place = slice(offset, offset + data.size)
        tokens, serials = self._tokens[buffer.name][place], self._serials[buffer.name][place]
        own, there = self.waves[wave], buffer.bytes[place]
        alone = not tokens.any() or not ((tokens != own) | (serials == self.serial)).any()
        if alone:
            tokens[:], serials[:], there[:] = own, self.serial, data
            return
        elsewhere = (tokens < self.group) | (tokens == SHARED_FOR_EVER)
        unordered = elsewhere | (tokens == self.shared) | np.isin(tokens, self.waves)
        clash = (tokens != 0) & (tokens != own) & unordered
        bad = (clash | (serials == self.serial)) & (there != data)
        if bad.any():
            raise FaultSignal(
                faults.CONFLICTING_STORES, lane=lane, address=buffer.address + offset + int(np.flatnonzero(bad)[0])
            )
        tokens[:] = np.where(clash, np.where(elsewhere, SHARED_FOR_EVER, self.shared), own)
        serials[:] = self.serial
        there[:] = data
