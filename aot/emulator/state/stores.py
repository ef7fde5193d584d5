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
from aot.emulator.state.memory import MAX_BUFFERS, Buffer, Memory

TOKEN_BYTES = 4
# The first token of a launch is that of bytes that several workgroups have stored the same value to.
FIRST_TOKEN = 1
# Pages that nobody stores to take no memory, so none is to be set aside for them.
_NORESERVE = 0x4000
# Enough for the problems of verification.
KEPT_BYTES = 64 << 20
# One launch uses far less than what remains above.
LAST_TOKEN = 1 << 31


@dataclass
class TokenMemory:
    """Tokens of all bytes of all buffers, for the generated engine. Those below `first` are of earlier launches."""

    tokens: npt.NDArray[np.uint8]
    first: int = FIRST_TOKEN


# Free for the next launch: its pages are there already, and need not be cleared.
_FREE: list[TokenMemory] = []


def take_tokens(memory: Memory) -> tuple[TokenMemory, npt.NDArray[np.uint64]]:
    """Room for the tokens of a launch, and per window where those of its buffer are."""
    starts = np.zeros(MAX_BUFFERS + 1, np.uint64)
    total = 0
    for number, buffer in enumerate(memory.buffers):
        starts[number + 1] = total
        total += TOKEN_BYTES * buffer.bytes.size
    total = max(total, KEPT_BYTES)
    kept = _FREE.pop() if total == KEPT_BYTES and _FREE else None
    if kept is None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            kept = TokenMemory(np.frombuffer(mmap.mmap(-1, total, flags=flags), np.uint8))
        except OSError as error:
            text = f"no room to follow the stores to these buffers: {total} bytes; {error.strerror}"
            raise LaunchError(text) from error
    return kept, starts + np.uint64(kept.tokens.ctypes.data)


def give_back(kept: TokenMemory, next_token: int) -> None:
    """A launch is over; `next_token` is the first one that it did not use."""
    if kept.tokens.size == KEPT_BYTES and next_token < LAST_TOKEN:
        kept.first = next_token
        _FREE.append(kept)


@dataclass
class StoreLog:
    """Tokens and instruction numbers per byte of the buffers that were stored to."""

    next_token: int = FIRST_TOKEN + 1
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
        elsewhere = tokens < self.group
        unordered = elsewhere | (tokens == self.shared) | np.isin(tokens, self.waves)
        clash = (tokens != 0) & (tokens != own) & unordered
        bad = (clash | (serials == self.serial)) & (there != data)
        if bad.any():
            raise FaultSignal(
                faults.CONFLICTING_STORES, lane=lane, address=buffer.address + offset + int(np.flatnonzero(bad)[0])
            )
        tokens[:] = np.where(clash, np.where(elsewhere, FIRST_TOKEN, self.shared), own)
        serials[:] = self.serial
        there[:] = data
