"""What the farm's unit takes and reports: plain data between workers, parent and store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from aot.toolchain.toolchain import Toolchain
from cache_schema.arguments import ArgumentList
from cache_schema.outcome import OutcomeKind
from cache_schema.table import IdentityTable

# In the order of a kernel's life. "claim" is the wait for the parent's answer; parse and passes are part of compiling.
STAGES = ("emission", "claim", "codegen", "link", "read", "parse", "passes")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Work for one call of the unit. `rows[i]` is the caller's number of `identities.row(i)`."""

    rows: tuple[int, ...]
    identities: IdentityTable
    toolchain: Toolchain


@dataclass(frozen=True, slots=True)
class Emission:
    """What is known of a kernel before it is compiled."""

    key: bytes  # content key, 32 bytes
    arguments: ArgumentList
    block_size: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What the code object says of itself."""

    lds_bytes: int
    vgprs: int
    agprs: int
    sgprs: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """A finished code object."""

    facts: Facts
    code: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no code object: the stage that failed and its message, one line.

    It is `passing` where the machine failed and not the kernel.
    """

    stage: str
    message: str
    passing: bool = False


@dataclass(frozen=True, slots=True)
class UnitResult:
    """One grid point's result. `made` is None for a kernel whose claim was refused: another row has its code."""

    emission: Emission | None
    made: Compiled | Failure | None
    seconds: dict[str, float]  # by stage, see STAGES


#: May this worker compile the kernel of this row? No, when its key is compiled already or by somebody else.
Claim = Callable[[int, Emission], bool]


class Origin(Enum):
    """Where a code object lies until the cache file is written."""

    JOURNAL = "journal"  # at this byte
    PREVIOUS = "previous"  # in the cache file of the last build, under this entry


@dataclass(frozen=True, slots=True)
class StoredCode:
    """A finished code object and where to find its bytes."""

    origin: Origin
    facts: Facts
    sha256: bytes
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class Lapse:
    """Why something is missing: a kind of failure, and the message."""

    kind: OutcomeKind
    detail: str
