"""One kernel of a cache: what it is, what it needs, what its loops are made of."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from aot.families import family_of
from aot.family import KernelFamily
from aot.inspection.hot_loop import KernelStatistics, kernel_statistics
from aot.inspection.load_code import check_facts
from aot.inspection.occupancy import Occupancy, occupancy
from aot.toolchain import Instruction, Toolchain, disassemble, read_code_object
from aot.toolchain.errors import CodeObjectError, ToolchainMissingError
from aot.toolchain.loader_contract import Expected, Violation, violations
from cache_schema.cache_reader import Cache, Entry
from cache_schema.errors import DeliveryError
from cache_schema.identity import Identity, schema_of, values_of
from cache_schema.label import encode
from grids import families as grid_families


@dataclass(frozen=True)
class KernelReport:
    """One entry, read from its code object. Without a disassembler there are no statistics, and `unread` says why.

    `violations` are the requirements of loaders and launches that the code object breaks.
    """

    entry: Entry
    occupancy: Occupancy
    violations: tuple[Violation, ...]
    statistics: KernelStatistics | None
    instructions: tuple[Instruction, ...]
    unread: str = ""

    @property
    def family(self) -> KernelFamily:
        """The family of the kernel; `UnknownValueError` for one that belongs to none."""
        return family_of(self.entry.identity)

    @property
    def steps(self) -> tuple[str, ...]:
        """Labels of the other kernels that its plans launch."""
        return tuple(map(encode, grid_families.family_of(self.entry.identity).steps(self.entry.identity)))

    def to_json(self) -> dict[str, Any]:
        """Plain data without the instructions."""
        entry = self.entry
        offsets = entry.arguments.offsets
        return {
            "label": encode(entry.identity),
            "digest": entry.digest.hex(),
            "identity": values_of(entry.identity),
            "family": self.family.name,
            "alone": self.family.alone,
            "steps": list(self.steps),
            "symbol": entry.symbol,
            "content_key": entry.content_key,
            "code_object": entry.blob_digest,
            "code_bytes": entry.code_bytes,
            "resources": {
                "block_size": entry.block_size,
                "vgprs": entry.vgprs,
                "agprs": entry.agprs,
                "sgprs": entry.sgprs,
                "lds_bytes": entry.lds_bytes,
                "scratch_bytes": entry.scratch_bytes,
                "vgpr_spills": entry.spills[0],
                "sgpr_spills": entry.spills[1],
                "waves_per_simd": self.occupancy.waves_per_simd,
                "workgroups_per_cu": self.occupancy.workgroups_per_cu,
                "occupancy_limit": self.occupancy.limit,
            },
            "arguments": [
                {"name": a.name, "kind": a.kind, "offset": offsets[a.name], "size": a.size}
                for a in entry.arguments.arguments
            ],
            "loader_contract": [
                {"requirement": v.requirement.name, "required_by": v.requirement.who, "found": v.found}
                for v in self.violations
            ],
            "statistics": self.statistics.to_json() if self.statistics else None,
            "unread": self.unread,
        }

    def listing(self) -> list[str]:
        """The disassembly, one instruction per line; loops with matrix instructions are marked in the margin.

        Raises DeliveryError where there is no disassembler.
        """
        statistics = self.statistics
        if statistics is None:
            raise DeliveryError(self.unread)
        marks = {
            start: (end, "#" if number == statistics.hot else "|")
            for number, loop in enumerate(statistics.loops)
            for start, end in loop.spans
        }
        lines, until, mark = [], 0, " "
        for instruction in self.instructions:
            address = instruction.address
            if address >= until:
                until, mark = marks.get(address, (0, " "))
            lines.append(f"{mark} {address:6x}  {instruction.mnemonic:<32} {instruction.operands}".rstrip())
        return lines


def report_kernel(cache: Cache, number: int, toolchain: Toolchain | None = None) -> KernelReport:
    """Decode and disassemble one entry.

    Raises CacheError for a damaged code object, and for one of which the index says what is not so.
    """
    entry, code = cache.entry(number), cache.code_object(number)
    with contextlib.suppress(CodeObjectError):  # the contract says what is wrong with one that cannot be read
        check_facts(cache, entry, read_code_object(code))
    held = occupancy(
        cache.arch, vgprs=entry.vgprs, sgprs=entry.sgprs, lds_bytes=entry.lds_bytes, block_size=entry.block_size
    )
    broken = violations(code, Expected(cache.arch, entry.symbol, entry.arguments, entry.block_size))
    try:
        instructions = tuple(disassemble(toolchain, code))
    except ToolchainMissingError as error:
        return KernelReport(entry, held, broken, None, (), str(error))
    return KernelReport(entry, held, broken, kernel_statistics(instructions), instructions)


def set_fields(identity: Identity) -> list[tuple[str, str | int | bool]]:
    """Fields that are not at their default, in declaration order."""
    values = [(field, getattr(identity, field.name)) for field in schema_of(identity).fields]
    return [(field.name, value) for field, value in values if value != field.default]
