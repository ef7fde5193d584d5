"""Matrix instructions: shapes, element types and lane maps.

For an atom m x n x k with `blocks` independent products on a wave of 64 lanes (l the lane, E = m = n the edge):

    A: row l mod E, k = (l div E mod (64/E/blocks))*per_lane + j; the block is what remains of l div E. B: the same,
    column. D: for blocks of one: 16x16 row 4*(l div 16)+i; 32x32 row 8*(i div 4) + 4*(l div 32) + (i mod 4); column l
    mod E.

Accumulation is f32: D = C + sum over k, one fused multiply-add per k, operands and sums with their denormals. k
rises; of each pair (2p, 2p+1) of a 16-bit type the odd one comes first, as in the host's own dot product of bf16
pairs. The hardware adds groups of products in another order; the difference is within the error bound of any use. A
NaN is the default one: the manual names no other.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.emulator.isa.spec import BOTH, ONLY_950


@dataclass(frozen=True)
class MatrixSpec:
    """One MFMA: `element` is the type of A and B (f16, bf16, f32, f64, i8), `accumulator` of C and D."""

    name: str
    m: int
    n: int
    k: int
    element: str
    accumulator: str = "f32"
    blocks: int = 1
    targets: frozenset[str] = BOTH
    unit: str = "mfma"

    @property
    def per_lane(self) -> int:
        """Elements of A (and of B) per lane."""
        return self.m * self.k * self.blocks // 64

    @property
    def operand_dwords(self) -> int:
        bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "i8": 8}[self.element]
        return max(1, self.per_lane * bits // 32)

    @property
    def accumulators(self) -> int:
        """Elements of C and D per lane."""
        return self.m * self.n * self.blocks // 64

    @property
    def accumulator_dwords(self) -> int:
        return self.accumulators * (2 if self.accumulator == "f64" else 1)

    @property
    def k_order(self) -> list[int]:
        """The order in which products are added."""
        if self.element in ("f16", "bf16"):
            return [k ^ 1 for k in range(self.k)]
        return list(range(self.k))

    def a_place(self, lane: int, j: int) -> tuple[int, int, int]:
        """Block, row and k of element j of a lane; for B: block, column and k."""
        groups = lane // self.m
        per_block = 64 // self.m // self.blocks if self.blocks * self.m <= 64 else 1
        block, slab = divmod(groups, per_block)
        return block, lane % self.m, slab * self.per_lane + j

    def d_place(self, lane: int, i: int) -> tuple[int, int, int]:
        """Block, row and column of accumulator i of a lane."""
        if self.accumulator == "f64" and self.m == 16:
            return 0, 4 * i + lane // 16, lane % 16
        if self.m == 4:
            return lane // 4, i, lane % 4
        rows_per_step = 4 * (64 // self.n)
        per_block = self.accumulators // self.blocks
        block, within = divmod(i, per_block)
        row = rows_per_step * (within // 4) + 4 * (lane // self.n) + within % 4
        return block, row, lane % self.n


MFMA: dict[str, MatrixSpec] = {}


def _add(name: str, m: int, n: int, k: int, element: str, **options: object) -> None:
    MFMA[name] = MatrixSpec(name, m, n, k, element, **options)  # type: ignore[arg-type]


for _edge, _ks in ((32, (8, 16)), (16, (16, 32))):
    _add(f"v_mfma_f32_{_edge}x{_edge}x{_ks[0]}_f16", _edge, _edge, _ks[0], "f16")
    _add(f"v_mfma_f32_{_edge}x{_edge}x{_ks[0]}_bf16", _edge, _edge, _ks[0], "bf16")
    _add(f"v_mfma_f32_{_edge}x{_edge}x{_ks[1]}_f16", _edge, _edge, _ks[1], "f16", targets=ONLY_950)
    _add(f"v_mfma_f32_{_edge}x{_edge}x{_ks[1]}_bf16", _edge, _edge, _ks[1], "bf16", targets=ONLY_950)
    _add(f"v_mfma_i32_{_edge}x{_edge}x{_ks[1]}_i8", _edge, _edge, _ks[1], "i8", accumulator="i32")
    _add(
        f"v_mfma_i32_{_edge}x{_edge}x{2 * _ks[1]}_i8",
        _edge,
        _edge,
        2 * _ks[1],
        "i8",
        accumulator="i32",
        targets=ONLY_950,
    )
_add("v_mfma_f32_32x32x2_f32", 32, 32, 2, "f32")
_add("v_mfma_f32_16x16x4_f32", 16, 16, 4, "f32")
_add("v_mfma_f32_32x32x1_2b_f32", 32, 32, 1, "f32", blocks=2)
_add("v_mfma_f32_16x16x1_4b_f32", 16, 16, 1, "f32", blocks=4)
_add("v_mfma_f32_4x4x1_16b_f32", 4, 4, 1, "f32", blocks=16)
for _t in ("f16", "bf16"):
    _add(f"v_mfma_f32_32x32x4_2b_{_t}", 32, 32, 4, _t, blocks=2)
    _add(f"v_mfma_f32_16x16x4_4b_{_t}", 16, 16, 4, _t, blocks=4)
    _add(f"v_mfma_f32_4x4x4_16b_{_t}", 4, 4, 4, _t, blocks=16)
_add("v_mfma_f64_16x16x4_f64", 16, 16, 4, "f64", accumulator="f64")
