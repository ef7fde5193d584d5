"""The argument lists of the kernels, each declared once: builders, launch plans and the index read them from here.

Names follow one rule: `p_*` are extents of the problem, `*_mult`/`*_shift` the magic pair of a divisor, `*_bytes` byte
counts; the rest are launch constants worked out on the host so that the kernel need not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from aot.kernels.counter import OFFSET, Counter, Digit
from aot.kernels.magic import MagicDivisor
from cache_schema.arguments import Argument, ArgumentList

#: A kind and names of that kind with blanks between them, or a divisor, which stands for its magic pair.
Group = tuple[str, str] | MagicDivisor

#: An output pixel is (image, ho, wo), an element of the reduction (y, x, channel).
M_HO = MagicDivisor("p_Ho", "m_Ho")
M_WO = MagicDivisor("p_Wo", "m_Wo")
K_X = MagicDivisor("p_X", "k_X")
K_CPG = MagicDivisor("p_cpg", "k_cpg")
#: The element of the reduction that a thread is at, (channel, x, y), from K tile to K tile. By sign, as rows are judged
#: beside it: their conditions would need more scalar registers than there are.
K_COUNTER = Counter(
    steps={"c": "g_c_step", "x": "g_x_step", "y": "g_y_step", OFFSET: "g_step_bytes"},
    digits=(
        Digit("c", "p_cpg", (("x", "p_dW"), (OFFSET, "g_c_carry_bytes"))),
        Digit("x", "g_x_extent", (("y", "p_dH"), (OFFSET, "g_x_carry_bytes"))),
    ),
    by_sign=True,
)
FORWARD: tuple[Group, ...] = (
    ("ptr", "A B D"),
    ("u32", "A_bytes B_bytes D_bytes"),
    # GEMM extents of one group, and the row length of the output.
    ("i32", "p_M p_K_gemm p_cpg p_kpg p_K"),
    # Image and output extents, stride and padding: the decode of an output pixel.
    ("i32", "p_Hi p_Wi p_Ho p_Wo p_sH p_sW p_pH p_pW p_Y p_X p_dH p_dW"),
    M_HO, M_WO, K_X, K_CPG,
    # Byte distances in the input of: images, output rows, output columns, filter rows, filter columns.
    ("u32", "a_n_bytes a_ho_bytes a_wo_bytes a_y_bytes a_x_bytes"),
    # Byte distance from the pixel that filter tap (0, 0) meets at output (0, 0) to the first pixel.
    ("u32", "a_origin_bytes"),
    ("i32", "k_tiles uniform_taps"),
    # Uniform loop: steps to the next tap in a filter row and to the next row, and a bit per tap that ends a row.
    ("u32", "u_tap_step_bytes u_row_step_bytes u_row_ends"),
    # General loop: what `K_COUNTER` reads.
    ("i32", "g_c_step g_x_step g_y_step g_x_extent g_y_extent"),
    ("u32", "g_step_bytes g_c_carry_bytes g_x_carry_bytes"),
)  # fmt: skip


def listed(groups: Iterable[Group]) -> ArgumentList:
    """The arguments of the groups, in order."""
    return ArgumentList(tuple(argument for group in groups for argument in _declared(group)))


def with_pairs(groups: Iterable[Group], values: Mapping[str, int]) -> dict[str, int]:
    """The values, and those of the magic pairs that the groups declare."""
    whole = dict(values)
    for group in groups:
        if isinstance(group, MagicDivisor):
            whole |= group.values(values)
    return whole


def _declared(group: Group) -> Iterator[Argument]:
    kind, names = ("u32", group.names) if isinstance(group, MagicDivisor) else (group[0], group[1].split())
    return (Argument(name, kind) for name in names)


@cache
def forward_arguments() -> ArgumentList:
    """Arguments of every forward implicit-GEMM kernel."""
    return listed(FORWARD)
