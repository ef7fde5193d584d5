"""Types of AMDGPU LLVM IR that the kernels use, as frozen values that print as LLVM does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A first-class type: its LLVM spelling, and its size and shape where they matter."""

    text: str
    bits: int
    lanes: int = 1

    def __str__(self) -> str:
        return self.text

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self.bits * self.lanes // 8

    @property
    def is_integer(self) -> bool:
        """Scalar integer."""
        return self.text[0] == "i"


I1, I16, I32, I64 = (Type(f"i{bits}", bits) for bits in (1, 16, 32, 64))
F16, BF16, F32 = Type("half", 16), Type("bfloat", 16), Type("float", 32)
GLOBAL_PTR, LDS_PTR = Type("ptr addrspace(1)", 64), Type("ptr addrspace(3)", 32)
CONSTANT_PTR, BUFFER = Type("ptr addrspace(4)", 64), Type("ptr addrspace(8)", 128)
VOID = Type("void", 0)

#: Element types by the names that identities use.
ELEMENTS = {"fp16": F16, "bf16": BF16, "fp32": F32}


def vector(lanes: int, element: Type) -> Type:
    """`<lanes x element>`; one lane is the element itself."""
    return element if lanes == 1 else Type(f"<{lanes} x {element.text}>", element.bits, lanes)


def integer(num_bytes: int) -> Type:
    """The integer of this size."""
    return Type(f"i{8 * num_bytes}", 8 * num_bytes)


def integer_of(type_: Type) -> Type:
    """The integer with as many bits, which memory instructions move."""
    return integer(type_.bytes)


def element_of(type_: Type) -> Type:
    """The scalar type that a vector type repeats."""
    return type_ if type_.lanes == 1 else Type(type_.text[1:-1].split(" x ", 1)[1], type_.bits)
