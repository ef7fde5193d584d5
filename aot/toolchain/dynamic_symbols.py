"""The two hash tables over the names of `.dynsym`, as ELF and GNU define them, sized as ld.lld sizes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_BLOOM_SHIFT = 26
_BLOOM_BITS = 64
_BLOOM_BITS_PER_SYMBOL = 12


def gnu_hash(name: str) -> int:
    """The GNU string hash, 32 bits."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: str) -> int:
    """The System V string hash, 28 bits."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & 0x0FFFFFFF
    return value


def _gnu_buckets(count: int) -> int:
    return max(count // 4, 1)


def gnu_order(names: Sequence[str]) -> list[str]:
    """The order of `.dynsym`: by bucket of the GNU table, otherwise as given."""
    buckets = _gnu_buckets(len(names))
    return sorted(names, key=lambda name: gnu_hash(name) % buckets)


def gnu_hash_table(ordered: Sequence[str]) -> bytes:
    """`.gnu.hash` for names in `gnu_order`: header, bloom filter, buckets, chains. Symbol 0 is not hashed."""
    buckets = _gnu_buckets(len(ordered))
    words = 1 << (len(ordered) * _BLOOM_BITS_PER_SYMBOL // _BLOOM_BITS).bit_length()
    bloom, first, chains = [0] * words, [0] * buckets, []
    hashes = [gnu_hash(name) for name in ordered]
    for index, value in enumerate(hashes):
        for bit in (value, value >> _BLOOM_SHIFT):
            bloom[value // _BLOOM_BITS % words] |= 1 << bit % _BLOOM_BITS
        bucket = value % buckets
        first[bucket] = first[bucket] or index + 1
        is_last = index + 1 == len(hashes) or hashes[index + 1] % buckets != bucket
        chains.append(value & ~1 | is_last)
    header = struct.pack("<4I", buckets, 1, words, _BLOOM_SHIFT)
    return header + struct.pack(f"<{words}Q{buckets}I{len(chains)}I", *bloom, *first, *chains)


def sysv_hash_table(ordered: Sequence[str]) -> bytes:
    """`.hash` for the same names: as many buckets as `.dynsym` has rows."""
    rows = len(ordered) + 1
    buckets, chains = [0] * rows, [0] * rows
    for index, name in enumerate(ordered, 1):
        bucket = sysv_hash(name) % rows
        chains[index], buckets[bucket] = buckets[bucket], index
    return struct.pack(f"<{2 + 2 * rows}I", rows, rows, *buckets, *chains)
