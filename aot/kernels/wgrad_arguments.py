"""Arguments of the backward-weights kernels and their values. All variants take the same list.

Names follow those of the forward kernels: A is dY, B the input X, D what the kernel adds up: dW, or a workspace.
"""

from __future__ import annotations

from functools import cache

from aot.kernels.arguments import Group, listed, with_pairs
from aot.kernels.counter import OFFSET, Counter, Digit, Radix
from aot.kernels.limits import check_limits
from aot.kernels.magic import MagicDivisor
from aot.kernels.wgrad_budget import load_chunks
from cache_schema.arguments import ArgumentList
from cache_schema.problem import ELEM_BYTES, ConvProblem
from grids.addressing import canonical
from grids.gemm.records import Wgrad
from grids.geometry import ceil_div, gemm_extents
from grids.split_k import slice_extent

#: A pixel of the reduction is (image, ho, wo), a column of the product (y, x, channel); z is (group, slice).
K_HO = MagicDivisor("p_Ho", "k_Ho")
K_WO = MagicDivisor("p_Wo", "k_Wo")
N_X = MagicDivisor("p_X", "n_X")
N_CPG = MagicDivisor("p_cpg", "n_cpg")
SLICES = MagicDivisor("ks_count", "ks")
#: A K tile of all is (group, output tile along m, along n, K tile of that).
SK_K_TILES = MagicDivisor("k_tiles", "sk_k_tiles")
SK_TILES_M = MagicDivisor("sk_tiles_m", "sk_tiles_m")
SK_TILES_N = MagicDivisor("sk_tiles_n", "sk_tiles_n")
#: An element of dW is (group, m, n), or (group, element of the group); a K tile of all is (workgroup, its K tile).
FIX_M = MagicDivisor("p_wg_M", "m")
FIX_N = MagicDivisor("p_wg_N", "n")
FIX_SHARE = MagicDivisor("sk_share", "share")
SLAB = MagicDivisor("p_slab", "slab")

#: The output pixel of a row of B, (column, row), as the image coordinates that tap (0, 0) meets, from K tile to K tile.
K_COUNTER = Counter(
    steps={"w": "k_w_step", "h": "k_h_step", OFFSET: "k_step_bytes"},
    digits=(
        Digit("w", "k_w_extent", (("h", "p_sH"), (OFFSET, "k_w_carry_bytes")), "k_w_end"),
        Digit("h", "k_h_extent", ((OFFSET, "k_h_carry_bytes"),), "k_h_end"),
    ),
    early=(OFFSET,),
)
#: The column of the product, (channel, x, y), that a batched loader is at, from pass to pass.
N_COUNTER = Counter(
    steps={"c": "n_c_step", "x": "n_x_step", "y": "n_y_step", OFFSET: "n_step_bytes"},
    digits=(
        Digit("c", "p_cpg", ((OFFSET, "n_c_carry_bytes"), ("x", "p_dW"))),
        Digit("x", "n_x_extent", (("y", "p_dH"), (OFFSET, "n_x_carry_bytes"))),
    ),
    nowhere=("y", "n_y_extent"),
)

_WGRAD: tuple[Group, ...] = (
    ("ptr", "A B D"),
    ("u32", "A_bytes B_bytes"),
    # GEMM extents of one group, or of all merged groups, and row lengths of dY and dW in elements.
    ("i32", "p_wg_M p_wg_N p_wg_K p_K p_taps p_kpg p_cpg"),
    ("i32", "p_Hi p_Wi p_Ho p_Wo p_Y p_X p_sH p_sW p_pH p_pW p_dH p_dW"),
    K_HO, K_WO, N_X, N_CPG,
    # Byte distances in X of: images, output rows, output columns, filter rows, filter columns.
    ("u32", "b_n_bytes b_ho_bytes b_wo_bytes b_y_bytes b_x_bytes"),
    # Byte distance from the pixel that filter tap (0, 0) meets at output (0, 0) to the first pixel.
    ("u32", "b_origin_bytes"),
    # K tiles in all and of one slice; slices.
    ("i32", "k_tiles ks_tiles ks_count"),
    SLICES,
    # What `K_COUNTER` reads.
    ("i32", "k_h_step k_w_step k_h_end k_w_end k_h_extent k_w_extent"),
    ("u32", "k_step_bytes k_h_carry_bytes k_w_carry_bytes"),
    # What `N_COUNTER` reads.
    ("i32", "n_c_step n_x_step n_y_step n_x_extent n_y_extent"),
    ("u32", "n_step_bytes n_c_carry_bytes n_x_carry_bytes"),
)  # fmt: skip
_STREAM_K: tuple[Group, ...] = (
    *_WGRAD,
    ("ptr", "W"),
    # K tiles of all output tiles, and of one workgroup; output tiles of a group along m and n.
    ("i32", "sk_iterations sk_share sk_tiles_m sk_tiles_n"),
    SK_K_TILES, SK_TILES_M, SK_TILES_N,
)  # fmt: skip
_FIX_UP: tuple[Group, ...] = (
    ("ptr", "ws dw"),
    ("i32", "p_elements p_wg_M p_wg_N k_tiles sk_share sk_tiles_m sk_tiles_n tile_m_shift tile_n_shift"),
    FIX_M, FIX_N, FIX_SHARE,
)  # fmt: skip
_REDUCE: tuple[Group, ...] = (("ptr", "ws dw"), ("u32", "p_elements p_slab"), SLAB)

_WORD = 2**32


@cache
def wgrad_arguments() -> ArgumentList:
    """Arguments of every backward-weights implicit-GEMM kernel."""
    return listed(_WGRAD)


@cache
def stream_k_arguments() -> ArgumentList:
    """Arguments of the stream-K kernels: those of all variants, and how workgroups share the K tiles."""
    return listed(_STREAM_K)


@cache
def fix_up_arguments() -> ArgumentList:
    """Arguments of the kernel that adds up the parts that stream-K workgroups leave."""
    return listed(_FIX_UP)


@cache
def reduce_arguments() -> ArgumentList:
    """Arguments of the kernel that folds the replicas of a two-stage workspace into dW."""
    return listed(_REDUCE)


def wgrad_values(identity: Wgrad, problem: ConvProblem, degree: int = 1) -> dict[str, int]:
    """Every argument of `wgrad_arguments` except the pointers; `degree` is the number of slices of the reduction.

    Merged groups are one group with their channels side by side; only the store tells them apart. Raises `ProblemError`
    for extents beyond what 32-bit coordinates hold.
    """
    p, elem, merge, tile_k = canonical(problem), ELEM_BYTES[identity.dtype_a], identity.group_merge, identity.tile_k
    gemm = gemm_extents(p)
    stride_h, stride_w = (p.stride_h if p.ho > 1 else 1), (p.stride_w if p.wo > 1 else 1)
    check_limits(identity, p)
    cpg, tiles = p.cpg * merge, ceil_div(gemm.k, tile_k)
    pixel, row = p.c * elem, p.w * p.c * elem
    image, tap, tap_row = p.h * row, p.dilation_w * pixel, p.dilation_h * row
    return with_pairs(_WGRAD, {
        "A_bytes": p.y_bytes, "B_bytes": p.x_bytes,
        "p_wg_M": gemm.m * merge, "p_wg_N": gemm.n * merge, "p_wg_K": gemm.k, "p_K": p.k, "p_taps": p.y * p.x,
        "p_kpg": p.kpg * merge, "p_cpg": cpg,
        "p_Hi": p.h, "p_Wi": p.w, "p_Ho": p.ho, "p_Wo": p.wo, "p_Y": p.y, "p_X": p.x, "p_sH": stride_h,
        "p_sW": stride_w, "p_pH": p.pad_h, "p_pW": p.pad_w, "p_dH": p.dilation_h, "p_dW": p.dilation_w,
        "b_n_bytes": image % _WORD, "b_ho_bytes": stride_h * row % _WORD, "b_wo_bytes": stride_w * pixel % _WORD,
        "b_y_bytes": tap_row % _WORD, "b_x_bytes": tap % _WORD,
        "b_origin_bytes": (p.pad_h * row + p.pad_w * pixel) % _WORD,
        "k_tiles": tiles, "ks_count": degree,
        "ks_tiles": slice_extent(gemm_k=gemm.k, tile_k=tile_k, degree=degree) // tile_k,
        **K_COUNTER.values(tile_k, {
            "w": Radix(p.wo, stride_w * pixel, stride_w, -p.pad_w),
            "h": Radix(p.ho, stride_h * row, stride_h, -p.pad_h),
            "image": Radix(p.n, image),
        }),
        **N_COUNTER.values(load_chunks(identity)[1].pass_cols, {
            "c": Radix(cpg, elem), "x": Radix(p.x, tap, p.dilation_w), "y": Radix(p.y, tap_row, p.dilation_h),
        }),
    })  # fmt: skip


def reduce_values(problem: ConvProblem) -> dict[str, int]:
    """Every argument of `reduce_arguments` except the pointers."""
    gemm = gemm_extents(problem)
    slab = gemm.m * gemm.n
    return with_pairs(_REDUCE, {"p_elements": problem.groups * slab, "p_slab": slab})


def stream_k_values(identity: Wgrad, problem: ConvProblem, share: int) -> dict[str, int]:
    """Every argument of `stream_k_arguments` except the pointers; `share` is the number of K tiles of a workgroup."""
    values = wgrad_values(identity, problem)
    gemm = gemm_extents(problem)
    tiles_m, tiles_n = ceil_div(gemm.m, identity.tile_m), ceil_div(gemm.n, identity.tile_n)
    iterations = problem.groups * tiles_m * tiles_n * values["k_tiles"]
    values |= {"sk_iterations": iterations, "sk_share": share, "sk_tiles_m": tiles_m, "sk_tiles_n": tiles_n}
    return with_pairs(_STREAM_K, values)


def fix_up_values(tile: tuple[int, int, int], problem: ConvProblem, share: int) -> dict[str, int]:
    """Every argument of `fix_up_arguments` except the pointers, for the parts that a stream-K kernel leaves.

    `tile` is the (m, n, k) of that kernel, `share` the K tiles of one of its workgroups.
    """
    gemm, (tile_m, tile_n, tile_k) = gemm_extents(problem), tile
    return with_pairs(_FIX_UP, {
        "p_elements": problem.groups * gemm.m * gemm.n, "p_wg_M": gemm.m, "p_wg_N": gemm.n,
        "k_tiles": ceil_div(gemm.k, tile_k), "sk_share": share,
        "sk_tiles_m": ceil_div(gemm.m, tile_m), "sk_tiles_n": ceil_div(gemm.n, tile_n),
        "tile_m_shift": tile_m.bit_length() - 1, "tile_n_shift": tile_n.bit_length() - 1,
    })  # fmt: skip
