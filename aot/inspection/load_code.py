"""Code objects of a cache, held against what its index says of them where they are loaded.

A launch follows the index: its symbol, block and arguments. An index that is not that of the code would launch
something else, whatever its checksums.
"""

from __future__ import annotations

from typing import Any

from aot.toolchain import CodeObject, read_code_object
from aot.toolchain.errors import CodeObjectError
from cache_schema.cache_reader import Cache, Entry
from cache_schema.errors import CacheError


def load_code(cache: Cache, number: int) -> bytes:
    """The code object of an entry; CacheError where the index says other things of it than it does itself."""
    entry, code = cache.entry(number), cache.code_object(number)
    try:
        found = read_code_object(code)
    except CodeObjectError as error:
        raise CacheError(f"{cache.path}: code object {entry.blob_digest}: {error}") from error
    check_facts(cache, entry, found)
    return code


def check_facts(cache: Cache, entry: Entry, found: CodeObject) -> None:
    """Hold the facts of an entry against its code object; CacheError names the first that differs."""
    arguments = entry.arguments
    said: dict[str, tuple[Any, Any]] = {
        "arch": (cache.arch, found.arch),
        "symbol": (entry.symbol, found.symbol),
        "block": (entry.block_size, found.max_flat_workgroup_size),
        "LDS": (entry.lds_bytes, found.lds_bytes),
        "scratch": (entry.scratch_bytes, found.scratch_bytes),
        "VGPRs": (entry.vgprs, found.vgprs),
        "AGPRs": (entry.agprs, found.agprs),
        "SGPRs": (entry.sgprs, found.sgprs),
        "spills": (entry.spills, (found.vgpr_spills, found.sgpr_spills)),
        "arguments": (
            [(a.name, arguments.offsets[a.name], a.size, a.kind == "ptr") for a in arguments.arguments],
            [(a.name, a.offset, a.size, a.kind == "global_buffer") for a in found.arguments],
        ),
    }
    for fact, (index, code) in said.items():
        if index != code:
            told = "" if fact == "arguments" else f": {index} there, {code} in the code"
            raise CacheError(f"{cache.path}: the index is wrong about {fact} of code object {entry.blob_digest}{told}")
