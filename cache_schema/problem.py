"""One 2-D convolution problem: the question that a cache answers.

Tensors: activations NHWC and NHWK, dense; weights KYXC with channel extent C/groups, packed per group.
C and K are totals over all groups.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from cache_schema.errors import ProblemError

DIRECTIONS = ("fwd", "dgrad", "wgrad")
DTYPES = ("fp16", "bf16")
ELEM_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
#: Buffer instructions take 32-bit offsets, and 2^31 - 1 is the offset that is always out of bounds.
TENSOR_BYTES_LIMIT = 2**31
#: An empty batch or image has a defined answer (nothing, or zeros) and needs no kernel.
#: An empty filter or channel has not.
MAY_BE_ZERO = ("n", "h", "w", "pad_h", "pad_w")


@dataclass(frozen=True, slots=True)
class ConvProblem:
    """A validated convolution problem; every field is an element count except the two names in front.

    Raises `ProblemError` naming the offending field.
    """

    direction: str
    dtype: str
    n: int
    c: int
    h: int
    w: int
    k: int
    y: int
    x: int
    stride_h: int = 1
    stride_w: int = 1
    pad_h: int = 0
    pad_w: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ProblemError("direction", f"{self.direction!r} is not one of {', '.join(DIRECTIONS)}")
        if self.dtype not in DTYPES:
            raise ProblemError("dtype", f"{self.dtype!r} is not one of {', '.join(DTYPES)}")
        for field in fields(self):
            if field.name in ("direction", "dtype"):
                continue
            value, least = getattr(self, field.name), 0 if field.name in MAY_BE_ZERO else 1
            if isinstance(value, bool) or not isinstance(value, int):
                raise ProblemError(field.name, f"{value!r} is not an integer")
            if value < least:
                raise ProblemError(field.name, f"{value} is less than {least}")
        for name, extent in (("c", self.c), ("k", self.k)):
            if extent % self.groups:
                raise ProblemError("groups", f"{self.groups} groups do not divide {name} = {extent}")
        for name, extent, axis in (("h", self.ho, "y"), ("w", self.wo, "x")):
            if extent < 1:
                raise ProblemError(name, f"the output is empty: the dilated filter ({axis}) exceeds the padded image")
        for name, size in (("x", self.x_bytes), ("w", self.w_bytes), ("y", self.y_bytes)):
            if size >= TENSOR_BYTES_LIMIT:
                raise ProblemError(f"tensor {name}", f"{size} bytes; kernels address less than 2^31 bytes per tensor")

    @property
    def ho(self) -> int:
        """Output rows."""
        return (self.h + 2 * self.pad_h - self.dilation_h * (self.y - 1) - 1) // self.stride_h + 1

    @property
    def wo(self) -> int:
        """Output columns."""
        return (self.w + 2 * self.pad_w - self.dilation_w * (self.x - 1) - 1) // self.stride_w + 1

    @property
    def cpg(self) -> int:
        """Input channels per group."""
        return self.c // self.groups

    @property
    def kpg(self) -> int:
        """Output channels per group."""
        return self.k // self.groups

    @property
    def x_shape(self) -> tuple[int, int, int, int]:
        """NHWC of the input activations (and of dX)."""
        return (self.n, self.h, self.w, self.c)

    @property
    def w_shape(self) -> tuple[int, int, int, int]:
        """KYXC of the weights (and of dW), C per group."""
        return (self.k, self.y, self.x, self.cpg)

    @property
    def y_shape(self) -> tuple[int, int, int, int]:
        """NHWK of the output activations (and of dY)."""
        return (self.n, self.ho, self.wo, self.k)

    @property
    def x_bytes(self) -> int:
        """Bytes of the input activations."""
        return self.n * self.h * self.w * self.c * ELEM_BYTES[self.dtype]

    @property
    def w_bytes(self) -> int:
        """Bytes of the weights."""
        return self.k * self.y * self.x * self.cpg * ELEM_BYTES[self.dtype]

    @property
    def y_bytes(self) -> int:
        """Bytes of the output activations."""
        return self.n * self.ho * self.wo * self.k * ELEM_BYTES[self.dtype]

    @property
    def flops(self) -> int:
        """Floating-point operations of the definition: two per multiply-add, padding included."""
        return 2 * self.n * self.ho * self.wo * self.k * self.y * self.x * self.cpg
