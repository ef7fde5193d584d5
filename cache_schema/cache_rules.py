"""What the columns of a cache file may hold, whoever wrote it.

Limits are those of the format and of hardware, far beyond what a catalogue has; they keep a reader's memory and loops
in bounds. What a kernel of these fields would be is for the rules of the grid to say.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from cache_schema.cache_columns import TEXT, Rule, hashes, integer
from cache_schema.digest import DIGEST_BYTES
from cache_schema.errors import CacheError
from cache_schema.facts import KEY_BYTES, RESOURCES
from cache_schema.file_families import FileFamilies
from cache_schema.outcome import OutcomeKind
from cache_schema.problem import ELEM_BYTES

#: A code object, and so what one frame unpacks to: a hundred times the largest kernel that was ever built here.
CODE_BYTES = 1 << 24
#: Candidates without a kernel: seven times those of the largest grid.
LEDGER_ROWS = 1 << 22
#: What the ledger unpacks to: 32 bytes per row, of which real ones take fewer than 20.
LEDGER_BYTES = 1 << 27
#: Different words of one text field.
VOCABULARY_WORDS = 4096
#: Waves of 64 lanes, registers of a lane and bytes of LDS that hardware is far from.
_RESOURCES = {
    **{name: integer(0, 2**32 - 1) for name in RESOURCES},
    "code_bytes": integer(1, CODE_BYTES),
    "block_size": integer(1, 1024),
    "lds_bytes": integer(0, 1 << 20),
    "vgprs": integer(0, 1024),
    "agprs": integer(0, 1024),
    "sgprs": integer(0, 1024),
}
#: Words that arithmetic depends on; all other text is only compared.
_KNOWN_WORDS = {name: tuple(ELEM_BYTES) for name in ("dtype_a", "dtype_b", "dtype_d")}


def entry_rules(kernels: int) -> dict[str, Rule]:
    """Columns of the entries."""
    return {"digest": hashes(DIGEST_BYTES), "kernel": integer(0, kernels - 1)}


def kernel_rules(layouts: int, own_symbols: bool) -> dict[str, Rule]:
    """Columns of the kernels."""
    keys = {"content_key": hashes(KEY_BYTES), "blob_digest": hashes(KEY_BYTES), "layout": integer(0, layouts - 1)}
    return {**keys, **_RESOURCES, **({"symbol": TEXT} if own_symbols else {})}


def block_rules(kernels: int, frames_bytes: int) -> dict[str, Rule]:
    """Columns of the blocks."""
    return {
        "first_kernel": integer(0, kernels - 1),
        "offset": integer(0, frames_bytes),
        "bytes": integer(1, frames_bytes),
        "raw_bytes": integer(1, CODE_BYTES),
        "crc": integer(0, 2**32 - 1),
    }


def outcome_rules(reasons: int) -> dict[str, Rule]:
    """Columns of the ledger beside the identities."""
    kinds = [int(kind) for kind in OutcomeKind if not kind.delivered]
    return {
        "kind": integer(min(kinds), max(kinds)),
        "reason": integer(0, min(reasons, 2**15) - 1),
    }


def checked_vocabulary(where: str, families: FileFamilies, vocabulary: object) -> dict[str, tuple[str, ...]]:
    """The words of every text field of the file, ascending; CacheError for anything else."""
    names = [name for name, entry in families.stored.items() if entry.kind == "str"]
    if not isinstance(vocabulary, dict) or sorted(vocabulary) != sorted(names):
        raise CacheError(f"{where}: the vocabulary is not that of its identities")
    for name in names:
        words = vocabulary[name]
        if not isinstance(words, list) or len(words) > VOCABULARY_WORDS or not all(type(w) is str for w in words):
            raise CacheError(f"{where}: the vocabulary of {name} is no list of words")
        if any(left >= right for left, right in itertools.pairwise(words)):
            raise CacheError(f"{where}: the vocabulary of {name} does not ascend")
        known = _KNOWN_WORDS.get(name)
        if known and (other := [word for word in words if word not in known]):
            raise CacheError(f"{where}: a kernel has {name} {other[0][:40]!r}; known: {', '.join(known)}")
    return {name: tuple(vocabulary[name]) for name in names}


def require_own(where: str, vocabulary: Mapping[str, Sequence[str]], arch: str, dtype: str) -> None:
    """All identities are of the architecture and data type of the cache."""
    for name, word in (("arch", arch), ("dtype_a", dtype)):
        if any(other != word for other in vocabulary.get(name, ())):
            raise CacheError(f"{where}: a cache of {arch} {dtype} has kernels of another {name}")
