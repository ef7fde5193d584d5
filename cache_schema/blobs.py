"""Code objects in solid blocks: similar kernels in one zstd frame, so that they compress against each other.

A frame holds the code objects of one block end to end; their lengths are in the kernel columns. Frames are a pure
function of their blobs, so that blocks may be compressed anywhere and in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

import zstandard

#: The densest level that still decodes at full speed; above it only the memory of the compressor grows.
LEVEL = 19
#: A block ends at this many kernels or bytes. Decoding one kernel decodes its block, which has to stay well below
#: 1 ms: zstd gives 2 GB/s here. Twice as large would be 10 % denser, half as large 10 % less.
BLOCK_KERNELS = 96
BLOCK_BYTES = 768 * 1024
#: Decoded blocks kept: enough for neighbours in similarity order, small beside the caller's own memory.
DECODED_BLOCKS = 8

BlockT = TypeVar("BlockT")


def compress_block(blobs: Sequence[bytes]) -> bytes:
    """The frame of one block. Depends on the blobs and the zstandard version only."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False, write_content_size=True)
    return compressor.compress(b"".join(blobs))


def decompress_block(frame: bytes | memoryview, raw_bytes: int) -> bytes:
    """The joined blobs of a frame that holds exactly `raw_bytes`, and is nothing else; ValueError otherwise.

    No more than `raw_bytes` are ever allocated: the caller limits them.
    """
    try:
        content = zstandard.frame_content_size(frame)
        if content != raw_bytes:
            raise ValueError(f"frame of {content} bytes, expected {raw_bytes}")
        raw = zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(f"not a zstd frame: {error}") from error
    if len(raw) != raw_bytes:
        raise ValueError(f"frame decoded to {len(raw)} bytes, expected {raw_bytes}")
    return raw


def block_starts(code_bytes: Sequence[int]) -> list[int]:
    """First kernel of every block, for kernels in similarity order."""
    starts: list[int] = []
    kernels, size = BLOCK_KERNELS, 0
    for kernel, length in enumerate(code_bytes):
        if kernels == BLOCK_KERNELS or size + length > BLOCK_BYTES:
            starts.append(kernel)
            kernels, size = 0, 0
        kernels += 1
        size += length
    return starts


class BlockCache(Generic[BlockT]):
    """The blocks decoded last, so that walking kernels in order decodes each block once. Safe between threads."""

    def __init__(self, decode: Callable[[int], BlockT], capacity: int = DECODED_BLOCKS) -> None:
        self._decode, self._capacity = decode, capacity
        self._blocks: OrderedDict[int, BlockT] = OrderedDict()
        self._lock = Lock()

    def __getitem__(self, block: int) -> BlockT:
        with self._lock:
            if block in self._blocks:
                self._blocks.move_to_end(block)
            else:
                self._blocks[block] = self._decode(block)
                while len(self._blocks) > self._capacity:
                    self._blocks.popitem(last=False)
            return self._blocks[block]
