"""AMD's pseudocode and operand tables, as shipped in the tinygrad wheel (extra `oracle`), by mnemonic and encoding."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.aot.emulator.oracle import pcode_run

ENCODINGS = (
    "VOP1Op", "VOP2Op", "VOP3Op", "VOP3POp", "VOP3SDOp", "VOPCOp", "SOP1Op", "SOP2Op", "SOPCOp", "SOPKOp", "SOPPOp",
    "SMEMOp", "DSOp", "GLOBALOp", "FLATOp", "SCRATCHOp", "MUBUFOp",
)  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """One entry of the manual: `operands` maps field names such as src0, vdst to their width in bits."""

    mnemonic: str
    encoding: str
    text: str
    operands: tuple[tuple[str, int], ...]

    def width(self, field: str) -> int:
        """Bits of an operand, 0 when the encoding has none of that name."""
        return dict(self.operands).get(field, 0)


@cache
def operations() -> dict[tuple[str, str], Operation]:
    """(mnemonic without encoding suffix, encoding) -> operation."""
    package = "tinygrad.runtime.autogen.amd.cdna"
    pcode: dict[Any, str] = importlib.import_module(f"{package}.str_pcode").PCODE
    operands: dict[Any, dict[str, Any]] = importlib.import_module(f"{package}.operands").OPERANDS
    found: dict[tuple[str, str], Operation] = {}
    for key, text in pcode.items():
        encoding = type(key).__name__
        mnemonic = key.name.removesuffix("_E32").removesuffix("_E64").lower()
        fields = tuple((name, int(entry[1])) for name, entry in operands.get(key, {}).items())
        found[mnemonic, encoding] = Operation(mnemonic, encoding, text, fields)
        if encoding.startswith("VOP"):
            pcode_run.LIBRARY.setdefault(mnemonic.upper(), text)
    return found


def text_of(mnemonic: str) -> str | None:
    """Pseudocode of a mnemonic in any encoding, None when the manual has none that can be evaluated."""
    for encoding in ENCODINGS:
        operation = operations().get((mnemonic, encoding))
        if operation is not None:
            return operation.text
    return None
